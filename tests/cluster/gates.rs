//! What keeps a rotation from starting or from going on, each with its reason; and what operators have set on Nodes.
//!
//! One control plane with a pool for each gate, each under a policy of its own. In the end every gate is opened, and what it
//! held starts: nothing else had held it.

use std::{collections::BTreeMap, time::Duration};

use chrono::TimeDelta;
use control_plane::{Options, Pool, Workload, has_condition};
use futures::future::join_all;
use noderotation::{
    api::time::{later, to_annotation},
    clock::Clock,
};
use serde_json::{Value, json};

use crate::{
    metrics::sample,
    passes::{Passes, annotation, json as read},
    policy::{policy, with},
};

/// Pools of one Node. `absorb` has a second one, which its operator protects.
const POOLS: [&str; 8] = ["closed", "frozen", "unreadable", "doubted", "full", "held", "outlast", "absorb"];
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn every_gate_holds_with_its_reason_and_starts_when_it_opens() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noderotation.prom");
    let passes = Passes::start(Options::default()).await.with(&["--log-format", "json", "--metrics-file", file.to_str().unwrap()]);
    fill(&passes).await;
    let protected = operator_protects(&passes).await;
    let cordoned = operator_cordons(&passes).await;
    passes.plane.apply_objects(&policies()).await.unwrap();
    dry_run_writes_nothing(&passes).await;

    a_pending_rotation_meets_a_freeze(&passes).await;
    assert_eq!(theirs(&passes, &protected.0).await, protected.1, "the Node that took the Pods");
    assert_eq!(theirs(&passes, &cordoned.0).await, cordoned.1, "the Node of the attempt that was rolled back");
    every_gate_tells_why(&passes).await;
    check_events(&passes).await;
    check_metrics(&std::fs::read_to_string(&file).unwrap());
    check_statuses(&passes).await;
    what_was_held_starts(&passes, &cordoned.0).await;
    passes.assert_rights_sufficed();
}

async fn fill(passes: &Passes) {
    let plane = &passes.plane;
    let pool = |name: &str| {
        let pool = Pool::new(name).label("rotate", name).expire_after("240h").termination_grace_period("10m");
        match name {
            // Too short for its policy's t_rot of 40m8s.
            "doubted" => pool.expire_after("33m"),
            "full" => pool.limits(json!({"nodes": 1})),
            "static" => pool.replicas(1),
            // Its two Nodes are alike, so that the one can take what the other carries.
            "absorb" => pool.requirement(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]})),
            _ => pool,
        }
    };
    let one = async |name: &str, pool: Pool| {
        plane.install(&pool).await.unwrap();
        plane.deploy(&Workload::new(name, pool.name()).cpu("5")).await.unwrap();
    };
    let mut pools: Vec<_> = POOLS.iter().map(|name| one(name, pool(name))).collect();
    pools.push(one("other", pool("absorb")));
    let fixed = pool("static");
    let (_, installed) = tokio::join!(join_all(pools), plane.install(&fixed));
    installed.unwrap();
    plane.wait_for_claims("static", 1, "Initialized").await.unwrap();
    plane.wait_for_claims("absorb", 2, "Initialized").await.unwrap();
    for pool in ["frozen", "unreadable"] {
        let until = if pool == "frozen" { in_hours(1) } else { "tomorrow".into() };
        freeze(passes, pool, Some(&until)).await;
    }
}

fn policies() -> Vec<Value> {
    let window = |hours: i64| later(Clock::local().now(), TimeDelta::hours(hours)).format("%H:%M").to_string();
    let mut closed = policy("closed");
    closed["spec"]["maintenanceWindows"][0]["start"] = window(6).into();
    closed["spec"]["maintenanceWindows"][0]["end"] = window(7).into();
    let outlast = with(with(policy("outlast"), "surge.readyTimeout", json!("25s")), "surge.retryBackoff", json!("1s"));
    vec![
        closed,
        with(policy("doubted"), "surge.readyTimeout", json!("30m")),
        with(with(policy("held"), "surge.cooldownAfter", json!("1h")), "surge.readyTimeout", json!("10m")),
        with(outlast, "surge.failurePause", json!("1h")),
        policy("absorb"),
        policy("frozen"),
        policy("unreadable"),
        policy("static"),
        policy("full"),
    ]
}

fn in_hours(hours: i64) -> String {
    to_annotation(later(Clock::local().now(), TimeDelta::hours(hours)))
}

async fn freeze(passes: &Passes, pool: &str, until: Option<&str>) {
    let value = until.map_or("noderotation.io/freeze-".into(), |until| format!("noderotation.io/freeze={until}"));
    passes.plane.run_kubectl(&["annotate", "--overwrite", "nodepool", pool, &value], "").await.unwrap();
}

