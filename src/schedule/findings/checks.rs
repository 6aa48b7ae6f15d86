//! When each finding holds, and what it says: the numbers, and what to change.

use chrono::TimeDelta;

use super::On;
use crate::{
    api::{
        keys,
        time::{format_duration as show, to_annotation},
    },
    policy::AgeThreshold,
    schedule::derive::{add, subtract, times},
};

/// What EKS Auto Mode allows a node to live, its drain included.
const HARD_CAP: TimeDelta = TimeDelta::days(21);

impl On<'_> {
    pub(super) fn no_windows(&self) -> Option<String> {
        let entries = self.policy.settings.windows.len();
        self.derivation.period.is_none().then(|| {
            format!("no maintenance window ever opens (entries that can be read: {entries}): give at least one whose days and hours occur")
        })
    }

    pub(super) fn k_below_one(&self) -> Option<String> {
        let k = self.k();
        (k < 1).then(|| format!("minRotationChances is {k}: set it to at least 1, better 2"))
    }

    pub(super) fn k_below_two(&self) -> Option<String> {
        (self.k() == 1).then(|| {
            "minRotationChances is 1: a node that misses its one window expires at an hour nobody chose; set it to 2 or more".to_owned()
        })
    }

    pub(super) fn a_non_positive(&self) -> Option<String> {
        let (AgeThreshold::Auto, Some(lifetime), Some(lead)) =
            (self.age_setting(), self.derivation.expire_after, self.derivation.lead_time)
        else {
            return None;
        };
        let age = self.derivation.age_threshold?;
        (age <= TimeDelta::zero()).then(|| {
            format!(
                "A = expireAfter {} - leadTime {} = {}, where leadTime = K {} x P {}{} + t_rot {}: raise expireAfter above {}, open windows more \
                 often, or lower minRotationChances, terminationGracePeriod or readyTimeout",
                show(lifetime),
                show(lead),
                show(age),
                self.k(),
                self.period(),
                self.longest_wait(),
                show(self.derivation.t_rot),
                show(lead),
            )
        })
    }

    pub(super) fn override_non_positive(&self) -> Option<String> {
        let age = self.override_age()?;
        (age <= TimeDelta::zero()).then(|| format!("ageThreshold is {}: set it longer than 0, or to auto", show(age)))
    }

    pub(super) fn override_g_below_one(&self) -> Option<String> {
        let (chances, message) = self.override_chances()?;
        (chances < 1).then(|| format!("{message}: {}", self.advice(1)))
    }

    pub(super) fn override_g_below_k(&self) -> Option<String> {
        let (chances, message) = self.override_chances()?;
        (1 <= chances && chances < self.k())
            .then(|| format!("{message}, fewer than minRotationChances {}: {}", self.k(), self.advice(self.k())))
    }

    pub(super) fn a_very_aggressive(&self) -> Option<String> {
        let (age, period) = (self.derivation.age_threshold?, self.derivation.period?);
        (TimeDelta::zero() < age && age < period).then(|| {
            format!(
                "A = {} is shorter than P = {}: every node is replaced in nearly every window; raise expireAfter, lower minRotationChances, \
                 or open windows more often",
                show(age),
                show(period),
            )
        })
    }

    pub(super) fn grace_unset(&self) -> Option<String> {
        let spec = &self.pool.spec.template.spec;
        let why = match (&spec.termination_grace_period, spec.grace()) {
            (_, Some(_)) => return None,
            (None, None) => "is unset".to_owned(),
            (Some(text), None) => format!("can't be read ({text:?})"),
        };
        let timeout = show(self.policy.settings.drain_timeout);
        Some(format!(
            "terminationGracePeriod of the NodePool {why}: a drain may last for ever, and drainTimeout {timeout} stands for it in every \
             formula; set it in the NodePool's template"
        ))
    }

    pub(super) fn hard_cap_exceeded(&self) -> Option<String> {
        let lifetime = self.derivation.expire_after?;
        let set = self.pool.spec.template.spec.grace();
        let grace = set.unwrap_or(self.policy.settings.drain_timeout);
        let (total, name) = (add(lifetime, grace), if set.is_some() { "terminationGracePeriod" } else { "drainTimeout" });
        (total > HARD_CAP).then(|| {
            format!(
                "expireAfter {} + {name} {} = {}, over the {} that EKS Auto Mode allows: lower expireAfter to {} or less (elsewhere this can be ignored)",
                show(lifetime),
                show(grace),
                show(total),
                show(HARD_CAP),
                show(subtract(HARD_CAP, grace).max(TimeDelta::zero())),
            )
        })
    }

    pub(super) fn retry_backoff_short(&self) -> Option<String> {
        let (backoff, timeout) = (self.policy.settings.retry_backoff, self.policy.settings.ready_timeout);
        (backoff < timeout).then(|| {
            format!(
                "retryBackoff {} is shorter than readyTimeout {}: a node is tried again sooner than its attempt may take; raise it to {} or more",
                show(backoff),
                show(timeout),
                show(timeout),
            )
        })
    }

    /// Starts per P: `C`; nodes that come due per P: `N x P / A`.
    pub(super) fn throughput_below_arrival(&self) -> Option<String> {
        let age = self.derivation.age_threshold.filter(|age| *age > TimeDelta::zero())?;
        let (period, capacity) = (self.throughput_period()?, self.derivation.capacity);
        let (admitted, due) = (product(age, capacity), product(period, self.claims));
        let more = if self.schedule.always_open { "" } else { "open windows longer or more often, or " };
        (admitted < due).then(|| {
            format!(
                "{} NodeClaims come due within A = {}, but C = {capacity} of them may start in P = {}: {more}shorten cooldownAfter {} (one \
                 rotation is expected to take {})",
                self.claims,
                show(age),
                show(period),
                show(self.policy.settings.cooldown_after),
                show(self.derivation.t_rot_est),
            )
        })
    }

    pub(super) fn throughput_burst_shortfall(&self) -> Option<String> {
        self.derivation.period?;
        let (k, capacity) = (self.k(), self.derivation.capacity);
        let admitted = k.saturating_mul(capacity);
        let more = if self.schedule.always_open { "" } else { "open windows longer, or " };
        let needed = self.claims.saturating_sub(1).div_euclid(capacity.max(1)).saturating_add(1);
        (k > 0 && self.claims > admitted).then(|| {
            format!(
                "{} NodeClaims of the same age are more than K = {k} windows with C = {capacity} starts each admit ({admitted}): {more}raise \
                 minRotationChances to {needed} or more",
                self.claims,
            )
        })
    }

    pub(super) fn rotation_spans_next_window(&self) -> Option<String> {
        let (gap, service) = (self.schedule.gap?, self.service());
        (service > gap).then(|| {
            format!(
                "t_rot_est {} + cooldownAfter {} = {} is longer than the {} between two windows: a rotation that starts late costs the \
                 next window a start; leave more time between them, or join them",
                show(self.derivation.t_rot_est),
                show(self.policy.settings.cooldown_after),
                show(service),
                show(gap),
            )
        })
    }

    pub(super) fn provisioning_estimate_clamped(&self) -> Option<String> {
        let (estimate, timeout) = (self.policy.settings.provisioning_estimate?, self.policy.settings.ready_timeout);
        (estimate > timeout).then(|| {
            format!(
                "provisioningEstimate {} is above readyTimeout {}, which is taken instead: lower the one or raise the other",
                show(estimate),
                show(timeout),
            )
        })
    }

    pub(super) fn drain_estimate_clamped(&self) -> Option<String> {
        let (estimate, grace) = (self.policy.settings.drain_estimate?, self.pool.spec.template.spec.grace()?);
        (estimate > grace).then(|| {
            format!(
                "drainEstimate {} is above terminationGracePeriod {}, which is taken instead: lower the one or raise the other",
                show(estimate),
                show(grace),
            )
        })
    }

    pub(super) fn zone_not_required(&self) -> Option<String> {
        let required = &self.policy.settings.required;
        (!required.iter().any(|key| key == keys::ZONE_LABEL)).then(|| {
            format!(
                "matchNodeRequirements.required is [{}]: Pods with zonal volumes can't follow to a replacement in another zone; add {}",
                required.join(", "),
                keys::ZONE_LABEL,
            )
        })
    }

    pub(super) fn static_pool(&self) -> Option<String> {
        let replicas = self.pool.spec.replicas?;
        Some(format!(
            "spec.replicas is {replicas}: a static pool has no room for the one node more that a surge needs, so nothing starts; exclude it in \
             nodePoolSelector, or use a pool without spec.replicas"
        ))
    }

    fn k(&self) -> i64 {
        self.policy.settings.min_rotation_chances
    }

    fn age_setting(&self) -> AgeThreshold {
        self.policy.settings.age_threshold
    }

    fn override_age(&self) -> Option<TimeDelta> {
        match self.age_setting() {
            AgeThreshold::Auto => None,
            AgeThreshold::Override(age) => Some(age),
        }
    }

    /// `G` of an override, and how it comes about. `None` where nothing is guaranteed anyway: no deadline, no window.
    fn override_chances(&self) -> Option<(i64, String)> {
        let (age, lifetime) = (self.override_age()?, self.derivation.expire_after?);
        let (period, chances) = (self.derivation.period?, self.derivation.chances?);
        let message = format!(
            "ageThreshold {} guarantees G = {chances} chances, floor((expireAfter {} - t_rot {} - {}) / P {}{})",
            show(age),
            show(lifetime),
            show(self.derivation.t_rot),
            show(age),
            show(period),
            self.longest_wait(),
        );
        Some((chances, message))
    }

    /// How to get this many chances under an override.
    fn advice(&self, chances: i64) -> String {
        let (Some(lifetime), Some(period)) = (self.derivation.expire_after, self.derivation.period) else { return String::new() };
        let needed = add(times(period, chances), self.derivation.t_rot);
        let highest = subtract(lifetime, needed);
        if highest > TimeDelta::zero() {
            format!("lower it to {} or less, or set it to auto", show(highest))
        } else {
            format!("raise expireAfter above {}, or open windows more often", show(needed))
        }
    }

    fn service(&self) -> TimeDelta {
        add(self.derivation.t_rot_est, self.policy.settings.cooldown_after)
    }

    /// `P` as throughput uses it: when always open, one rotation follows the other.
    fn throughput_period(&self) -> Option<TimeDelta> {
        if self.schedule.always_open { Some(self.service()) } else { self.derivation.period }
    }

    fn period(&self) -> String {
        self.derivation.period.map(show).unwrap_or_default()
    }

    /// The dates behind P: a change of the clock, or a skipped day, may make it longer than in most weeks.
    fn longest_wait(&self) -> String {
        let Some((first, second)) = self.schedule.period_between else { return String::new() };
        format!(" (from the opening of {} to that of {})", to_annotation(first), to_annotation(second))
    }
}

/// Exact, also where the product is longer than a span can be.
fn product(span: TimeDelta, count: i64) -> i128 {
    i128::from(span.num_milliseconds()) * i128::from(count)
}
