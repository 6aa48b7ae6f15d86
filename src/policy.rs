//! Policies as the engine uses them: read leniently, field by field, so that one bad field never hides the others
//! (§5.4: an Invalid policy starts nothing, yet what is in flight goes on with every field that can be read).

use std::collections::{BTreeMap, BTreeSet};

use chrono::{NaiveDate, TimeDelta, Weekday};

use crate::api::{keys, zone::Zone};

pub mod read;
pub mod resolve;
pub mod selector;
pub mod status;

/// A RotationPolicy, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Which pools it selects; `None` where the selector can't be read (it then selects none).
    pub selector: Option<Selector>,
    /// Every field, with the default where it is unset or can't be read.
    pub settings: Settings,
    /// What is wrong with it; empty for a valid policy.
    pub problems: Vec<Problem>,
    /// The status as it is stored (`null` where there is none).
    pub status: serde_json::Value,
}

/// A field that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `spec.maintenanceWindows[0].start`.
    pub path: String,
    /// What stands there, as JSON; empty where it is missing.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.value.is_empty() {
            write!(formatter, "{}: missing: {}", self.path, self.expected)
        } else {
            write!(formatter, "{}: {}: {}", self.path, self.value, self.expected)
        }
    }
}

/// A label selector, as policies use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that must have exactly this value.
    pub match_labels: BTreeMap<String, String>,
    /// Further constraints.
    pub match_expressions: Vec<Expression>,
}

/// One constraint of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: BTreeSet<String>,
}

/// How an [`Expression`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// It has none of them, or is missing.
    NotIn,
    /// It is there.
    Exists,
    /// It is missing.
    DoesNotExist,
}

/// The threshold past which a claim is triggered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeThreshold {
    /// Derived from the claim's own lifetime (§3.2).
    Auto,
    /// An override.
    Override(TimeDelta),
}

/// A policy's settings, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `spec.ageThreshold`.
    pub age_threshold: AgeThreshold,
    /// `spec.minRotationChances`: K.
    pub min_rotation_chances: i64,
    /// `spec.maintenanceWindows`, those that can be read.
    pub windows: Vec<Window>,
    /// `spec.blackouts`, those that can be read.
    pub blackouts: Vec<Blackout>,
    /// `spec.suspend`: no start at all.
    pub suspend: bool,
    /// `spec.surge.readyTimeout`.
    pub ready_timeout: TimeDelta,
    /// `spec.surge.cooldownAfter`: gate A.
    pub cooldown_after: TimeDelta,
    /// `spec.surge.failurePause`: gate B.
    pub failure_pause: TimeDelta,
    /// `spec.surge.retryBackoff`.
    pub retry_backoff: TimeDelta,
    /// `spec.surge.provisioningEstimate`.
    pub provisioning_estimate: Option<TimeDelta>,
    /// `spec.surge.drainEstimate`.
    pub drain_estimate: Option<TimeDelta>,
    /// `spec.surge.drainTimeout`: stands for an unset terminationGracePeriod.
    pub drain_timeout: TimeDelta,
    /// `spec.surge.matchNodeRequirements.required`.
    pub required: Vec<String>,
    /// `spec.surge.matchNodeRequirements.preferred`.
    pub preferred: Vec<String>,
    /// `spec.surge.forcefulFallback.enabled`.
    pub forceful_fallback: bool,
    /// `spec.surge.wholeNodeReservation`.
    pub whole_node_reservation: bool,
}

/// One entry of `spec.maintenanceWindows`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The zone its wall-clock times are in.
    pub timezone: Zone,
    /// The days it starts on.
    pub days: Vec<Weekday>,
    /// Minutes after midnight, 0 to 1439.
    pub start: u16,
    /// Minutes after midnight, 0 to 1440; not later than `start` means the next day.
    pub end: u16,
}

/// One entry of `spec.blackouts`: whole days on which nothing starts (§3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blackout {
    /// The zone its days are in.
    pub timezone: Zone,
    /// The first day.
    pub from: NaiveDate,
    /// The last day; not before `from`.
    pub to: NaiveDate,
    /// Why, for people; may be empty.
    pub reason: String,
}

impl Settings {
    /// `failurePause` where it is unset: as long as the cooldown, but not under ten minutes.
    pub fn default_failure_pause(cooldown_after: TimeDelta) -> TimeDelta {
        cooldown_after.max(TimeDelta::minutes(10))
    }

    /// `matchNodeRequirements.required` where it is unset: zonal volumes can follow, images run, prices stay.
    pub fn default_required() -> Vec<String> {
        [keys::ZONE_LABEL, "kubernetes.io/arch", "karpenter.sh/capacity-type"].map(String::from).into()
    }
}

/// The one place of the defaults (§4). The CRD's schema has none: a default written into stored objects would stay there
/// when it changes, and "unset" would no longer be told from "set" (`failurePause`, `required`). No windows: those must be
/// given.
impl Default for Settings {
    fn default() -> Self {
        let cooldown_after = TimeDelta::minutes(10);
        Self {
            age_threshold: AgeThreshold::Auto,
            min_rotation_chances: 2,
            windows: Vec::new(),
            blackouts: Vec::new(),
            suspend: false,
            ready_timeout: TimeDelta::minutes(15),
            cooldown_after,
            failure_pause: Self::default_failure_pause(cooldown_after),
            retry_backoff: TimeDelta::minutes(30),
            provisioning_estimate: None,
            drain_estimate: None,
            drain_timeout: TimeDelta::hours(1),
            required: Self::default_required(),
            preferred: Vec::new(),
            forceful_fallback: false,
            whole_node_reservation: false,
        }
    }
}

impl Policy {
    /// Whether every field can be used.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}
