use serde_json::{Value, json};

use super::*;
use crate::api::time::parse_annotation;

fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

fn placeholder(node: &str, phase: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "noderotation-surge-old", "annotations": {"noderotation.io/surge-for": "old"}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }))
    .unwrap()
}

fn host(pool: Option<&str>, ready: &str) -> Node {
    let labels = pool.map_or(json!({}), |pool| json!({"karpenter.sh/nodepool": pool}));
    serde_json::from_value(
        json!({"metadata": {"name": "n2", "labels": labels}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
    )
    .unwrap()
}

fn claim(name: &str, created: &str, node: &str, conditions: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": created, "labels": {"karpenter.sh/nodepool": "web"}},
        "status": {"nodeName": node, "conditions": conditions},
    }))
    .unwrap()
}

fn pod(metadata: Value, phase: &str) -> Pod {
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}})).unwrap()
}

fn owned(api_version: &str, kind: &str) -> Pod {
    pod(json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u"}]}), "Running")
}

#[test]
fn a_placeholder_running_on_another_ready_node_of_the_pool_is_a_surge() {
    assert_eq!(ready(Some(&placeholder("n2", "Running")), Some(&host(Some("web"), "True")), "n1", "web"), Ok("n2".into()));
}

#[test]
fn each_missing_condition_holds_the_old_node() {
    let running = placeholder("n2", "Running");
    let mut deleting = host(Some("web"), "True");
    deleting.metadata.deletion_timestamp = Some(at("2026-12-05T02:00:00Z"));
    let mut tainted = host(Some("web"), "True");
    tainted.spec.taints = serde_json::from_value(json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])).unwrap();
    let mut terminating = running.clone();
    terminating.metadata.deletion_timestamp = serde_json::from_value(json!("2026-12-05T02:00:00Z")).unwrap();
    let good = host(Some("web"), "True");

    let why = |pod: Option<&Pod>, host: Option<&Node>, candidate: &str| ready(pod, host, candidate, "web").unwrap_err().to_string();
    assert_eq!(why(None, None, "n1"), "there is no placeholder");
    assert_eq!(why(Some(&placeholder("", "Pending")), None, "n1"), "the placeholder has no node yet");
    assert_eq!(why(Some(&placeholder("n2", "Pending")), Some(&good), "n1"), "the placeholder is bound to node n2 and doesn't run yet");
    assert_eq!(why(Some(&placeholder("n2", "Failed")), Some(&good), "n1"), "the placeholder has ended: Failed");
    assert_eq!(why(Some(&terminating), Some(&good), "n1"), "an earlier placeholder is still terminating");
    assert_eq!(why(Some(&running), Some(&good), "n2"), "the placeholder runs on the old node n2 itself");
    assert_eq!(why(Some(&running), None, "n1"), "the placeholder's node n2 does not exist");
    assert_eq!(why(Some(&running), Some(&host(Some("db"), "True")), "n1"), "the placeholder's node n2 belongs to pool db");
    assert_eq!(why(Some(&running), Some(&host(None, "True")), "n1"), "the placeholder's node n2 belongs to no pool");
    assert_eq!(why(Some(&running), Some(&host(Some("web"), "Unknown")), "n1"), "the placeholder's node n2 is not Ready");
    assert_eq!(why(Some(&running), Some(&deleting), "n1"), "the placeholder's node n2 is being removed itself");
    assert_eq!(why(Some(&running), Some(&tainted), "n1"), "the placeholder's node n2 is being removed itself");
}

#[test]
fn the_induced_claim_is_the_pools_claim_with_the_placeholders_node() {
    let created = "2026-12-05T02:01:00Z";
    let mut foreign = claim("a", created, "n2", json!([]));
    foreign.metadata.labels.clear();
    let claims = [foreign, claim("b", created, "n3", json!([])), claim("c", created, "n2", json!([]))];
    assert_eq!(induced(&claims, "web", "n2").map(|claim| claim.metadata.name.as_str()), Some("c"));
    assert_eq!(induced(&claims, "web", "n4"), None);
    assert_eq!(induced(&[claim("d", created, "", json!([]))], "web", ""), None);
}

#[test]
fn only_an_induced_claim_that_holds_nothing_is_reaped() {
    let started = at("2026-12-05T02:00:00Z");
    let new = claim("new", "2026-12-05T02:00:01Z", "n2", json!([]));
    let idle = [placeholder("n2", "Running"), owned("apps/v1", "DaemonSet"), owned("v1", "Node"), pod(json!({"name": "job"}), "Succeeded")];
    assert!(reapable(&new, started, "old", &idle));

    let mut busy = idle.to_vec();
    busy.push(owned("apps/v1", "ReplicaSet"));
    assert!(!reapable(&new, started, "old", &busy));
    assert!(!reapable(&new, started, "another", &idle), "the placeholder of another rotation is work");
    assert!(!reapable(&claim("new", "2026-12-05T02:00:00Z", "n2", json!([])), started, "old", &idle), "not created after the start");
    assert!(!reapable(&claim("new", "2026-12-05T02:00:01Z", "", json!([])), started, "old", &[]), "never registered");
    assert!(!reapable(&claim("old", "2026-12-05T02:00:01Z", "n2", json!([])), started, "old", &idle), "the old claim itself");
    let mut deleting = new;
    deleting.metadata.deletion_timestamp = Some(started);
    assert!(!reapable(&deleting, started, "old", &idle), "already going");
}

#[test]
fn a_node_that_registered_and_never_became_ready_is_reaped() {
    let started = at("2026-12-05T02:00:00Z");
    let registered = json!([{"type": "Registered", "status": "True"}, {"type": "Initialized", "status": "Unknown"}]);
    let new = |conditions: Value| claim("new", "2026-12-05T02:00:01Z", "n2", conditions);
    let idle = [owned("apps/v1", "DaemonSet"), owned("v1", "Node")];
    let reaped = |claim: &NodeClaim, pods: &[Pod]| reapable_unready(claim, "web", started, "old", pods);
    assert!(reaped(&new(registered.clone()), &idle));
    assert!(!reaped(&new(registered.clone()), &[owned("apps/v1", "ReplicaSet")]));
    assert!(!reaped(&new(json!([])), &idle), "never registered: Karpenter ends it");
    assert!(!reaped(&new(json!([{"type": "Registered", "status": "True"}, {"type": "Initialized", "status": "True"}])), &idle));
    assert!(!reaped(&claim("new", "2026-12-05T01:59:59Z", "n2", registered.clone()), &idle));
    assert!(!reapable_unready(&new(registered), "db", started, "old", &idle));
}
