use std::collections::{BTreeMap, BTreeSet};

use chrono::Weekday::{Fri, Mon, Sat, Thu, Tue, Wed};
use serde_json::json;

use super::*;
use crate::{
    api::{time::parse_duration, zone::Zone},
    policy::{Blackout, Expression, Operator, Problem, Selector, Window},
};

const DURATION: &str = "whole hours, minutes and seconds, such as 1h30m (no days, no fractions)";

fn spec(fields: Value) -> Policy {
    policy(&json!({"metadata": {"name": "api"}, "spec": fields}))
}

/// A valid policy with these further fields of its spec.
fn with(fields: Value) -> Policy {
    let window = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
    let mut all = json!({"nodePoolSelector": {}, "maintenanceWindows": [window]});
    for (field, value) in fields.as_object().unwrap() {
        all[field] = value.clone();
    }
    spec(all)
}

/// A policy with this one window.
fn window(timezone: Value, days: Value, start: Value, end: Value) -> Policy {
    with(json!({"maintenanceWindows": [{"timezone": timezone, "days": days, "start": start, "end": end}]}))
}

fn problems(policy: &Policy) -> Vec<String> {
    policy.problems.iter().map(Problem::to_string).collect()
}

fn saturdays() -> Window {
    Window { timezone: Zone::UTC, days: vec![Sat], start: 120, end: 360 }
}

fn blackout(timezone: Zone, from: &str, to: &str, reason: &str) -> Blackout {
    Blackout { timezone, from: from.parse().unwrap(), to: to.parse().unwrap(), reason: reason.into() }
}

const WHOLE: &str = r#"
metadata: {name: api, uid: 1b4e, generation: 3, resourceVersion: "77"}
spec:
  nodePoolSelector:
    matchLabels: {workload: api}
    matchExpressions: [{key: region, operator: NotIn, values: [eu, us]}]
  ageThreshold: 240h
  minRotationChances: 3
  maintenanceWindows:
    - {timezone: Asia/Tokyo, days: [sat, WED, Sat], start: "02:00", end: "06:00"}
    - {timezone: Europe/Berlin, days: [Fri], start: "22:30", end: "24:00"}
  surge:
    maxUnavailable: 1
    readyTimeout: 20m
    cooldownAfter: 0s
    failurePause: 1h30m
    drainEstimate: 5m
    provisioningEstimate: 90s
    retryBackoff: 1h
    drainTimeout: 2h
    matchNodeRequirements: {required: [], preferred: [karpenter.sh/capacity-type, karpenter.sh/capacity-type]}
    wholeNodeReservation: true
    forcefulFallback: {enabled: true}
  blackouts:
    - {timezone: Europe/Berlin, from: 2026-12-19, to: "2027-01-04", reason: year-end freeze}
    - {timezone: UTC, from: "2028-02-29", to: "2028-02-29"}
  suspend: true
  prePull: {enabled: false}
status: {matchedNodePools: 2}
"#;

#[test]
fn the_policy_of_the_seeds_is_read_whole() {
    let span = |text| parse_duration(text).unwrap();
    let expected = Policy {
        name: "api".into(),
        uid: "1b4e".into(),
        generation: 3,
        resource_version: "77".into(),
        selector: Some(Selector {
            match_labels: BTreeMap::from([("workload".into(), "api".into())]),
            match_expressions: vec![Expression {
                key: "region".into(),
                operator: Operator::NotIn,
                values: BTreeSet::from(["eu".into(), "us".into()]),
            }],
        }),
        settings: Settings {
            age_threshold: AgeThreshold::Override(span("240h")),
            min_rotation_chances: 3,
            windows: vec![
                Window { timezone: "Asia/Tokyo".parse().unwrap(), days: vec![Wed, Sat], start: 120, end: 360 },
                Window { timezone: "Europe/Berlin".parse().unwrap(), days: vec![Fri], start: 1350, end: 1440 },
            ],
            blackouts: vec![
                blackout("Europe/Berlin".parse().unwrap(), "2026-12-19", "2027-01-04", "year-end freeze"),
                blackout(Zone::UTC, "2028-02-29", "2028-02-29", ""),
            ],
            suspend: true,
            ready_timeout: span("20m"),
            cooldown_after: span("0s"),
            failure_pause: span("1h30m"),
            retry_backoff: span("1h"),
            provisioning_estimate: Some(span("90s")),
            drain_estimate: Some(span("5m")),
            drain_timeout: span("2h"),
            required: vec![],
            preferred: vec!["karpenter.sh/capacity-type".into()],
            forceful_fallback: true,
            whole_node_reservation: true,
        },
        problems: vec![],
        status: json!({"matchedNodePools": 2}),
    };
    assert_eq!(policy(&serde_yaml_ng::from_str(WHOLE).unwrap()), expected);
}

