//! The table of all metrics: each is declared here and nowhere else.

use chrono::TimeDelta;

use super::{Extent, Metric, POOL_LABEL, PoolReport, Source, Stage};
use crate::{
    api::time::Time,
    candidates::Bucket,
    schedule::{derive::Derivation, findings::Level},
};

const POOL: &[&str] = &[POOL_LABEL];

/// All metrics, in the order of the docs' table.
pub const METRICS: &[Metric] = &[
    gauge("noderotation_candidates", "NodeClaims that may be rotated now.", |pool| count(bucket(pool, Bucket::Eligible))),
    gauge("noderotation_in_backoff", "NodeClaims past their age threshold whose last attempt failed too recently.", |pool| {
        count(bucket(pool, Bucket::InBackoff))
    }),
    gauge("noderotation_in_progress", "1 while a rotation is in flight.", |pool| flag(pool.assessment.in_flight.is_some())),
    gauge(
        "noderotation_in_progress_since_timestamp",
        "When the rotation in flight began, in Unix seconds; 0 without one, and in the pass that begins it.",
        |pool| instant(pool.assessment.in_flight.as_ref().and_then(|in_flight| in_flight.begun)),
    ),
    gauge("noderotation_window_active", "1 while a maintenance window of the pool's policy is open.", |pool| {
        flag(pool.assessment.window.is_some())
    }),
    gauge("noderotation_policy_conflict", "1 while several policies match the pool with equal specificity: nothing starts.", |pool| {
        flag(!pool.assessment.conflict.is_empty())
    }),
    gauge("noderotation_blocked", "1 while a fatal finding stops every start.", |pool| {
        flag(pool.assessment.findings.iter().any(|finding| finding.code.level() == Level::Fatal))
    }),
    gauge("noderotation_suspended", "1 while the pool's policy is suspended: nothing starts.", |pool| {
        flag(pool.assessment.gates.iter().any(|gate| gate.code == "suspended"))
    }),
    gauge(
        "noderotation_freeze_until_timestamp",
        "Until when the operator's freeze stops every start, in Unix seconds; 0 without one.",
        |pool| instant(pool.assessment.freeze_until),
    ),
    gauge(
        "noderotation_age_threshold_seconds",
        "A: the age from which on a NodeClaim of the pool's template is rotated; 0 where it never is.",
        |pool| span(pool, |derived| derived.age_threshold),
    ),
    gauge(
        "noderotation_rotation_chances",
        "G: windows that each NodeClaim is guaranteed to see before its deadline; 0 where it never expires.",
        |pool| derivation(pool).and_then(|derived| derived.chances).unwrap_or(0) as f64,
    ),
    gauge("noderotation_throughput_capacity", "C: starts that one window admits; 0 where nothing ever comes due.", |pool| {
        derivation(pool).map_or(0, |derived| derived.capacity) as f64
    }),
    gauge("noderotation_t_rot_estimate_seconds", "How long one rotation is expected to take; 0 where nothing ever comes due.", |pool| {
        span(pool, |derived| Some(derived.t_rot_est))
    }),
    gauge(
        "noderotation_t_rot_bound_seconds",
        "How long one rotation may take at most, as deadlines are judged; 0 where nothing ever comes due.",
        |pool| span(pool, |derived| Some(derived.t_rot)),
    ),
    gauge(
        "noderotation_window_period_seconds",
        "P: the longest time from one window's start to the next one's; 0 where nothing ever comes due.",
        |pool| span(pool, |derived| derived.period),
    ),
    gauge("noderotation_short_lead_nodes", "NodeClaims whose lifetime is no longer than their lead time.", |pool| {
        count(pool.assessment.short_lead)
    }),
    gauge("noderotation_drain_blocked", "1 while a drain takes longer than estimated.", |pool| flag(pool.assessment.drain_blocked)),
    gauge("noderotation_drain_stuck", "1 while a drain is past its bound: somebody has to look.", |pool| flag(pool.assessment.drain_stuck)),
    gauge("noderotation_retry_count", "The most failed attempts of any NodeClaim of the pool.", |pool| {
        f64::from(pool.assessment.retry_count)
    }),
    gauge(
        "noderotation_next_deadline_timestamp",
        "When Karpenter expires the first of the pool's NodeClaims, in Unix seconds; 0 for never.",
        |pool| instant(pool.assessment.next_deadline),
    ),
    Metric {
        name: "noderotation_completed_total",
        labels: &[POOL_LABEL, "outcome"],
        help: "Rotations that ended, by outcome: success, failure (rolled back at readyTimeout) or expired (deleted by someone else).",
        source: Source::PoolCounters(|pool| {
            vec![("success", pool.totals.success), ("failure", pool.totals.failure), ("expired", pool.totals.expired)]
        }),
    },
    counter("noderotation_forceful_fallback_total", "Rotations started without a surge, because the deadline was too near.", |pool| {
        pool.totals.fallback
    }),
    counter("noderotation_window_missed_total", "Windows that closed with something due and nothing rotated.", |pool| {
        pool.totals.window_missed
    }),
    Metric {
        name: "noderotation_duration_seconds",
        labels: &[POOL_LABEL, "phase"],
        help: "How long the phases of successful rotations took: surge_wait (until the replacement was Ready) and drain (until the old node was gone).",
        source: Source::PoolHistograms(|pool| vec![("surge_wait", &pool.totals.surge_wait), ("drain", &pool.totals.drain)]),
    },
    Metric {
        name: "noderotation_pass_timestamp_seconds",
        labels: &[],
        help: "When the last pass ended, in Unix seconds.",
        source: Source::PassGauge(|pass| Some(instant(Some(pass.finished)))),
    },
    Metric {
        name: "noderotation_pass_duration_seconds",
        labels: &[],
        help: "How long the last pass took.",
        source: Source::PassGauge(|pass| Some(pass.duration.num_milliseconds() as f64 / 1000.0)),
    },
    Metric {
        name: "noderotation_pass_errors",
        labels: &["stage"],
        help: "Errors of the last pass, by stage.",
        source: Source::PassGauges(|pass| {
            Stage::ALL.iter().map(|stage| (stage.name(), pass.errors.get(stage).copied().unwrap_or(0) as f64)).collect()
        }),
    },
    Metric {
        name: "noderotation_pass_success_timestamp_seconds",
        labels: &[],
        help: "When the last pass that did everything ended, in Unix seconds.",
        source: Source::PassGauge(|pass| (pass.extent == Extent::Complete).then(|| instant(Some(pass.finished)))),
    },
    Metric {
        name: "noderotation_build_info",
        labels: &["version"],
        help: "Always 1; the label says which version ran.",
        source: Source::PassGauges(|pass| vec![(pass.version, 1.0)]),
    },
];

