use std::fs;

use clap::Parser;

use super::*;
use crate::api::time::to_annotation;

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Typed {
    #[command(flatten)]
    args: SimulateArgs,
}

const SMALL: [&str; 8] = ["--nodes", "6", "--pools", "2", "--from", "2026-12-01", "--days", "9"];

fn typed(arguments: &[&str]) -> SimulateArgs {
    Typed::parse_from([&["simulate"], arguments].concat()).args
}

fn told(arguments: &[&str]) -> Result<Forecast, String> {
    forecast(&typed(arguments), question::Found::default())
}

fn small(more: &[&str]) -> Forecast {
    told(&[&SMALL, more].concat()).unwrap()
}

const SCREEN: Screen = Screen { width: Some(100), height: None, colour: false, headers: true };

/// A forecast of files with this text.
fn of_yaml(text: &str, more: &[&str]) -> Result<Forecast, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.yaml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let told = told(&[&["-f", path, "--from", "2026-12-01", "--days", "9"], more].concat());
    told.map_err(|why| why.replace(path, "fleet.yaml"))
}

#[test]
fn the_text_ends_with_the_answer() {
    let text = text::text(&small(&[]), false, SCREEN);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn every_event_is_a_line_where_it_is_asked_for() {
    let forecast = small(&["--pools", "1", "--nodes", "2"]);
    insta::assert_snapshot!(text::text(&forecast, true, Screen { width: None, ..SCREEN }));
}

#[test]
fn json_has_the_documented_shape() {
    insta::assert_snapshot!(structured(&small(&["--nodes", "2", "--days", "5"]), false).unwrap());
}

#[test]
fn a_long_forecast_is_told_by_the_week() {
    let forecast = small(&["--days", "60", "--nodes", "2"]);
    assert!(forecast.stretches(None).len() < 10);
    assert!(text::text(&forecast, false, SCREEN).contains("week of Mon 07 Dec 2026"));
}

#[test]
fn the_page_is_one_file_without_network_and_escapes_what_it_tells() {
    let pool =
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: '<script>alert(1)</script>&\"'}\nspec: {limits: {nodes: 60}}\n";
    let forecast = of_yaml(pool, &["--nodes", "3"]).unwrap();
    let page = html::page(&forecast).unwrap();
    assert!(!page.contains("<script"), "{page}");
    assert!(!page.contains("http:") && !page.contains("https:"));
    assert!(page.contains("&#60;script&#62;alert(1)&#60;/script&#62;&#38;&#34;"));
    assert!(page.contains("spec.limits allow 60"));
}

