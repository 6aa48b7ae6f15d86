use super::*;
use crate::{
    api::time::parse_annotation,
    candidates::Bucket as Census,
    rotation::{state::State, step::InFlight},
    schedule::{
        derive::Derivation,
        findings::{Code, Finding},
        window::Occurrence,
    },
};

fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

fn pass(extent: Extent) -> PassFacts {
    PassFacts {
        finished: at("2030-01-02T02:00:03Z"),
        duration: TimeDelta::milliseconds(1250),
        errors: BTreeMap::from([(Stage::Execute, 2)]),
        extent,
        version: "0.0.0",
    }
}

fn derivation() -> Derivation {
    Derivation {
        expire_after: Some(TimeDelta::days(14)),
        period: Some(TimeDelta::days(4)),
        t_rot: TimeDelta::minutes(79),
        t_rot_est: TimeDelta::minutes(15),
        drain_estimate: TimeDelta::minutes(10),
        drain_bound: TimeDelta::minutes(64),
        lead_time: Some(TimeDelta::days(8) + TimeDelta::minutes(79)),
        age_threshold: Some(TimeDelta::days(6) - TimeDelta::minutes(79)),
        chances: Some(2),
        capacity: 10,
    }
}

fn busy() -> Assessment {
    let window = Occurrence { start: at("2030-01-02T02:00:00Z"), end: at("2030-01-02T06:00:00Z") };
    Assessment {
        pool: "web".into(),
        policy: Some("nights".into()),
        governed: true,
        census: BTreeMap::from([(Census::Eligible, 3), (Census::InBackoff, 1), (Census::NotTriggered, 7)]),
        derivation: Some(derivation()),
        findings: vec![Finding { code: Code::ANonPositive, message: String::new() }.into()],
        window: Some(window),
        freeze_until: Some(at("2030-01-03T00:00:00Z")),
        short_lead: 2,
        next_deadline: Some(at("2030-01-09T00:00:00Z")),
        retry_count: 4,
        in_flight: Some(InFlight {
            claim: "web-1".into(),
            node: None,
            state: State::Draining,
            since: Some(at("2030-01-02T02:04:00Z")),
            begun: Some(at("2030-01-02T02:01:00Z")),
            waiting_for: String::new(),
        }),
        drain_blocked: true,
        ..Assessment::default()
    }
}

fn totals() -> Totals {
    let mut totals = Totals { success: 3, failure: 1, fallback: 1, window_missed: 2, ..Totals::default() };
    for seconds in [30, 31, 100_000] {
        totals.surge_wait.observe(TimeDelta::seconds(seconds));
    }
    totals
}

/// The samples of a text, without its comments.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

#[test]
fn everything_that_a_pass_saw_is_told() {
    let (assessment, totals) = (busy(), totals());
    let text = text(&pass(Extent::Complete), &[PoolReport { assessment: &assessment, totals: &totals }]).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn a_pool_that_nothing_happened_to_has_every_series_at_zero() {
    let assessment = Assessment { pool: "web".into(), governed: true, ..Assessment::default() };
    let text = text(&pass(Extent::Complete), &[PoolReport { assessment: &assessment, totals: &Totals::default() }]).unwrap();
    let of_pool: Vec<&str> = samples(&text).into_iter().filter(|line| line.contains("nodepool=")).collect();
    assert_eq!(of_pool.iter().filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>(), Vec::<&&str>::new());
    for outcome in ["success", "failure", "expired"] {
        assert_eq!(value(&text, &format!("noderotation_completed_total{{nodepool=\"web\",outcome=\"{outcome}\"}}")), Some("0"));
    }
    for metric in METRICS {
        assert!(text.contains(&format!("# TYPE {} ", metric.name)), "{} has no series", metric.name);
    }
}

#[test]
fn a_template_that_never_expires_has_derived_gauges_of_zero() {
    let never = Derivation { expire_after: None, age_threshold: None, chances: None, ..derivation() };
    let derived = [
        "age_threshold_seconds",
        "rotation_chances",
        "throughput_capacity",
        "t_rot_estimate_seconds",
        "t_rot_bound_seconds",
        "window_period_seconds",
    ];
    let values = |derivation| {
        let assessment = Assessment { pool: "web".into(), governed: true, derivation: Some(derivation), ..Assessment::default() };
        let text = text(&pass(Extent::Complete), &[PoolReport { assessment: &assessment, totals: &Totals::default() }]).unwrap();
        derived.map(|name| value(&text, &format!("noderotation_{name}{{nodepool=\"web\"}}")).unwrap().to_owned())
    };
    assert_eq!(values(never), ["0"; 6]);
    // Under an override its claims are rotated all the same; only G has no deadline to count to.
    let overridden = Derivation { age_threshold: Some(TimeDelta::days(3)), ..never };
    assert_eq!(values(overridden), ["259200", "0", "10", "900", "4740", "345600"]);
}

#[test]
fn a_pool_that_nothing_governs_has_no_series() {
    let assessment = Assessment { governed: false, ..busy() };
    let text = text(&pass(Extent::Complete), &[PoolReport { assessment: &assessment, totals: &totals() }]).unwrap();
    assert!(!text.contains("nodepool="), "{text}");
}

#[test]
fn a_failed_pool_costs_only_the_time_of_success() {
    let (assessment, totals) = (busy(), totals());
    let pools = [PoolReport { assessment: &assessment, totals: &totals }];
    let complete = text(&pass(Extent::Complete), &pools).unwrap();
    let failed = text(&pass(Extent::PoolsFailed), &pools).unwrap();
    let lost: Vec<&str> = samples(&complete).into_iter().filter(|line| !samples(&failed).contains(line)).collect();
    assert_eq!(lost, ["noderotation_pass_success_timestamp_seconds 1893549603"]);
}

#[test]
fn a_pass_without_a_view_tells_only_of_itself_and_one_without_the_lease_nothing() {
    let (assessment, totals) = (busy(), totals());
    let pools = [PoolReport { assessment: &assessment, totals: &totals }];
    let text_without_view = text(&pass(Extent::NoView), &pools).unwrap();
    let names: Vec<&str> = samples(&text_without_view).into_iter().map(|line| line.split(['{', ' ']).next().unwrap()).collect();
    let mut expected = vec!["noderotation_pass_timestamp_seconds", "noderotation_pass_duration_seconds"];
    expected.extend(["noderotation_pass_errors"; Stage::ALL.len()]);
    assert_eq!(names, expected);
    assert_eq!(text(&pass(Extent::HeldElsewhere), &pools), None);
}

#[test]
fn edited_totals_still_give_a_histogram_that_only_grows() {
    let stored = Histogram { count: 1, sum: 7, buckets: [u64::MAX, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
    let series = histogram(Vec::new(), &stored);
    let histogram = series.get_histogram();
    assert!(histogram.get_bucket().iter().all(|bucket| bucket.cumulative_count() == u64::MAX));
    assert_eq!(histogram.get_sample_count(), u64::MAX);
}

#[test]
fn every_metric_is_declared_once_and_named_by_the_rules() {
    let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let declared = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), declared);
    for metric in METRICS {
        assert!(metric.name.starts_with("noderotation_"), "{}", metric.name);
        assert_eq!(metric.kind() == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
    }
    assert_eq!(reserved_labels(), ["job", "le", "nodepool", "outcome", "phase", "stage", "version"]);
}