/// What is an operator's on a Node, or Kubernetes' own: everything but the status and the revision.
async fn theirs(passes: &Passes, node: &str) -> Value {
    let text = passes.plane.run_kubectl(&["get", "node", node, "--output=json"], "").await.unwrap();
    let node: Value = serde_json::from_str(&text).unwrap();
    json!({"labels": node["metadata"]["labels"], "annotations": node["metadata"]["annotations"], "spec": node["spec"]})
}

/// The Node of a pool that carries Pods of this Deployment.
async fn node_of(passes: &Passes, name: &str, pool: &str) -> String {
    passes.plane.pods_by_node(&Workload::new(name, pool)).await.unwrap().into_keys().next().unwrap()
}

/// The second Node of `absorb`: opted out by its operator, with words of theirs on it, and empty, so that it takes what
/// the first one carries.
async fn operator_protects(passes: &Passes) -> (String, Value) {
    let node = node_of(passes, "other", "absorb").await;
    let kubectl = async |arguments: &[&str]| passes.plane.run_kubectl(arguments, "").await.unwrap();
    kubectl(&["annotate", "node", &node, "karpenter.sh/do-not-disrupt=true", "example.com/note=kept by Ana\nuntil May"]).await;
    kubectl(&["label", "node", &node, "example.com/rack=r7"]).await;
    kubectl(&["delete", "deployment", "other"]).await;
    let gone = Workload::new("other", "absorb").replicas(0);
    passes.plane.wait_for_pods(&gone).await.unwrap();
    let seen = theirs(passes, &node).await;
    (node, seen)
}

/// The Node of `outlast`: cordoned by its operator.
async fn operator_cordons(passes: &Passes) -> (String, Value) {
    let node = node_of(passes, "outlast", "outlast").await;
    let kubectl = async |arguments: &[&str]| passes.plane.run_kubectl(arguments, "").await.unwrap();
    kubectl(&["cordon", &node]).await;
    kubectl(&["annotate", "node", &node, "example.com/note=disk replaced"]).await;
    kubectl(&["label", "node", &node, "example.com/rack=r8"]).await;
    let seen = theirs(passes, &node).await;
    assert_eq!(seen["spec"]["unschedulable"], true);
    (node, seen)
}

async fn dry_run_writes_nothing(passes: &Passes) {
    let mut command = passes.command();
    command.arg("--dry-run");
    let pass = passes.finish(command).await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    for pool in ["held", "outlast", "absorb"] {
        assert!(pass.stdout.contains(&format!("NodePool {pool}: start: starts the rotation of NodeClaim {pool}-")), "{}", pass.stdout);
        assert!(pass.stdout.contains(&format!("NodePool {pool}: anchor the rotation of {pool}-")), "{}", pass.stdout);
    }
    assert!(pass.stdout.contains("NodePool closed: gated: no start (window-closed)"), "{}", pass.stdout);
    let requests = passes.requests();
    assert!(requests.iter().any(|request| request.resource == "nodeclaims"), "the run is in the audit log");
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    let of_leases: Vec<&str> =
        requests.iter().filter(|request| request.resource == "leases").map(|request| request.verb.as_str()).collect();
    assert_eq!(of_leases, ["get"], "a run that writes nothing takes no Lease, and only says who holds it");
}