#[test]
fn what_is_unset_or_null_has_its_default() {
    let expected = Settings { windows: vec![saturdays()], ..Settings::default() };
    for fields in [
        json!({}),
        json!({"surge": null, "prePull": null, "ageThreshold": null, "minRotationChances": null}),
        json!({"ageThreshold": "auto", "surge": {"readyTimeout": null, "matchNodeRequirements": {"required": null}}}),
    ] {
        let policy = with(fields);
        assert_eq!((problems(&policy), policy.settings), (vec![], expected.clone()));
    }
    let pause = |cooldown: &str| with(json!({"surge": {"cooldownAfter": cooldown}})).settings.failure_pause;
    assert_eq!((pause("9m59s"), pause("11m")), (TimeDelta::minutes(10), TimeDelta::minutes(11)));
}

#[test]
fn a_wrong_field_is_named_and_the_others_are_read() {
    let policy = with(json!({
        "minRotationChances": 2.5,
        "ageThreshold": "14d",
        "surge": {
            "maxUnavailable": 2, "readyTimeout": "0s", "cooldownAfter": 600, "retryBackoff": "1.5h", "drainTimeout": "2h",
            "matchNodeRequirements": {"required": ["kubernetes.io/hostname", 3, "a b"], "preferred": "zone"},
            "forcefulFallback": {"enabled": "yes"}, "readytimeout": "5m",
        },
        "prePull": {"enabled": true},
        "pause": true,
    }));
    let fields = "nodePoolSelector, ageThreshold, minRotationChances, maintenanceWindows, blackouts, suspend, surge, prePull";
    let hostname = "another label: the hostname names the very node that is to be replaced";
    let required = "spec.surge.matchNodeRequirements.required";
    let expected = [
        format!("spec.pause: true: no such field: those are {fields}"),
        "spec.ageThreshold: \"14d\": auto, or whole hours, minutes and seconds, such as 240h (no days, no fractions)".into(),
        "spec.minRotationChances: 2.5: a whole number, at least 1".into(),
        format!("spec.surge.readytimeout: \"5m\": no such field: those are {}", SURGE.join(", ")),
        "spec.surge.maxUnavailable: 2: 1: one node of a pool at a time".into(),
        "spec.surge.readyTimeout: \"0s\": longer than 0, such as 15m".into(),
        format!("spec.surge.cooldownAfter: 600: {DURATION}"),
        format!("spec.surge.retryBackoff: \"1.5h\": {DURATION}"),
        format!("{required}[0]: \"kubernetes.io/hostname\": {hostname}"),
        format!("{required}[1]: 3: a label key, such as topology.kubernetes.io/zone"),
        format!("{required}[2]: \"a b\": a label key, such as topology.kubernetes.io/zone"),
        "spec.surge.matchNodeRequirements.preferred: \"zone\": a list of label keys, such as [topology.kubernetes.io/zone]".into(),
        "spec.surge.forcefulFallback.enabled: \"yes\": true or false".into(),
        "spec.prePull.enabled: true: false: pulling images ahead is not supported".into(),
    ];
    assert_eq!(problems(&policy), expected);
    let settings = Settings { windows: vec![saturdays()], drain_timeout: TimeDelta::hours(2), ..Settings::default() };
    assert_eq!((policy.selector, policy.settings), (Some(Selector::default()), settings));
}

#[test]
fn a_window_over_midnight_reads_days_in_any_case() {
    let policy = window(json!("America/Los_Angeles"), json!(["Mon", "TUE", "wed", "Thu", "Fri"]), json!("21:00"), json!("05:00"));
    let expected = Window { timezone: "America/Los_Angeles".parse().unwrap(), days: vec![Mon, Tue, Wed, Thu, Fri], start: 1260, end: 300 };
    assert_eq!((problems(&policy), policy.settings.windows), (vec![], vec![expected]));
    for (start, end, minutes) in [("00:00", "24:00", (0, 1440)), ("21:00", "24:00", (1260, 1440)), ("21:00", "00:00", (1260, 0))] {
        let policy = window(json!("UTC"), json!(["Mon", "Mon"]), json!(start), json!(end));
        let expected = Window { timezone: Zone::UTC, days: vec![Mon], start: minutes.0, end: minutes.1 };
        assert_eq!((problems(&policy), policy.settings.windows), (vec![], vec![expected]));
    }
}

