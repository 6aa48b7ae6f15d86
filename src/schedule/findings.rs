//! What is wrong, or nearly wrong, with a policy on a pool (§4). Declared once; the table in `docs/policies.md` is checked
//! against [`FINDINGS`].

use super::{derive::Derivation, window::Schedule};
use crate::{api::karpenter::NodePool, policy::Policy};

mod checks;
mod claims;

pub use claims::{all_opted_out, blackout_cuts_chances, blackout_cuts_lives};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Starts go on.
    Warn,
    /// No start on this pool.
    Fatal,
}

macro_rules! findings {
    ($($name:ident, $level:ident, $meaning:literal;)*) => {
        /// The code of a finding; also the reason of its Event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $meaning] $name,)* }

        /// All findings: code, name, level and meaning, in the order of the docs' table.
        pub const FINDINGS: &[(Code, &str, Level, &str)] = &[$((Code::$name, stringify!($name), Level::$level, $meaning)),*];
    };
}

findings! {
    NoWindows, Fatal, "No maintenance window ever opens.";
    KBelowOne, Fatal, "minRotationChances is below 1.";
    KBelowTwo, Warn, "minRotationChances is 1: one missed window is one missed deadline.";
    ANonPositive, Fatal, "The derived age threshold is not positive: the lifetime is too short for K windows.";
    OverrideNonPositive, Fatal, "The explicit ageThreshold is not positive.";
    OverrideGBelowOne, Fatal, "The explicit ageThreshold leaves less than one guaranteed chance.";
    OverrideGBelowK, Warn, "The explicit ageThreshold guarantees fewer chances than minRotationChances.";
    AVeryAggressive, Warn, "The age threshold is shorter than the window period: every node rotates in nearly every window.";
    TGPUnset, Warn, "terminationGracePeriod is unset: a drain may last for ever.";
    HardCapExceeded, Warn, "expireAfter + terminationGracePeriod exceed the 21 days of EKS Auto Mode.";
    RetryBackoffShort, Warn, "retryBackoff is shorter than readyTimeout.";
    ThroughputBelowArrival, Warn, "The windows admit fewer starts than nodes come due.";
    ThroughputBurstShortfall, Warn, "More nodes than K windows admit starts.";
    RotationSpansNextWindow, Warn, "One rotation is expected to last into the next window.";
    ProvisioningEstimateAboveReadyTimeout, Warn, "provisioningEstimate is above readyTimeout and is clamped to it.";
    DrainEstimateAboveTGP, Warn, "drainEstimate is above terminationGracePeriod and is clamped to it.";
    ZoneNotRequired, Warn, "The zone is not replicated: a replacement may come up where zonal volumes can't follow.";
    StaticNodePool, Warn, "spec.replicas is set: a static pool has no room for a surge.";
    AllOptedOut, Warn, "Every node that is due carries the operator's karpenter.sh/do-not-disrupt: none is rotated.";
    BlackoutCutsChances, Warn, "A blackout leaves nodes fewer than K chances before their deadline.";
}

/// A finding on one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// With the numbers, and what to change.
    pub message: String,
}

impl Code {
    /// The name, as in Events and `plan`.
    pub fn name(self) -> &'static str {
        FINDINGS[self as usize].1
    }

    /// How bad it is.
    pub fn level(self) -> Level {
        FINDINGS[self as usize].2
    }
}

/// Every finding on a policy and a pool, in the order of [`FINDINGS`]; those on its claims are [`all_opted_out`] and
/// [`blackout_cuts_chances`], or [`blackout_cuts_lives`] where none are known. `claims` is the number of its NodeClaims (`N`); `derivation` is that
/// of the pool's template, which stands for its claims.
///
/// What a template says and nobody can read (the API server lets none in) counts as unset: an `expireAfter` as `Never`, a
/// `terminationGracePeriod` as missing, and the latter is told.
pub fn findings(policy: &Policy, schedule: &Schedule, pool: &NodePool, claims: usize, derivation: &Derivation) -> Vec<Finding> {
    let on = On { policy, schedule, pool, claims: i64::try_from(claims).unwrap_or(i64::MAX), derivation };
    FINDINGS.iter().filter_map(|(code, ..)| on.check(*code).map(|message| Finding { code: *code, message })).collect()
}

/// A policy on a pool.
struct On<'a> {
    policy: &'a Policy,
    schedule: &'a Schedule,
    pool: &'a NodePool,
    claims: i64,
    derivation: &'a Derivation,
}

impl On<'_> {
    /// The message, where this finding holds.
    fn check(&self, code: Code) -> Option<String> {
        match code {
            Code::NoWindows => self.no_windows(),
            Code::KBelowOne => self.k_below_one(),
            Code::KBelowTwo => self.k_below_two(),
            Code::ANonPositive => self.a_non_positive(),
            Code::OverrideNonPositive => self.override_non_positive(),
            Code::OverrideGBelowOne => self.override_g_below_one(),
            Code::OverrideGBelowK => self.override_g_below_k(),
            Code::AVeryAggressive => self.a_very_aggressive(),
            Code::TGPUnset => self.grace_unset(),
            Code::HardCapExceeded => self.hard_cap_exceeded(),
            Code::RetryBackoffShort => self.retry_backoff_short(),
            Code::ThroughputBelowArrival => self.throughput_below_arrival(),
            Code::ThroughputBurstShortfall => self.throughput_burst_shortfall(),
            Code::RotationSpansNextWindow => self.rotation_spans_next_window(),
            Code::ProvisioningEstimateAboveReadyTimeout => self.provisioning_estimate_clamped(),
            Code::DrainEstimateAboveTGP => self.drain_estimate_clamped(),
            Code::ZoneNotRequired => self.zone_not_required(),
            Code::StaticNodePool => self.static_pool(),
            // These look at single claims.
            Code::AllOptedOut | Code::BlackoutCutsChances => None,
        }
    }
}

#[cfg(test)]
mod tests;