/// `held` and `outlast` are frozen while their surges come. The one is held until its operator lifts the freeze, and then
/// goes on; the other loses its placeholder, gets no new one, and is rolled back at readyTimeout.
async fn a_pending_rotation_meets_a_freeze(passes: &Passes) {
    let first = passes.pass().await;
    assert_eq!(first.code, Some(0), "{}", first.log);
    for pool in ["held", "outlast", "absorb"] {
        assert_eq!(first.summary(pool)["action"], "start", "{}", first.log);
    }
    let claim = passes.pool_annotation("held", "active-rotation").await.unwrap();
    let lost = format!("noderotation-surge-{}", passes.pool_annotation("outlast", "active-rotation").await.unwrap());
    for pool in ["held", "outlast"] {
        freeze(passes, pool, Some(&in_hours(1))).await;
    }
    passes.plane.run_kubectl(&["delete", "pod", "--namespace=node-rotation-system", &lost], "").await.unwrap();
    assert_eq!(passes.status("held").await["rotatingNodePools"], 1);

    let mut held = passes.until("the surge of held is there", LIMIT, async |_| placeholder_runs(passes, &claim).await).await;
    for _ in 0..3 {
        held.push(passes.pass().await);
    }
    for pass in held {
        let summary = pass.summary("held");
        assert_eq!(summary["action"], "await-surge", "{summary}");
        assert!(summary["message"].as_str().unwrap().starts_with(&format!("the surge for {claim} is held until")), "{summary}");
    }
    let old = read(&passes.plane.node_claims(), &claim).await;
    assert!(old["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(annotation(&old, "state").as_deref(), Some("pending"));
    let pods = passes.plane.run_kubectl(&["get", "pods", "--namespace=node-rotation-system", "--output=name"], "").await.unwrap();
    assert!(!pods.contains(&lost), "a frozen attempt creates no placeholder: {pods}");

    freeze(passes, "held", None).await;
    let ended = async |pool: &str, outcome: &str| passes.totals(pool).await[outcome] == 1;
    let all_ended = async |_: &_| ended("held", "success").await && ended("absorb", "success").await && ended("outlast", "failure").await;
    passes.until("held and absorb have succeeded, outlast has failed", LIMIT, all_ended).await;
    freeze(passes, "outlast", None).await;
    let claim = lost.trim_start_matches("noderotation-surge-");
    let node = node_of(passes, "outlast", "outlast").await;
    let mut expected = vec![
        "nodepools frozen: noderotation.io/freeze".into(),
        "nodepools outlast: noderotation.io/last-failure-at".into(),
        "nodepools unreadable: noderotation.io/freeze".into(),
        format!("nodeclaims {claim}: noderotation.io/failed-at"),
        format!("nodeclaims {claim}: noderotation.io/retry-count"),
        format!("nodeclaims {claim}: noderotation.io/state"),
        format!("nodeclaims {claim}: noderotation.io/written-by"),
        format!("nodes {node}: cordoned"),
    ];
    expected.sort();
    let mut left = passes.leftovers().await;
    left.sort();
    assert_eq!(left, expected, "what holds the next attempt, and what operators set");
}

/// The placeholder runs on a Ready Node: but for the freeze the next pass would drain.
async fn placeholder_runs(passes: &Passes, claim: &str) -> bool {
    let name = format!("noderotation-surge-{claim}");
    let arguments = ["get", "pod", &name, "--namespace=node-rotation-system", "--output=json"];
    let pod: Value = serde_json::from_str(&passes.plane.run_kubectl(&arguments, "").await.unwrap()).unwrap();
    let Some(node) = pod["spec"]["nodeName"].as_str() else { return false };
    let node = passes.plane.run_kubectl(&["get", "node", node, "--output=json"], "").await.unwrap();
    pod["status"]["phase"] == "Running" && has_condition(&serde_json::from_str(&node).unwrap(), "Ready")
}

async fn every_gate_tells_why(passes: &Passes) {
    let pass = passes.pass().await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    let why = BTreeMap::from([
        ("closed", "no start (window-closed): the next maintenance window opens at 20"),
        ("frozen", "no start (frozen): frozen by the operator, until 20"),
        ("unreadable", "no start (frozen): noderotation.io/freeze: \"tomorrow\" is not an RFC 3339 time, and counts as frozen"),
        ("static", "no start (static-pool): StaticNodePool: spec.replicas is 1: a static pool has no room for a surge"),
        ("doubted", "no start (finding): OverrideGBelowOne: ageThreshold 1s guarantees G = -"),
        ("full", "no start (headroom): the surge for full-"),
        ("held", "no start (cooldown): cooldownAfter 1h after the last rotation, until 20"),
        ("outlast", "no start (failure-pause): failurePause 1h after the last failure, until 20"),
    ]);
    for (pool, why) in why {
        let summary = pass.summary(pool);
        assert_eq!((&summary["action"], &summary["policy"]), (&json!("gated"), &json!(pool)), "{summary}");
        let message = summary["message"].as_str().unwrap();
        assert!(message.starts_with(why), "{message}");
        assert!(!message.contains("; "), "no other gate: {message}");
        // Where the placeholder of outlast was lost, Karpenter may have launched a Node for it already.
        assert!(pool == "outlast" || summary["census"] == "eligible 1", "{summary}");
    }
    let absorbed = pass.summary("absorb");
    assert_eq!((&absorbed["action"], &absorbed["census"]), (&json!("idle"), &json!("opted-out 1")));
    let lines = pass.lines();
    let last = lines.last().unwrap();
    let fields = [&last["message"], &last["pools"], &last["failed"], &last["exit"]];
    assert_eq!(fields, [&json!("the pass is done"), &json!(9), &json!(0), &json!(0)], "{last}");
    assert!(last["milliseconds"].is_u64(), "{last}");
}

async fn check_events(passes: &Passes) {
    // What a threshold of a second under an always open window comes to, besides.
    let reasons = |more: &[&str]| {
        let mut reasons: Vec<String> = ["AVeryAggressive", "ThroughputBelowArrival"].iter().chain(more).map(ToString::to_string).collect();
        reasons.sort();
        reasons
    };
    let expected = BTreeMap::from([
        ("closed", reasons(&[])),
        ("frozen", reasons(&[])),
        ("unreadable", reasons(&["FreezeUnreadable"])),
        ("static", reasons(&["StaticNodePool"])),
        ("doubted", reasons(&["OverrideGBelowOne", "RetryBackoffShort"])),
        ("full", reasons(&["InsufficientHeadroom"])),
        ("held", reasons(&["RetryBackoffShort", "RotationCompleted", "RotationStarted"])),
        ("outlast", reasons(&["RetryBackoffShort", "RotationStarted"])),
        ("absorb", reasons(&["AllOptedOut", "RotationCompleted", "RotationStarted"])),
    ]);
    let mut told = BTreeMap::new();
    for pool in expected.keys() {
        told.insert(*pool, passes.told_about(pool).await);
    }
    assert_eq!(told, expected);
    assert_eq!(passes.count("RotationFailed").await, 1);
}

fn check_metrics(text: &str) {
    for pool in POOLS.into_iter().chain(["static"]) {
        let gauge =
            |name: &str| sample(text, name, &[("nodepool", pool)]).unwrap_or_else(|| panic!("{name} of {pool} is missing:\n{text}"));
        let told =
            ["noderotation_blocked", "noderotation_window_active", "noderotation_retry_count", "noderotation_in_progress"].map(gauge);
        let flag = |holds: bool| f64::from(u8::from(holds));
        assert_eq!(told, [flag(pool == "doubted"), flag(pool != "closed"), flag(pool == "outlast"), 0.0], "{pool}");
        assert_eq!(gauge("noderotation_freeze_until_timestamp") > 0.0, pool == "frozen", "{pool}");
        let ended = |outcome: &str| sample(text, "noderotation_completed_total", &[("nodepool", pool), ("outcome", outcome)]);
        let expected = match pool {
            "held" | "absorb" => [1.0, 0.0],
            "outlast" => [0.0, 1.0],
            _ => [0.0, 0.0],
        };
        assert_eq!(["success", "failure"].map(ended), expected.map(Some), "{pool}");
    }
}

async fn check_statuses(passes: &Passes) {
    for pool in POOLS {
        let status = passes.status(pool).await;
        assert_eq!([&status["matchedNodePools"], &status["rotatingNodePools"]], [1, 0], "{pool}: {status}");
        let ready = &status["conditions"][0];
        assert_eq!([&ready["type"], &ready["status"], &ready["reason"]], ["Ready", "True", "Accepted"], "{pool}: {status}");
    }
    let table = passes.plane.run_kubectl(&["get", "rotpol"], "").await.unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "POOLS", "ROTATING", "AGE"]);
    assert_eq!(rows[1][..4], ["absorb", "True", "1", "0"]);
}

