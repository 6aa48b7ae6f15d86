//! The derivation of the age threshold (§4). Symbols are those of the docs: E, tGP, P, K, A, G, C.

use chrono::TimeDelta;

use super::window::Schedule;
use crate::policy::{AgeThreshold, Settings};

/// An estimate that isn't given: how long an instance takes to come up.
const PROVISIONING: TimeDelta = TimeDelta::minutes(5);
/// An estimate that isn't given: how long a node takes to drain.
const DRAIN: TimeDelta = TimeDelta::minutes(10);
/// A rotation's three transitions are each seen at most one pass late; one more for round trips.
const BUFFER_PASSES: i64 = 4;

/// A lifetime: of a claim, or of a pool's template as its representative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// `E`; `None` for `Never`.
    pub expire_after: Option<TimeDelta>,
    /// `tGP`; `None` where unset.
    pub grace: Option<TimeDelta>,
}

/// What follows from a policy, its schedule and a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// `E`.
    pub expire_after: Option<TimeDelta>,
    /// `P`: the time between passes when always open; `None` where no window ever opens.
    pub period: Option<TimeDelta>,
    /// `t_rot`: the deadline bound.
    pub t_rot: TimeDelta,
    /// `t_rot_est`: the expected service time.
    pub t_rot_est: TimeDelta,
    /// The drain's part of `t_rot_est`.
    pub drain_estimate: TimeDelta,
    /// `tGP + buffer`, or `drainTimeout + buffer`: a drain longer than this is stuck.
    pub drain_bound: TimeDelta,
    /// `leadTime`; `None` where no window ever opens.
    pub lead_time: Option<TimeDelta>,
    /// `A`; `None` for `Never` without an override, and where no window ever opens without one.
    pub age_threshold: Option<TimeDelta>,
    /// `G`; `None` without a deadline.
    pub chances: Option<i64>,
    /// `C`: starts that one occurrence admits; 0 where no window ever opens.
    pub capacity: i64,
}

impl Derivation {
    /// Derives everything for one lifetime. `cadence` is the time between passes; `buffer` = 4 x cadence.
    pub fn of(settings: &Settings, schedule: &Schedule, lifetime: Lifetime, cadence: TimeDelta) -> Self {
        let grace = grace(settings, lifetime);
        let drain_bound = add(grace, times(cadence, BUFFER_PASSES));
        let t_rot = add(settings.ready_timeout, drain_bound);
        let provisioning = settings.provisioning_estimate.unwrap_or(PROVISIONING).min(settings.ready_timeout);
        let drain_estimate = match (settings.drain_estimate, lifetime.grace) {
            (Some(estimate), None) => estimate,
            (estimate, _) => estimate.unwrap_or(DRAIN).min(grace),
        };
        let t_rot_est = add(provisioning, drain_estimate);
        let period = if schedule.always_open { Some(cadence) } else { schedule.period };
        let lead_time = period.map(|period| add(times(period, settings.min_rotation_chances.max(0)), t_rot));
        let expire_after = lifetime.expire_after;
        let age_threshold = match settings.age_threshold {
            AgeThreshold::Override(age) => Some(age),
            AgeThreshold::Auto => expire_after.zip(lead_time).map(|(lifetime, lead)| subtract(lifetime, lead)),
        };
        let chances = expire_after.map(|lifetime| match (settings.age_threshold, period) {
            (_, None) => 0,
            (AgeThreshold::Auto, Some(_)) => settings.min_rotation_chances,
            (AgeThreshold::Override(age), Some(period)) => floor_ratio(subtract(subtract(lifetime, t_rot), age), period),
        });
        let capacity = capacity(schedule, add(t_rot_est, settings.cooldown_after));
        Self { expire_after, period, t_rot, t_rot_est, drain_estimate, drain_bound, lead_time, age_threshold, chances, capacity }
    }

    /// Short lead (§5): the lifetime leaves no age at which K chances would still come (`E <= leadTime`).
    pub fn is_short_lead(&self) -> bool {
        self.expire_after.zip(self.lead_time).is_some_and(|(lifetime, lead)| lifetime <= lead)
    }
}

/// The age past which a claim with this lifetime is triggered: its own `A`, or the override. `None` for never: a claim that
/// never expires has no deadline to be ahead of, unless an override says how old it may get. Zero or less where the claim
/// is due from its first moment on.
pub fn trigger(settings: &Settings, schedule: &Schedule, lifetime: Lifetime, cadence: TimeDelta) -> Option<TimeDelta> {
    Derivation::of(settings, schedule, lifetime, cadence).age_threshold
}

/// `tGP` as formulas use it: what bounds a drain.
fn grace(settings: &Settings, lifetime: Lifetime) -> TimeDelta {
    lifetime.grace.unwrap_or(settings.drain_timeout).max(TimeDelta::zero())
}

/// `C = ceil(D / service)`. When always open, one service after the other: each is an occurrence of its own.
fn capacity(schedule: &Schedule, service: TimeDelta) -> i64 {
    match schedule.shortest {
        _ if schedule.always_open => 1,
        None => 0,
        Some(shortest) => floor_ratio(subtract(shortest, TimeDelta::milliseconds(1)), service).saturating_add(1),
    }
}

/// `floor(span / unit)`; a unit of nothing counts as the smallest there is.
fn floor_ratio(span: TimeDelta, unit: TimeDelta) -> i64 {
    span.num_milliseconds().div_euclid(unit.num_milliseconds().max(1))
}

pub(super) fn add(left: TimeDelta, right: TimeDelta) -> TimeDelta {
    left.checked_add(&right).unwrap_or(if right < TimeDelta::zero() { TimeDelta::MIN } else { TimeDelta::MAX })
}

pub(super) fn subtract(left: TimeDelta, right: TimeDelta) -> TimeDelta {
    left.checked_sub(&right).unwrap_or(if right < TimeDelta::zero() { TimeDelta::MAX } else { TimeDelta::MIN })
}

pub(super) fn times(span: TimeDelta, count: i64) -> TimeDelta {
    let product = i128::from(span.num_milliseconds()) * i128::from(count);
    let longest = i128::from(TimeDelta::MAX.num_milliseconds());
    i64::try_from(product.clamp(-longest, longest)).ok().and_then(TimeDelta::try_milliseconds).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests;