const fn gauge(name: &'static str, help: &'static str, read: fn(&PoolReport<'_>) -> f64) -> Metric {
    Metric { name, labels: POOL, help, source: Source::PoolGauge(read) }
}

const fn counter(name: &'static str, help: &'static str, read: fn(&PoolReport<'_>) -> u64) -> Metric {
    Metric { name, labels: POOL, help, source: Source::PoolCounter(read) }
}

fn bucket(pool: &PoolReport<'_>, bucket: Bucket) -> usize {
    pool.assessment.census.get(&bucket).copied().unwrap_or(0)
}

fn count(count: usize) -> f64 {
    count as f64
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn instant(time: Option<Time>) -> f64 {
    time.map_or(0, |time| time.timestamp()) as f64
}

/// What is derived for the pool's template; nothing where no claim is ever triggered, because it never expires (§8).
fn derivation<'a>(pool: &PoolReport<'a>) -> Option<&'a Derivation> {
    pool.assessment.derivation.as_ref().filter(|derived| derived.expire_after.is_some() || derived.age_threshold.is_some())
}

fn span(pool: &PoolReport<'_>, read: impl Fn(&Derivation) -> Option<TimeDelta>) -> f64 {
    derivation(pool).and_then(read).map_or(0, |span| span.num_seconds()) as f64
}