/// Opens every gate that opens, each by what its reason asks for.
async fn what_was_held_starts(passes: &Passes, outlast: &str) {
    let mut opened: BTreeMap<String, Value> =
        policies().into_iter().map(|policy| (policy["metadata"]["name"].as_str().unwrap().to_owned(), policy)).collect();
    opened.insert("closed".into(), policy("closed"));
    opened.insert("doubted".into(), policy("doubted"));
    let change = |opened: &mut BTreeMap<String, Value>, name: &str, path: &str| {
        let changed = with(opened[name].clone(), path, json!("0s"));
        opened.insert(name.into(), changed);
    };
    change(&mut opened, "held", "surge.cooldownAfter");
    change(&mut opened, "outlast", "surge.failurePause");
    passes.plane.apply_objects(&opened.into_values().collect::<Vec<_>>()).await.unwrap();
    freeze(passes, "frozen", None).await;
    freeze(passes, "unreadable", None).await;
    let room = r#"{"spec":{"limits":{"nodes":2}}}"#;
    passes.plane.run_kubectl(&["patch", "nodepool", "full", "--type=merge", "--patch", room], "").await.unwrap();

    let pass = passes.pass().await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    let started: Vec<&str> = POOLS.into_iter().filter(|pool| pass.summary(pool)["action"] == "start").collect();
    assert_eq!(started, ["closed", "frozen", "unreadable", "doubted", "full", "held", "outlast"], "{}", pass.log);
    assert_eq!(pass.summary("static")["action"], "gated");
    let retried = passes.pool_annotation("outlast", "active-rotation").await.unwrap();
    assert_eq!(passes.plane.node_claims().get(&retried).await.unwrap().data["status"]["nodeName"], *outlast, "the attempt is retried");
    assert_eq!(passes.status("full").await["rotatingNodePools"], 1);
}
