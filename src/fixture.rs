//! A View to show commands on: one pool that may start, one that waits for its surge, one whose policies are in conflict or
//! whose window is closed, and one that nobody governs.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        time::{Time, parse_annotation},
    },
    policy::{Policy, read},
    rotation::scene::Config,
    view::View,
};

/// A Saturday, 03:00 in Berlin.
pub const NOW: &str = "2026-12-05T02:00:00Z";

/// An instant.
pub fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

/// A pass a minute.
pub fn config() -> Config {
    crate::cli::reach::config("node-rotation-system", TimeDelta::minutes(1))
}

fn policy(name: &str, labels: Value, days: Value) -> Policy {
    read::policy(&json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {
            "nodePoolSelector": {"matchLabels": labels},
            "maintenanceWindows": [{"timezone": "Europe/Berlin", "days": days, "start": "02:00", "end": "06:00"}],
        },
    }))
}

fn pool(name: &str, labels: Value, annotations: Value) -> NodePool {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels, "annotations": annotations},
        "spec": {
            "template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}},
            "limits": {"cpu": "100", "nodes": 20},
        },
        "status": {"resources": {"cpu": "48", "memory": "96Gi", "nodes": "3"}},
    }))
    .unwrap()
}

fn claim(pool: &str, number: usize, created: &str, annotations: Value) -> NodeClaim {
    let name = format!("{pool}-{number}");
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": created,
            "labels": {"karpenter.sh/nodepool": pool}, "annotations": annotations,
        },
        "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"},
        "status": {
            "nodeName": format!("node-{name}"),
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "15", "memory": "30Gi"},
        },
    }))
    .unwrap()
}

fn node(claim: &NodeClaim) -> Node {
    let name = claim.node().unwrap();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {
            "karpenter.sh/nodepool": claim.pool(), "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "eu-1a",
        }},
        "status": {"allocatable": {"cpu": "15", "memory": "30Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap()
}

/// Everything that a pass would have read.
pub fn view() -> View {
    let mut view = View::default();
    for policy in [
        policy("nights", json!({"team": "web"}), json!(["Wed", "Sat"])),
        policy("weekdays", json!({"team": "api"}), json!(["Mon", "Thu"])),
        policy("a", json!({"team": "tied"}), json!(["Sat"])),
        policy("b", json!({"team": "tied"}), json!(["Sun"])),
    ] {
        view.policies.insert(policy.name.clone(), policy);
    }
    let totals = json!({"success": 12, "failure": 1, "expired": 0, "fallback": 0, "windowMissed": 2}).to_string();
    for pool in [
        pool(
            "web",
            json!({"team": "web"}),
            json!({"noderotation.io/totals": totals, "noderotation.io/last-rotation-at": "2026-12-02T03:10:00Z"}),
        ),
        pool("batch", json!({"team": "web"}), json!({"noderotation.io/active-rotation": "batch-1"})),
        pool("api", json!({"team": "api"}), json!({})),
        pool("tied", json!({"team": "tied"}), json!({})),
        pool("alone", json!({}), json!({})),
    ] {
        view.pools.insert(pool.metadata.name.clone(), pool.into());
    }
    let pending = json!({"noderotation.io/state": "pending", "noderotation.io/started-at": "2026-12-05T01:55:00Z"});
    let failed = json!({
        "noderotation.io/state": "failed", "noderotation.io/failed-at": "2026-12-05T01:40:00Z", "noderotation.io/retry-count": "1",
    });
    for claim in [
        claim("web", 1, "2026-11-22T08:00:00Z", json!({})),
        claim("web", 2, "2026-11-23T08:00:00Z", json!({})),
        claim("web", 3, "2026-11-22T12:00:00Z", failed),
        claim("web", 4, "2026-12-04T12:00:00Z", json!({})),
        claim("batch", 1, "2026-11-23T10:00:00Z", pending),
        claim("api", 1, "2026-11-26T10:00:00Z", json!({})),
        claim("tied", 1, "2026-12-01T10:00:00Z", json!({})),
        claim("alone", 1, "2026-12-01T10:00:00Z", json!({})),
    ] {
        let (node, pool) = (node(&claim), claim.pool().unwrap().to_owned());
        std::sync::Arc::make_mut(view.facts.nodes_of_pool.entry(pool).or_default()).insert(node.metadata.name.clone(), node.clone().into());
        view.facts.pods_on.insert(node.metadata.name.clone(), vec![pod(&node.metadata.name)]);
        view.facts.nodes.insert(node.metadata.name.clone(), Some(node.into()));
        view.claims.insert(claim.metadata.name.clone(), claim.into());
    }
    let placeholder = serde_json::from_value(json!({
        "metadata": {
            "name": "noderotation-surge-batch-1", "namespace": "node-rotation-system", "uid": "uid-p",
            "labels": {"noderotation.io/surge-for": "batch-1"}, "annotations": {"noderotation.io/surge-for": "batch-1"},
        },
        "spec": {"containers": []},
        "status": {"phase": "Pending"},
    }));
    view.placeholders.insert("noderotation-surge-batch-1".into(), placeholder.unwrap());
    let said = BTreeMap::from([("default-scheduler".into(), "0/8 nodes are available: 8 Insufficient cpu.".into())]);
    view.facts.events = BTreeMap::from([("noderotation-surge-batch-1".into(), said)]);
    view
}

fn pod(node: &str) -> crate::api::pod::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("app-{node}"), "namespace": "shop"},
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {"requests": {"cpu": "4", "memory": "8Gi"}}}]},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}
