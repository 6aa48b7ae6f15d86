//! The census of a pool's claims and the choice of the next candidate (§5).

use std::cell::RefCell;

use chrono::TimeDelta;

use crate::{
    api::{
        karpenter::NodeClaim,
        keys,
        time::{Time, later},
    },
    policy::Settings,
    rotation::effect::retry_count,
    schedule::{
        derive::{Derivation, Lifetime},
        window::Schedule,
    },
};

mod census;

pub use census::{Around, Census};

/// Where a claim stands; every claim is in exactly one bucket, the first that fits in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Its rotation is anchored.
    InFlight,
    /// It is being deleted.
    Deleting,
    /// `expired`.
    Terminal,
    /// Its Node carries the operator's do-not-disrupt. Known only where a claim of the pool is triggered.
    OptedOut,
    /// No Node, Node gone, or not Ready.
    NotReady,
    /// Too young.
    NotTriggered,
    /// A failed attempt is too recent, or this pass's sweep fails it.
    InBackoff,
    /// The API server refuses to have it written: found by this pass's rehearsal.
    Unwritable,
    /// May be rotated now.
    Eligible,
}

impl Bucket {
    /// The name for people, in kebab case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in-flight",
            Self::Deleting => "deleting",
            Self::Terminal => "terminal",
            Self::OptedOut => "opted-out",
            Self::NotReady => "not-ready",
            Self::NotTriggered => "not-triggered",
            Self::InBackoff => "in-backoff",
            Self::Unwritable => "unwritable",
            Self::Eligible => "eligible",
        }
    }
}

/// A claim that may be rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The claim.
    pub claim: String,
    /// Its Node.
    pub node: String,
    /// When it was created.
    pub created: Time,
    /// When Karpenter expires it; `None` for never.
    pub deadline: Option<Time>,
    /// When it was triggered.
    pub triggered_at: Option<Time>,
    /// Whether the operator asked for it.
    pub asked_for: bool,
}

/// What the census is taken with.
pub struct Rules<'a> {
    /// The settings of the policy.
    pub settings: &'a Settings,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// The time between passes.
    pub cadence: TimeDelta,
    /// Now.
    pub now: Time,
    last: RefCell<Option<Derived>>,
}

/// The derivation of the lifetime that was asked for last: most claims of a pool have the same.
#[derive(Debug, Clone)]
pub struct Derived {
    /// `expireAfter` and `terminationGracePeriod` as they stand in a claim.
    lifetime: (Option<String>, Option<String>),
    derivation: Derivation,
}

impl<'a> Rules<'a> {
    /// The rules under these settings.
    pub fn new(settings: &'a Settings, schedule: &'a Schedule, cadence: TimeDelta, now: Time) -> Self {
        Self { settings, schedule, cadence, now, last: RefCell::new(None) }
    }

    /// The same, with what was derived under rules that derive alike.
    pub fn knowing(self, derived: Option<Derived>) -> Self {
        Self { last: RefCell::new(derived), ..self }
    }

    /// What was derived last.
    pub fn derived(self) -> Option<Derived> {
        self.last.into_inner()
    }

    /// The derivation for one claim, by its own lifetime.
    pub fn derivation(&self, claim: &NodeClaim) -> Derivation {
        let spec = &claim.spec;
        if let Some(last) = &*self.last.borrow()
            && last.lifetime.0 == spec.expire_after
            && last.lifetime.1 == spec.termination_grace_period
        {
            return last.derivation;
        }
        let lifetime = Lifetime { expire_after: spec.expire_after(), grace: spec.grace() };
        let derivation = Derivation::of(self.settings, self.schedule, lifetime, self.cadence);
        let lifetime = (spec.expire_after.clone(), spec.termination_grace_period.clone());
        self.last.replace(Some(Derived { lifetime, derivation }));
        derivation
    }

    /// When a claim is triggered: past this instant it is due. `None` for never.
    pub fn trigger(&self, claim: &NodeClaim) -> Option<Time> {
        let by_age = || Some(later(claim.metadata.creation_timestamp?, self.derivation(claim).age_threshold?));
        soonest(soonest(by_age(), self.chances_run_low(claim)), requested_at(claim))
    }

    /// The latest start that still ends before the claim's deadline: deadline - t_rot. `None` for never.
    pub fn latest_start(&self, claim: &NodeClaim) -> Option<Time> {
        Some(later(self.deadline(claim)?, -self.derivation(claim).t_rot))
    }

    pub(crate) fn deadline(&self, claim: &NodeClaim) -> Option<Time> {
        Some(later(claim.metadata.creation_timestamp?, self.derivation(claim).expire_after?))
    }

    /// When blackouts leave the claim no more than K chances: due from then on, so that it is rotated before them (§3). But
    /// not before its replacement would live to see an opening that the claim itself doesn't: what a rotation gains
    /// nothing for would be rotated again and again.
    fn chances_run_low(&self, claim: &NodeClaim) -> Option<Time> {
        if self.schedule.blackouts.is_empty() {
            return None;
        }
        let (created, latest) = (claim.metadata.creation_timestamp?, self.latest_start(claim)?);
        let low = self.schedule.chances_run_low(self.now, latest, self.settings.min_rotation_chances, self.cadence)?;
        let gains = later(created, self.schedule.opening_after(latest)? - latest);
        Some(low.max(gains))
    }

    /// Whether a claim with this trigger is past it, or asked for.
    fn is_past(&self, claim: &NodeClaim, trigger: Option<Time>) -> bool {
        self.is_asked_for(claim) || trigger.is_some_and(|trigger| self.now > trigger)
    }

    /// Whether the operator asked for this claim, from now or earlier on, whatever its age.
    pub fn is_asked_for(&self, claim: &NodeClaim) -> bool {
        requested_at(claim).is_some_and(|from| from <= self.now)
    }

    /// When a failed claim may be tried again: after its escalated backoff, or when the next occurrence opens (§4.4).
    /// `None` where nothing holds it.
    pub fn backoff_until(&self, claim: &NodeClaim) -> Option<Time> {
        let failed_at = claim.metadata.stamp(keys::FAILED_AT).time()?;
        let backoff = escalated(self.settings.retry_backoff, retry_count(&claim.metadata));
        // A stamp from a wrong clock must not hold the claim for good.
        if failed_at > later(self.now, self.cadence) {
            return None;
        }
        let until = later(failed_at, backoff);
        let until = self.schedule.next_start(failed_at).map_or(until, |opens| opens.min(until));
        (self.now < until).then_some(until)
    }
}

/// The order of candidates, and of pools that compete for a grant; smaller is sooner.
pub fn urgency(candidate: &Candidate) -> (bool, bool, Option<Time>, Time) {
    (!candidate.asked_for, candidate.deadline.is_none(), candidate.deadline, candidate.created)
}

/// From when on the operator wants this claim rotated; unreadable is not asked for.
fn requested_at(claim: &NodeClaim) -> Option<Time> {
    claim.metadata.stamp(keys::ROTATE_REQUESTED).time()
}

/// `retryBackoff * 2^(retry-count - 1)`, at most 8x.
fn escalated(backoff: TimeDelta, retries: u32) -> TimeDelta {
    let factor = 1 << retries.saturating_sub(1).min(3);
    backoff.checked_mul(factor).unwrap_or(TimeDelta::MAX)
}

/// The earlier of two moments, where `None` is never.
pub fn soonest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