#[test]
fn a_window_that_could_be_misread_is_refused_with_its_field() {
    let entry = "spec.maintenanceWindows[0]";
    let list = "list the days, of Mon, Tue, Wed, Thu, Fri, Sat, Sun";
    let day = "one of Mon, Tue, Wed, Thu, Fri, Sat, Sun";
    let start = "\"HH:MM\" with two digits each, from \"00:00\" to \"23:59\"";
    let end = "\"HH:MM\" with two digits each, from \"00:00\" to \"24:00\"";
    let other = "another time than start; a whole day is \"00:00\" to \"24:00\"";
    let zone = "an IANA zone name, such as Europe/Berlin or UTC (no abbreviation, no offset)";
    let sat = || json!(["Sat"]);
    let utc = || json!("UTC");
    let (two, six) = (|| json!("02:00"), || json!("06:00"));
    for (policy, expected) in [
        (window(utc(), json!([]), two(), six()), format!("{entry}.days: []: {list}")),
        (window(utc(), json!(null), two(), six()), format!("{entry}.days: missing: {list}")),
        (window(utc(), json!("Sat"), two(), six()), format!("{entry}.days: \"Sat\": {list}")),
        (window(utc(), json!(["Sat", "Monday"]), two(), six()), format!("{entry}.days[1]: \"Monday\": {day}")),
        (window(utc(), json!([6]), two(), six()), format!("{entry}.days[0]: 6: {day}")),
        (window(utc(), sat(), json!("9:00"), six()), format!("{entry}.start: \"9:00\": {start}")),
        (window(utc(), sat(), json!("24:00"), six()), format!("{entry}.start: \"24:00\": {start}")),
        (window(utc(), sat(), json!(120), six()), format!("{entry}.start: 120: {start}")),
        (window(utc(), sat(), json!(null), six()), format!("{entry}.start: missing: {start}")),
        (window(utc(), sat(), two(), json!("24:01")), format!("{entry}.end: \"24:01\": {end}")),
        (window(utc(), sat(), two(), json!("06:60")), format!("{entry}.end: \"06:60\": {end}")),
        (window(utc(), sat(), two(), json!("06:00:00")), format!("{entry}.end: \"06:00:00\": {end}")),
        (window(utc(), sat(), two(), json!("+6:00")), format!("{entry}.end: \"+6:00\": {end}")),
        (window(utc(), sat(), two(), two()), format!("{entry}.end: \"02:00\": {other}")),
        (window(utc(), sat(), json!("00:00"), json!("00:00")), format!("{entry}.end: \"00:00\": {other}")),
        (window(json!("PST"), sat(), two(), six()), format!("{entry}.timezone: \"PST\": {zone}")),
        (window(json!("UTC+2"), sat(), two(), six()), format!("{entry}.timezone: \"UTC+2\": {zone}")),
        (window(json!("europe/berlin"), sat(), two(), six()), format!("{entry}.timezone: \"europe/berlin\": {zone}")),
        (window(json!(null), sat(), two(), six()), format!("{entry}.timezone: missing: {zone}")),
        (with(json!({"maintenanceWindows": ["Sat"]})), format!("{entry}: \"Sat\": an object")),
        (
            with(json!({"maintenanceWindows": []})),
            "spec.maintenanceWindows: []: at least one window: without one, nothing may ever start".into(),
        ),
        (
            with(json!({"maintenanceWindows": null})),
            "spec.maintenanceWindows: missing: a list of windows, each with timezone, days, start and end".into(),
        ),
    ] {
        assert_eq!((problems(&policy), policy.settings.windows), (vec![expected], vec![]));
    }
}

#[test]
fn names_of_the_iana_database_pass_also_the_old_ones() {
    for zone in ["Europe/Kyiv", "Europe/Kiev", "UTC", "Etc/GMT+2", "EST5EDT", "PST8PDT", "America/Argentina/Ushuaia"] {
        assert_eq!(problems(&window(json!(zone), json!(["Sat"]), json!("02:00"), json!("06:00"))), [""; 0], "{zone}");
    }
}

