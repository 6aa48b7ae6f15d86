//! The path of an alert: passes push, Prometheus scrapes and evaluates the shipped rules, Alertmanager tells a webhook.
//! All of them are real; only the rules' times are shorter.

use std::{process::Command, time::Duration};

use control_plane::{Alertmanager, Options, Pool, Prometheus, Pushgateway};
use serde_json::{Value, json};

use crate::{
    passes::Passes,
    policy::{policy, with},
    root,
    webhook::Webhook,
};

const CONFLICT: &str = "NoderotationPolicyConflict";
const NO_SUCCESS: &str = "NoderotationNoSuccessfulPass";
const ABSENT: &str = "NoderotationPassAbsent";

/// The shipped rules with seconds in place of minutes.
fn quick_rules() -> String {
    let mut rules = std::fs::read_to_string(root().join("kustomize/overlays/monitoring/rules.yaml")).unwrap();
    let seconds = [("> 900", "> 25"), ("[5m]", "[10s]"), ("for: 2m", "for: 1s"), ("for: 10m", "for: 2s"), ("for: 15m", "for: 5s")];
    for (from, to) in seconds {
        assert!(rules.contains(from), "the rules have no {from} any more");
        rules = rules.replace(from, to);
    }
    rules
}

#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    let output = Command::new("promtool").args(["test", "rules", "alerts.yaml"]).current_dir(root().join("tests/delivery")).output();
    let output = output.expect("promtool is missing: `make tools` installs it");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let rules: Value =
        serde_yaml_ng::from_str(&std::fs::read_to_string(root().join("kustomize/overlays/monitoring/rules.yaml")).unwrap()).unwrap();
    let tests: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(root().join("tests/delivery/alerts.yaml")).unwrap()).unwrap();
    let checks = tests["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap());
    let checks: Vec<(&str, bool)> =
        checks.map(|check| (check["alertname"].as_str().unwrap(), check["exp_alerts"].as_array().unwrap().is_empty())).collect();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(
            checks.contains(&(name, true)) && checks.contains(&(name, false)),
            "{name} needs both a case that fires and one that does not"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_wakes_somebody_and_what_is_mended_lets_them_sleep() {
    let options = Options { pod_ready_delay: Duration::ZERO, ..Options::default() };
    let (passes, gateway) = tokio::join!(Passes::start(options), Pushgateway::start());
    let mut gateway = gateway.unwrap();
    let passes = passes.with(&["--pushgateway", &gateway.url(), "--grouping", "cluster=blue"]);
    let webhook = Webhook::start().await;
    let alertmanager = Alertmanager::start(webhook.url()).await.unwrap();
    passes.pass().await;
    let target = gateway.url().replace("http://", "");
    let prometheus = Prometheus::start(&target, &quick_rules(), &alertmanager).await.unwrap();

    rotate_one(&passes).await;
    dashboard(&passes, &prometheus).await;
    assert_eq!(webhook.told(CONFLICT).len() + webhook.told(NO_SUCCESS).len(), 0, "all is well");
    conflict(&passes, &webhook).await;
    no_success(&passes, &mut gateway, &webhook).await;
}

/// One rotation, so that every series has something to tell; then nothing is due any more.
async fn rotate_one(passes: &Passes) {
    let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
    passes.plane.part_filled_fleet(&pool, 1).await.unwrap();
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();
    let done = async |_: &_| passes.totals("web").await["success"] == 1;
    passes.until("a rotation has succeeded", Duration::from_secs(240), done).await;
    passes.plane.apply_objects(&[with(policy("web"), "ageThreshold", json!("100h"))]).await.unwrap();
}

/// Every query of the dashboard finds something in what was really pushed.
async fn dashboard(passes: &Passes, prometheus: &Prometheus) {
    let text = std::fs::read_to_string(root().join("kustomize/overlays/monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries: Vec<(&str, String)> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten().map(move |target| (&panel["title"], &target["expr"])))
        .map(|(title, expression)| (title.as_str().unwrap(), expression.as_str().unwrap().replace("$nodepool", ".*")))
        .collect();
    assert!(queries.len() > 25);
    let start = std::time::Instant::now();
    while !queries.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "these find nothing: {queries:#?}");
        assert_eq!(passes.pass().await.code, Some(0));
        let mut empty = Vec::new();
        for (title, expression) in queries {
            let found = prometheus.query(&expression).await.unwrap();
            let labelled = found.iter().all(|series| series["metric"]["cluster"] == "blue");
            assert!(labelled, "{title}: {expression} loses the cluster's name: {found:?}");
            if found.is_empty() {
                empty.push((title, expression));
            }
        }
        queries = empty;
    }
}

async fn conflict(passes: &Passes, webhook: &Webhook) {
    let mut twin = with(policy("web"), "ageThreshold", json!("100h"));
    twin["metadata"]["name"] = "twin".into();
    let pass = async || assert_eq!(passes.pass().await.code, Some(0));
    passes.plane.apply_objects(&[twin]).await.unwrap();
    webhook.until("the conflict is told", pass, |webhook| webhook.is(CONFLICT, "firing")).await;
    let told = webhook.last(CONFLICT).unwrap();
    let labels = json!({"alertname": CONFLICT, "cluster": "blue", "job": "noderotation", "nodepool": "web", "severity": "warning"});
    assert_eq!(told["labels"], labels);
    assert_eq!(told["annotations"]["summary"], "Several policies match NodePool web equally well");
    passes.plane.run_kubectl(&["delete", "rotationpolicy", "twin"], "").await.unwrap();
    webhook.until("the conflict's end is told", pass, |webhook| webhook.is(CONFLICT, "resolved")).await;
}

/// The program loses its rights. The last success stays where it is, and a Pushgateway that forgets it ends no alert.
async fn no_success(passes: &Passes, gateway: &mut Pushgateway, webhook: &Webhook) {
    let succeeded = success(gateway).await.unwrap();
    passes.plane.run_kubectl(&["delete", "clusterrolebinding", "noderotation"], "").await.unwrap();
    let fails = async || assert_ne!(passes.pass().await.code, Some(0));
    // The API server takes a moment to notice.
    while passes.pass().await.code == Some(0) {}
    let last = success(gateway).await.unwrap();
    assert!(last >= succeeded);
    webhook.until("failing passes are told", fails, |webhook| webhook.is(NO_SUCCESS, "firing")).await;
    assert_eq!(success(gateway).await, Some(last), "failing passes leave the last success alone");
    let metrics = gateway.metrics().await.unwrap();
    assert!(metrics.contains("noderotation_candidates{") && metrics.contains("nodepool=\"web\""), "and what is known of the pools");
    assert!(!webhook.is(ABSENT, "firing"));

    gateway.restart().await.unwrap();
    webhook.until("an empty Pushgateway is told", fails, |webhook| webhook.is(ABSENT, "firing")).await;
    assert_eq!(success(gateway).await, None);
    fails().await;
    assert_eq!(webhook.told(NO_SUCCESS), ["firing"], "it goes on");

    passes.plane.apply_kustomization(&root().join("kustomize/without-cronjob")).await.unwrap();
    let pass = async || drop(passes.pass().await);
    webhook.until("the end of both is told", pass, |webhook| webhook.is(NO_SUCCESS, "resolved") && webhook.is(ABSENT, "resolved")).await;
}

/// When the Pushgateway says that a pass last did everything.
async fn success(gateway: &Pushgateway) -> Option<String> {
    let metrics = gateway.metrics().await.unwrap();
    metrics.lines().find(|line| line.starts_with("noderotation_pass_success_timestamp_seconds{")).map(str::to_owned)
}