#[test]
fn windows_and_times_are_read_as_people_write_them() {
    let days = |text: &str| typed::window(text).map(|entry| entry["days"].to_string());
    assert_eq!(days("Wed,Sat 02:00-06:00 Europe/Berlin").unwrap(), r#"["Wed","Sat"]"#);
    assert_eq!(days("Fri-Mon 02:00-06:00").unwrap(), r#"["Fri","Sat","Sun","Mon"]"#);
    assert_eq!(days("daily 22:00-04:00 UTC").map(|days| days.matches('"').count()), Ok(14));
    for (text, why) in [
        ("Wed 02:00-06:00 CEST", r#"timezone: "CEST": an IANA zone name, such as Europe/Berlin or UTC (no abbreviation, no offset)"#),
        ("Wed 2:00-06:00", r#"start: "2:00": "HH:MM" with two digits each, from "00:00" to "23:59""#),
        ("02:00-06:00", r#"write days, hours and a zone, such as "Wed,Sat 02:00-06:00 Europe/Berlin"; without a zone it is UTC"#),
    ] {
        assert_eq!(days(text).unwrap_err(), why);
    }
    assert!(days("Wedn 02:00-06:00").unwrap_err().starts_with("days[0]: \"Wedn\""));
    assert_eq!(typed::instant("2026-12-01").map(to_annotation), Ok("2026-12-01T00:00:00Z".into()));
    assert_eq!(typed::instant("2026-12-01T01:00:00.5+01:00").map(to_annotation), Ok("2026-12-01T00:00:00Z".into()));
    assert!(typed::instant("tomorrow").is_err());
    assert!(typed::outage("2026-12-02/2026-12-01").is_err());
    assert!(typed::hours("02:00").is_err());
}

#[test]
fn what_ifs_are_told_with_their_times() {
    let told = small(&["--fail-capacity", "02:00-03:00", "--drain", "45m", "--outage", "6h"]).assumed;
    assert_eq!(
        told[2..],
        [
            "what if no instance is to be had 9 times, first Tue 2026-12-01 02:00 to Tue 2026-12-01 03:00 Europe/Berlin, last Wed 2026-12-09 02:00 to Wed 2026-12-09 03:00 Europe/Berlin",
            "what if every drain takes 45m or longer",
            "what if no pass runs Wed 2026-12-02 02:00 to Wed 2026-12-02 08:00 Europe/Berlin",
        ]
    );
    let limited = |max| small(&["--max-in-flight", max]);
    assert_eq!(limited("1").assumed[2..], ["what if no more than 1 rotation is in flight in the cluster"]);
    assert_eq!(limited("2"), small(&[]));
    let between = small(&["--outage", "2026-12-02T01:00:00Z/2026-12-02T02:00:00Z", "--fail-capacity", "23:30-00:30 UTC"]).assumed;
    assert_eq!(between[3], "what if no pass runs Wed 2026-12-02 02:00 to Wed 2026-12-02 03:00 Europe/Berlin");
    assert!(between[2].starts_with("what if no instance is to be had 10 times, first Tue 2026-12-01 00:30"), "{between:?}");
}

const FLEET: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: web, labels: {team: a}}
  spec: {template: {spec: {expireAfter: 336h, terminationGracePeriod: 1h}}}
- apiVersion: karpenter.sh/v1
  kind: NodeClaim
  metadata: {name: web-1, creationTimestamp: "2026-11-25T00:00:00Z", labels: {karpenter.sh/nodepool: web}}
  spec: {expireAfter: 336h, terminationGracePeriod: 1h}
  status: {nodeName: node-1, capacity: {cpu: "4", memory: 16Gi}}
---
apiVersion: noderotation.io/v1alpha1
kind: RotationPolicy
metadata: {name: other}
spec:
  nodePoolSelector: {matchLabels: {team: b}}
  maintenanceWindows: [{timezone: UTC, days: [Wed], start: "02:00", end: "06:00"}]
"#;

#[test]
fn a_pool_that_no_policy_selects_is_told_and_fares_as_without() {
    let forecast = of_yaml(FLEET, &[]).unwrap();
    assert_eq!(forecast.pools[0].policy, None);
    let text = text::text(&forecast, false, SCREEN);
    assert!(text.contains("web: no policy selects this NodePool, so it is not rotated"), "{text}");
    assert_eq!(forecast.pools[0].with, forecast.pools[0].without);
    let with = of_yaml(FLEET, &["--window", "Wed,Sat 02:00-06:00"]).unwrap();
    assert_eq!(with.pools[0].policy.as_deref(), Some("windows"));
    // On 2 December, and its replacement a week later.
    assert_eq!(with.pools[0].outcomes.success, 2);
}

#[test]
fn what_cannot_be_read_is_named_with_its_place_and_what_would_be_right() {
    let wrong = |from: &str, to: &str| of_yaml(&FLEET.replacen(from, to, 1), &[]).unwrap_err();
    let told = [
        wrong("expireAfter: 336h", "expireAfter: 14d"),
        wrong(
            "kind: NodeClaim\n  metadata: {name: web-1, creationTimestamp: \"2026-11-25T00:00:00Z\",",
            "kind: NodeClaim\n  metadata: {name: web-1,",
        ),
        wrong("creationTimestamp: \"2026-11-25T00:00:00Z\"", "creationTimestamp: yesterday"),
        wrong("start: \"02:00\"", "start: 2am"),
        wrong("items:", "items: ["),
        wrong("name: web-1, ", ""),
        told(&["-f", "there-is-no-such-file.yaml"]).unwrap_err(),
        told(&["--policy", "README.md"]).unwrap_err(),
        told(&["--nodes", "2", "--pools", "3"]).unwrap_err(),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

const WORKLOAD: &str = r#"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec: {replicas: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, labels: {app: cart}}
spec: {nodeName: node-1, containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: cart}}}
"#;

#[test]
fn numbers_that_nobody_could_mean_are_refused_or_passed_over() {
    let fleet = format!("{FLEET}{WORKLOAD}");
    // Workloads are as large as their Pods are many: a controller's own number is none of ours.
    let many = of_yaml(&fleet.replace("replicas: 2}", "replicas: 2000000000}"), &[]);
    assert_eq!(many, of_yaml(&fleet, &[]));
    for (amount, told) in [
        (r#""18446744073709551615%""#, r#"spec.maxUnavailable: "18446744073709551615%""#),
        (r#""101%""#, r#"spec.maxUnavailable: "101%""#),
        ("some", r#"spec.maxUnavailable: "some""#),
        ("-1", "spec.maxUnavailable: -1"),
    ] {
        let why = of_yaml(&fleet.replace("maxUnavailable: 1", &format!("maxUnavailable: {amount}")), &[]).unwrap_err();
        let right = format!("PodDisruptionBudget cart: {told}: a whole number from 0 on, or a percentage such as \"50%\"");
        assert!(why.ends_with(&right), "{why}");
    }
}

#[test]
fn json_as_kubectl_prints_it_is_read_too() {
    let yaml: Vec<serde_json::Value> =
        serde_yaml_ng::Deserializer::from_str(FLEET).map(|document| serde::Deserialize::deserialize(document).unwrap()).collect();
    let json: Vec<String> = yaml.iter().map(|value| format!("{value:#}")).collect();
    assert_eq!(of_yaml(&json.join("\n"), &[]), of_yaml(FLEET, &[]));
}

#[test]
fn it_begins_at_the_next_midnight() {
    let begin = next_midnight();
    let now = Clock::local().now();
    assert_eq!(begin.num_seconds_from_midnight(), 0);
    assert!(begin > now - TimeDelta::seconds(10) && begin <= later(now, TimeDelta::days(1)));
}