#[test]
fn one_window_that_cant_be_read_leaves_the_others() {
    let good = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
    let policy = with(json!({"maintenanceWindows": [{"timezone": "PST", "days": []}, good]}));
    let paths: Vec<&str> = policy.problems.iter().map(|problem| problem.path.as_str()).collect();
    let entry = |field: &str| format!("spec.maintenanceWindows[0].{field}");
    assert_eq!(paths, [entry("timezone"), entry("days"), entry("start"), entry("end")]);
    assert_eq!(policy.settings.windows, [saturdays()]);
}

#[test]
fn any_unreadable_part_of_a_selector_leaves_none() {
    let at = "spec.nodePoolSelector";
    let expression = |value: Value| json!({"matchExpressions": [value]});
    for (selector, expected) in [
        (json!(null), format!("{at}: missing: a label selector; {{}} selects every NodePool")),
        (json!([]), format!("{at}: []: an object")),
        (json!({"labels": {}}), format!("{at}.labels: {{}}: no such field: those are matchLabels, matchExpressions")),
        (json!({"matchLabels": {"tier": 1}}), format!("{at}.matchLabels.tier: 1: a label's value, in quotes")),
        (json!({"matchLabels": "a=b"}), format!("{at}.matchLabels: \"a=b\": an object of labels and their values")),
        (
            json!({"matchLabels": {"a": "b", "-": "c"}}),
            format!("{at}.matchLabels.-: \"c\": a label key, such as workload or example.com/team"),
        ),
        (
            json!({"matchExpressions": {}}),
            format!("{at}.matchExpressions: {{}}: a list of constraints, each with key, operator and values"),
        ),
        (
            expression(json!({"key": "k", "operator": "Near", "values": ["a"]})),
            format!("{at}.matchExpressions[0].operator: \"Near\": In, NotIn, Exists or DoesNotExist"),
        ),
        (expression(json!({"key": "k"})), format!("{at}.matchExpressions[0].operator: missing: In, NotIn, Exists or DoesNotExist")),
        (
            expression(json!({"operator": "Exists"})),
            format!("{at}.matchExpressions[0].key: missing: a label key, such as workload or example.com/team"),
        ),
        (
            expression(json!({"key": "k", "operator": "In"})),
            format!("{at}.matchExpressions[0].values: missing: at least one value for In and NotIn"),
        ),
        (
            expression(json!({"key": "k", "operator": "Exists", "values": ["a"]})),
            format!("{at}.matchExpressions[0].values: [\"a\"]: no values for Exists and DoesNotExist"),
        ),
        (
            expression(json!({"key": "k", "operator": "In", "values": ["a", 1]})),
            format!("{at}.matchExpressions[0].values[1]: 1: a label's value, in quotes"),
        ),
    ] {
        let policy = with(json!({"nodePoolSelector": selector}));
        assert_eq!((problems(&policy), policy.selector), (vec![expected], None));
    }
}

#[test]
fn objects_of_any_shape_are_read_without_a_panic() {
    for object in [json!(null), json!([]), json!(7), json!("spec"), json!({}), json!({"metadata": [], "spec": null})] {
        assert_eq!(problems(&policy(&object)), ["spec: missing: a spec with nodePoolSelector and maintenanceWindows"]);
    }
    for wrong in [json!([]), json!(7), json!("x"), json!(true)] {
        assert_eq!(problems(&spec(wrong.clone())), [format!("spec: {wrong}: an object")]);
        let fields: Map<String, Value> = SPEC.iter().map(|field| ((*field).to_owned(), wrong.clone())).collect();
        assert!(!spec(Value::Object(fields)).is_valid());
        let fields: Map<String, Value> = SURGE.iter().map(|field| ((*field).to_owned(), wrong.clone())).collect();
        assert!(!with(json!({ "surge": fields })).is_valid());
    }
}

