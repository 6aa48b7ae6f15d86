//! The derivation of the age threshold (§4). Symbols are those of the docs: E, tGP, P, K, A, G, C.

use chrono::TimeDelta;

use super::window::Schedule;
use crate::policy::Settings;

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
    /// `P`; `None` where no window ever opens.
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
    /// `A`; `None` for `Never` without an override.
    pub age_threshold: Option<TimeDelta>,
    /// `G`; `None` without a deadline.
    pub chances: Option<i64>,
    /// `C`: starts that one occurrence admits.
    pub capacity: i64,
}

impl Derivation {
    /// Derives everything for one lifetime. `cadence` is the time between passes; `buffer` = 4 x cadence.
    pub fn of(_settings: &Settings, _schedule: &Schedule, _lifetime: Lifetime, _cadence: TimeDelta) -> Self {
        todo!()
    }
}
