//! What is wrong, or nearly wrong, with a policy on a pool (§4). Declared once; `docs/findings.md` is checked
//! against [`FINDINGS`].

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
