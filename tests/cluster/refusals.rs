//! What is refused before anything happens: policies by the API server, passes by their preflight.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    passes::{Pass, Passes},
    policy::{policy, with},
};

/// Field below `spec`, what stands there, and part of what the API server says.
fn bad_fields() -> Vec<(&'static str, Value, &'static str)> {
    let window = |field: &str, value: Value| {
        let mut window = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
        window[field] = value;
        json!([window])
    };
    let windows = "maintenanceWindows";
    vec![
        ("nodePoolSelector", Value::Null, "spec.nodePoolSelector: Required value"),
        ("nodePoolSelector", json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), "In and NotIn need at least one value"),
        ("nodePoolSelector", json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), "supported values"),
        (windows, Value::Null, "spec.maintenanceWindows: Required value"),
        (windows, json!([]), "spec.maintenanceWindows in body should have at least 1 items"),
        (windows, window("timezone", Value::Null), "spec.maintenanceWindows[0].timezone: Required value"),
        (windows, window("timezone", json!("+02:00")), "must be an IANA zone name"),
        (windows, window("days", Value::Null), "spec.maintenanceWindows[0].days: Required value"),
        (windows, window("days", json!([])), "spec.maintenanceWindows[0].days"),
        (windows, window("days", json!(["Funday"])), "list the days"),
        (windows, window("start", json!("2:00")), "must be \"HH:MM\" with two digits each, from \"00:00\" to \"23:59\""),
        (windows, window("start", json!("24:00")), "must be \"HH:MM\" with two digits each, from \"00:00\" to \"23:59\""),
        (windows, window("end", json!("24:01")), "must be \"HH:MM\" with two digits each, from \"00:00\" to \"24:00\""),
        (windows, window("end", json!("02:00")), "end must be another time than start"),
        ("ageThreshold", json!("14d"), "must be auto, or whole hours, minutes and seconds"),
        ("ageThreshold", json!(240), "spec.ageThreshold"),
        ("minRotationChances", json!(0), "spec.minRotationChances in body should be greater than or equal to 1"),
        ("surge.maxUnavailable", json!(2), "must be 1"),
        ("surge.readyTimeout", json!("0s"), "must be longer than 0"),
        ("surge.readyTimeout", json!("1.5h"), "must be whole hours, minutes and seconds"),
        ("surge.retryBackoff", json!("0h0m"), "must be longer than 0"),
        ("surge.cooldownAfter", json!("1d"), "must be whole hours, minutes and seconds"),
        ("surge.failurePause", json!("-1m"), "must be whole hours, minutes and seconds"),
        ("surge.drainTimeout", json!("soon"), "must be whole hours, minutes and seconds"),
        ("surge.matchNodeRequirements", json!({"required": ["kubernetes.io/hostname"]}), "names the very node that is to be replaced"),
        ("surge.forcefulFallback", json!({"enabled": "yes"}), "spec.surge.forcefulFallback.enabled"),
        ("prePull.enabled", json!(true), "must be false"),
    ]
}

/// Without Karpenter, which the API server needs for none of it.
#[tokio::test(flavor = "multi_thread")]
async fn bad_policies_and_clusters_that_lack_something_are_refused_in_words_that_help() {
    let passes = Passes::start(Options { karpenter: false, ..Options::default() }).await;
    let plane = &passes.plane;
    let mut wrong = Vec::new();
    for (field, value, expected) in bad_fields() {
        // kubectl's own validation would come first.
        let bad = with(policy("bad"), field, value.clone()).to_string();
        let answer = plane.run_kubectl(&["create", "--validate=false", "-f", "-"], &bad).await;
        let answer = answer.map_or_else(|error| error.to_string(), |done| format!("accepted: {done}"));
        if !answer.contains(expected) {
            wrong.push(format!("{field}: {value}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let text = plane.run_kubectl(&["get", "rotationpolicies", "-o", "name"], "").await.unwrap();
    assert_eq!(text, "");
    plane.apply_objects(&[policy("good")]).await.unwrap();

    let pass = passes.pass().await;
    refuses(&pass, &["nodepools.karpenter.sh/v1", "is Karpenter v1 installed?"]);

    let nobody = plane.kubeconfig_for("default", "default").await.unwrap();
    let words = "User \"system:serviceaccount:default:default\" cannot list resource \"nodepools\" in API group \"karpenter.sh\"";
    refuses(&run(&nobody).await, &["`list` on nodepools.karpenter.sh/v1", words]);

    nobody_answers(plane).await;
    assert_eq!(passes.get("rotationpolicy", "good").await["status"], Value::Null, "no pass got as far as a status");
}

/// A port that is closed, and one that takes connections and never answers.
async fn nobody_answers(plane: &ControlPlane) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    assert!(kubeconfig.contains(&plane.server()), "{}", plane.server());
    for address in [closed, silent.local_addr().unwrap()] {
        let server = format!("https://{address}");
        let path = plane.directory().join("elsewhere.kubeconfig");
        std::fs::write(&path, kubeconfig.replace(&plane.server(), &server)).unwrap();
        let start = Instant::now();
        let pass = run(&path).await;
        refuses(&pass, &[&server]);
        assert_eq!(pass.log.lines().count(), 2, "one line says it, and one ends the pass: {}", pass.log);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

fn refuses(pass: &Pass, words: &[&str]) {
    assert_eq!(pass.code, Some(3), "{}", pass.log);
    let said = format!("{}{}", pass.log, pass.stdout).replace("\\\"", "\"");
    for words in words {
        assert!(said.contains(words), "{words}: {said}");
    }
}

async fn run(kubeconfig: &Path) -> Pass {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noderotation"));
    command.args(["run", "--kubeconfig"]).arg(kubeconfig).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Pass::of(command.output().await.unwrap())
}