#[test]
fn durations_are_whole_units_of_go_and_never_overflow() {
    for (text, seconds) in [("0s", 0), ("1h30m", 5400), ("90s", 90), ("1s1s", 2), ("007m", 420), ("2562047h", 9_223_369_200)] {
        assert_eq!(duration(text).map(|span| span.num_seconds()), Some(seconds), "{text}");
    }
    let huge = "9".repeat(400) + "h";
    for text in [
        "",
        "0",
        "h",
        "5",
        "1h5",
        "14d",
        "1.5h",
        "-1h",
        "+1h",
        "1 h",
        "1H",
        "1ms",
        "Never",
        "٣h",
        "2562048h",
        "18446744073709551615h",
        &huge,
    ] {
        assert_eq!(duration(text), None, "{text}");
    }
    let policy = with(json!({"surge": {"readyTimeout": huge}}));
    assert_eq!(policy.settings, Settings { windows: vec![saturdays()], ..Settings::default() });
    assert_eq!(problems(&policy), [format!("spec.surge.readyTimeout: \"{}…: {DURATION}", "9".repeat(199))]);
}

#[test]
fn any_whole_number_of_chances_is_read() {
    for chances in [0, -1, i64::MAX] {
        let policy = with(json!({"minRotationChances": chances}));
        assert_eq!((problems(&policy), policy.settings.min_rotation_chances), (vec![], chances));
    }
    let beyond = with(json!({"minRotationChances": u64::MAX}));
    assert_eq!(problems(&beyond), ["spec.minRotationChances: 18446744073709551615: a whole number, at least 1"]);
}

#[test]
fn a_blackout_that_cannot_be_read_makes_the_policy_invalid() {
    let day = "a day of the calendar as \"YYYY-MM-DD\"";
    let zone = "an IANA zone name, such as Europe/Berlin or UTC (no abbreviation, no offset)";
    let policy = with(json!({"suspend": "yes", "blackouts": [
        {"timezone": "UTC", "from": "2026-12-19", "to": "2027-01-04"},
        {"timezone": "CEST", "from": "2026-2-1", "to": "2027-02-29", "reason": 3},
        {"timezone": "UTC", "from": "2026-12-19", "to": "2026-12-18"},
        {"from": "+026-12-19", "until": "2026-12-20"},
        "2026-12-24",
    ], "surge": {"wholeNodeReservation": 1}}));
    let expected = Settings {
        windows: vec![saturdays()],
        blackouts: vec![blackout(Zone::UTC, "2026-12-19", "2027-01-04", "")],
        ..Settings::default()
    };
    assert_eq!(policy.settings, expected);
    assert_eq!(
        problems(&policy),
        [
            format!("spec.blackouts[1].timezone: \"CEST\": {zone}"),
            format!("spec.blackouts[1].from: \"2026-2-1\": {day}"),
            format!("spec.blackouts[1].to: \"2027-02-29\": {day}"),
            "spec.blackouts[1].reason: 3: a text that says why".into(),
            "spec.blackouts[2].to: \"2026-12-18\": not before from: both days are part of the blackout".into(),
            "spec.blackouts[3].until: \"2026-12-20\": no such field: those are timezone, from, to, reason".into(),
            format!("spec.blackouts[3].timezone: missing: {zone}"),
            format!("spec.blackouts[3].from: \"+026-12-19\": {day}"),
            format!("spec.blackouts[3].to: missing: {day}"),
            "spec.blackouts[4]: \"2026-12-24\": an object".into(),
            "spec.suspend: \"yes\": true or false".into(),
            "spec.surge.wholeNodeReservation: 1: true or false".into(),
        ]
    );
    let none = with(json!({"blackouts": "none"}));
    assert_eq!(problems(&none), ["spec.blackouts: \"none\": a list of blackouts, each with timezone, from and to"]);
}

#[test]
fn what_is_longer_than_the_api_server_takes_is_named() {
    let window = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
    let expression = json!({"key": "a", "operator": "In", "values": ["a".repeat(64)]});
    let blackout = json!({"timezone": "UTC", "from": "2030-01-01", "to": "2030-01-02", "reason": "x".repeat(257)});
    let policy = with(json!({
        "nodePoolSelector": {"matchExpressions": [expression]},
        "maintenanceWindows": vec![window; 65],
        "blackouts": [blackout],
        "surge": {"readyTimeout": format!("{}1h", "0".repeat(31)), "matchNodeRequirements": {"preferred": vec!["a"; 17]}},
    }));
    let paths: Vec<&str> = policy.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.nodePoolSelector.matchExpressions[0].values[0]",
            "spec.maintenanceWindows",
            "spec.blackouts[0].reason",
            "spec.surge.readyTimeout",
            "spec.surge.matchNodeRequirements.preferred",
        ]
    );
}
