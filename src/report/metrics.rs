//! The metrics of a pass (§8), in Prometheus' text format. Counters and histograms come from the totals that live in the
//! NodePools (§7), so every pass exports the same numbers, whoever counted them and whatever the Pushgateway forgot.
//!
//! Each metric is declared once, in [`METRICS`], together with the function that reads it; `docs/metrics.md` is checked
//! against that table. No sample carries a timestamp: a Pushgateway refuses those.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use prometheus::{
    TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram as HistogramSample, LabelPair, Metric as Series, MetricFamily, MetricType},
};

use crate::{
    api::time::Time,
    rotation::{
        step::Assessment,
        totals::{BUCKETS, Histogram, Totals},
    },
};

mod table;

pub use table::METRICS;

/// The label that names the pool on every series of a pool.
pub const POOL_LABEL: &str = "nodepool";

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// What it says, with its unit.
    pub help: &'static str,
    /// Where its values come from.
    pub source: Source,
}

/// Where a metric's values come from, which also says its type and whether it has a series per pool.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// A gauge per pool.
    PoolGauge(fn(&PoolReport<'_>) -> f64),
    /// A counter per pool.
    PoolCounter(fn(&PoolReport<'_>) -> u64),
    /// Counters per pool, by the values of the second label.
    PoolCounters(fn(&PoolReport<'_>) -> Vec<(&'static str, u64)>),
    /// Histograms per pool over [`BUCKETS`], by the values of the second label.
    PoolHistograms(for<'a> fn(&PoolReport<'a>) -> Vec<(&'static str, &'a Histogram)>),
    /// A gauge of the pass; `None` has no series.
    PassGauge(fn(&PassFacts) -> Option<f64>),
    /// Gauges of the pass, by the values of the only label.
    PassGauges(fn(&PassFacts) -> Vec<(&'static str, f64)>),
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// A gauge whose name ends like a part of a histogram, which `promtool check metrics` accepts of no gauge (case C19).
    Untyped,
    /// Only goes up.
    Counter,
    /// Counts samples per bucket.
    Histogram,
}

/// The part of a pass that an error belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reaching the API server.
    Connect,
    /// Making sure that the kinds needed are served and readable.
    Preflight,
    /// Taking and keeping the Lease.
    Lease,
    /// Reading the View and what steps asked for.
    Load,
    /// Deciding: what could not be read or judged.
    Decide,
    /// Writing: what was refused, timed out or broke.
    Execute,
    /// Writing a policy's status.
    Status,
}

impl Stage {
    /// All stages, in the order of a pass.
    pub const ALL: [Self; 7] = [Self::Connect, Self::Preflight, Self::Lease, Self::Load, Self::Decide, Self::Execute, Self::Status];

    /// The value of the label `stage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Preflight => "preflight",
            Self::Lease => "lease",
            Self::Load => "load",
            Self::Decide => "decide",
            Self::Execute => "execute",
            Self::Status => "status",
        }
    }
}

/// How far a pass came; decides which series are told, and how (§8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything was done for every pool: all series, replacing what was told before, so that series of pools that are
    /// gone disappear.
    Complete,
    /// At least one pool failed: all series but the time of the last success, which keeps its old value.
    PoolsFailed,
    /// There never was a complete view (no connection, preflight, Lease lost): only the series of the pass itself.
    NoView,
    /// Another run held the Lease: it tells, this one tells nothing.
    HeldElsewhere,
}

/// What a pass says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassFacts {
    /// When it ended, by the server's clock where that is known.
    pub finished: Time,
    /// How long it took.
    pub duration: TimeDelta,
    /// Errors per stage; a stage that is missing had none.
    pub errors: BTreeMap<Stage, u64>,
    /// How far it came.
    pub extent: Extent,
    /// The program's version.
    pub version: &'static str,
}

/// What a pass says of one governed pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolReport<'a> {
    /// What the pass saw of it.
    pub assessment: &'a Assessment,
    /// Its totals after the pass's writes.
    pub totals: &'a Totals,
}

impl Metric {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self.source {
            Source::PoolGauge(_) if self.name.ends_with("_count") => Kind::Untyped,
            Source::PoolGauge(_) | Source::PassGauge(_) | Source::PassGauges(_) => Kind::Gauge,
            Source::PoolCounter(_) | Source::PoolCounters(_) => Kind::Counter,
            Source::PoolHistograms(_) => Kind::Histogram,
        }
    }

    /// Whether a pass without a view tells it.
    fn is_of_the_pass(&self) -> bool {
        self.name.starts_with("noderotation_pass_")
    }

    fn samples(&self, pass: &PassFacts, pools: &[&PoolReport<'_>]) -> Vec<Series> {
        match self.source {
            Source::PoolGauge(read) => {
                let judged = pools.iter().filter(|pool| !pool.assessment.unjudged);
                judged.map(|pool| gauge(self.of_pool(pool, &[]), read(pool))).collect()
            }
            Source::PoolCounter(read) => pools.iter().map(|pool| counter(self.of_pool(pool, &[]), read(pool))).collect(),
            Source::PoolCounters(read) => pools
                .iter()
                .flat_map(|pool| read(pool).into_iter().map(|(value, count)| counter(self.of_pool(pool, &[value]), count)))
                .collect(),
            Source::PoolHistograms(read) => pools
                .iter()
                .flat_map(|pool| read(pool).into_iter().map(|(value, samples)| histogram(self.of_pool(pool, &[value]), samples)))
                .collect(),
            Source::PassGauge(read) => read(pass).into_iter().map(|value| gauge(Vec::new(), value)).collect(),
            Source::PassGauges(read) => read(pass).into_iter().map(|(label, value)| gauge(self.pairs(&[label]), value)).collect(),
        }
    }

    fn of_pool(&self, pool: &PoolReport<'_>, rest: &[&str]) -> Vec<LabelPair> {
        self.pairs(&[&[pool.assessment.pool.as_str()], rest].concat())
    }

    fn pairs(&self, values: &[&str]) -> Vec<LabelPair> {
        self.labels
            .iter()
            .zip(values)
            .map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value((*value).to_owned());
                pair
            })
            .collect()
    }
}

/// Names that a grouping label must not have, since our own series carry them: `job`, `le`, and every label of
/// [`METRICS`], sorted.
pub fn reserved_labels() -> Vec<&'static str> {
    let mut names: Vec<&str> = METRICS.iter().flat_map(|metric| metric.labels.iter().copied()).chain(["job", "le"]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What a pass tells, in the text format; `None` where it tells nothing. Pools that no policy governs have no series.
pub fn text(pass: &PassFacts, pools: &[PoolReport<'_>]) -> Option<String> {
    // Encoding into memory fails only for a family without a name or series, and there is none.
    let text = TextEncoder::new().encode_to_string(&families(pass, pools)).unwrap_or_default();
    // The encoder knows no untyped ones.
    let text = METRICS.iter().filter(|metric| metric.kind() == Kind::Untyped).fold(text, |text, metric| {
        let typed = |kind: &str| format!("# TYPE {} {kind}\n", metric.name);
        text.replace(&typed("gauge"), &typed("untyped"))
    });
    (!text.is_empty()).then_some(text)
}

fn families(pass: &PassFacts, pools: &[PoolReport<'_>]) -> Vec<MetricFamily> {
    let governed: Vec<&PoolReport<'_>> = pools.iter().filter(|pool| pool.assessment.governed).collect();
    METRICS
        .iter()
        .filter(|metric| match pass.extent {
            Extent::Complete | Extent::PoolsFailed => true,
            Extent::NoView => metric.is_of_the_pass(),
            Extent::HeldElsewhere => false,
        })
        .filter_map(|metric| family(metric, metric.samples(pass, &governed)))
        .collect()
}

fn family(metric: &Metric, series: Vec<Series>) -> Option<MetricFamily> {
    if series.is_empty() {
        return None;
    }
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(match metric.kind() {
        Kind::Gauge | Kind::Untyped => MetricType::GAUGE,
        Kind::Counter => MetricType::COUNTER,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    family.set_metric(series);
    Some(family)
}

fn gauge(labels: Vec<LabelPair>, value: f64) -> Series {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut series = Series::from_label(labels);
    series.set_gauge(gauge);
    series
}

fn counter(labels: Vec<LabelPair>, count: u64) -> Series {
    let mut counter = Counter::default();
    counter.set_value(count as f64);
    let mut series = Series::from_label(labels);
    series.set_counter(counter);
    series
}

fn histogram(labels: Vec<LabelPair>, stored: &Histogram) -> Series {
    let mut cumulative = 0_u64;
    let buckets = BUCKETS.iter().zip(stored.buckets).map(|(bound, samples)| {
        cumulative = cumulative.saturating_add(samples);
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound as f64);
        bucket.set_cumulative_count(cumulative);
        bucket
    });
    let mut histogram = HistogramSample::default();
    histogram.set_bucket(buckets.collect());
    // Totals that somebody edited must not give a histogram that no server accepts.
    histogram.set_sample_count(stored.count.max(cumulative));
    histogram.set_sample_sum(stored.sum as f64);
    let mut series = Series::from_label(labels);
    series.set_histogram(histogram);
    series
}

#[cfg(test)]
mod tests;
