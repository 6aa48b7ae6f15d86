//! Clusters in any state of a rotation, first whole, then broken.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{broken, path, policy_path};
use crate::{
    api::keys,
    pass::tests::broken::states,
    rotation::{
        effect::Kind,
        tests::fleet::{Fleet, Object, ago, days, fleet, hours, mins},
    },
};

/// The objects of one case, by their paths.
pub fn objects(random: &mut StdRng) -> Vec<(String, Value)> {
    let fleet = begin(random);
    let mut fleet = richer(random, fleet);
    pods(random, &mut fleet);
    let mut objects = paths(&fleet);
    objects.extend(budgets(random));
    let breaks = [0, 1, 1, 2, 3, 5, 8, 13].choose(random).copied().unwrap_or(1);
    for _ in 0..breaks {
        let index = random.random_range(0..objects.len());
        broken::break_somewhere(random, &mut objects[index].1);
    }
    objects
}

/// A fleet's objects, by their paths.
pub fn paths(fleet: &Fleet) -> Vec<(String, Value)> {
    let objects = fleet.objects.iter().map(|((kind, name), object)| (path(*kind, &object.0, name), object.0.clone()));
    objects.chain(fleet.policies.iter().map(|(name, policy)| (policy_path(name), policy.clone()))).collect()
}

fn begin(random: &mut StdRng) -> Fleet {
    let states: Vec<Fleet> = states().into_values().collect();
    match random.random_range(0..10) {
        0 => fleet().awaiting(mins(3)).ungoverned(),
        1 => fleet().awaiting(mins(20)).host("b", |claim| claim).placeholder("a", |pod| pod.on("node-b").phase("Running")),
        2 => fleet().awaiting(mins(3)).host("b", |claim| claim).placeholder("a", |pod| pod.on("node-b").phase("Running")),
        3 => fleet().awaiting(mins(3)).placeholder("a", |pod| pod.phase("Failed").on("node-b")).host("b", |claim| claim),
        _ => states.choose(random).cloned().unwrap_or_else(fleet),
    }
}

/// A claim and its Node that came just now.
pub fn newcomer(name: &str, created: &str) -> [Value; 2] {
    let fleet = fleet().host(name, |claim| claim);
    let of = |kind, name: String| {
        let mut object = fleet.objects[&(kind, name)].0.clone();
        object["metadata"]["creationTimestamp"] = json!(created);
        object
    };
    [of(Kind::NodeClaim, name.into()), of(Kind::Node, format!("node-{name}"))]
}

/// More pools, claims and policies, and what people set on them.
fn richer(random: &mut StdRng, mut fleet: Fleet) -> Fleet {
    for name in ["d", "e", "f"] {
        if random.random_bool(0.5) && !fleet.objects.contains_key(&(Kind::NodeClaim, name.to_owned())) {
            let (age, state) = (random.random_range(0..500), *["", "", "failed", "pending", "expired"].choose(random).unwrap_or(&""));
            fleet = fleet.claim(name, |claim| claim.age(hours(age)).state(state));
        }
    }
    if random.random_bool(0.3) {
        fleet = fleet.pool("api", |pool| pool.label("tier", "api")).claim("g", |claim| claim.label(keys::NODEPOOL_LABEL, "api"));
    }
    if random.random_bool(0.2) {
        fleet = fleet.policy("second", json!({"tier": "api"}), |_| ());
    }
    if let Some(policy) = fleet.policies.get_mut("weekly") {
        wishes(random, &mut policy["spec"]);
    }
    if random.random_bool(0.4) {
        fleet = fleet.change(Kind::NodePool, "web", |pool| limits(random, pool));
    }
    if random.random_bool(0.3) {
        fleet = fleet.note(keys::LAST_ROTATION_AT, ago(mins(random.random_range(0..40))));
    }
    if random.random_bool(0.1) {
        fleet = fleet.note(keys::FREEZE, ago(mins(random.random_range(-60..60))));
    }
    fleet
}

fn wishes(random: &mut StdRng, spec: &mut Value) {
    let wishes = [
        ("ageThreshold", json!("100h")),
        ("suspend", json!(true)),
        ("minRotationChances", json!(3)),
        ("blackouts", json!([{"timezone": "Asia/Tokyo", "from": "2026-12-03", "to": "2026-12-20", "reason": "year's end"}])),
        (
            "surge",
            json!({"readyTimeout": "20m", "cooldownAfter": "0s", "failurePause": "0s", "wholeNodeReservation": true,
                "forcefulFallback": {"enabled": true}, "drainEstimate": "5m", "drainTimeout": "30m"}),
        ),
        (
            "surge",
            json!({"forcefulFallback": {"enabled": true}, "matchNodeRequirements": {"required": [], "preferred": [keys::ZONE_LABEL]}}),
        ),
        ("surge", json!({"matchNodeRequirements": {"required": ["kubernetes.io/arch", "example.com/rack"]}})),
    ];
    for (key, value) in wishes {
        if random.random_bool(0.1) {
            spec[key] = value;
        }
    }
}

fn limits(random: &mut StdRng, mut pool: Object) -> Object {
    let cpu = [json!("1000"), json!(1000), json!("12"), json!("1e3"), json!("100500m")].choose(random).cloned().unwrap_or_default();
    pool.0["spec"]["limits"] = json!({"cpu": cpu, "memory": "4Ti", "nodes": 20});
    pool.0["status"]["resources"] = json!({"cpu": "8", "memory": "64Gi", "nodes": "3", "pods": "300"});
    let template = &mut pool.0["spec"]["template"]["spec"];
    template["requirements"] = json!([
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        {"key": "kubernetes.io/arch", "operator": "Exists"},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
    ]);
    template["taints"] = json!([{"key": "example.com/dedicated", "value": "web", "effect": "NoSchedule"}]);
    pool
}

/// Pods of every sort on the Nodes.
fn pods(random: &mut StdRng, fleet: &mut Fleet) {
    let shapes = [
        json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "1.5Gi"}}}],
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "migrate", "resources": {"requests": {"cpu": "2", "memory": "129e6"}}}],
            "overhead": {"cpu": "10m"}, "nodeSelector": {"kubernetes.io/hostname": "node-a"}}}),
        json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "apiVersion": "apps/v1", "uid": "u", "controller": true}]},
            "spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]}}),
        json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"containers": [{"name": "static"}]}}),
        json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "30m"}, "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "gpu", "resources": {"requests": {"example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
                "limits": {"example.com/gpu": "2", "hugepages-2Mi": "64Mi"}}}], "resources": {"requests": {"cpu": "3"}},
                "tolerations": [{"operator": "Exists"}]}, "status": {"phase": "Running", "startTime": ago(mins(10)),
                "conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"metadata": {"deletionTimestamp": ago(hours(3)), "finalizers": ["example.com/keep"], "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "slow"}], "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 30},
            "status": {"phase": "Succeeded"}}),
    ];
    let nodes: Vec<String> = fleet.objects.keys().filter(|(kind, _)| *kind == Kind::Node).map(|(_, name)| name.clone()).collect();
    for number in 0..random.random_range(0..6) {
        let (Some(shape), Some(node)) = (shapes.choose(random), nodes.choose(random)) else { continue };
        let change = |mut pod: Object| {
            crate::rotation::tests::fleet::merge(&mut pod.0, shape);
            pod.0["metadata"]["creationTimestamp"] = json!(ago(days(1)));
            pod
        };
        *fleet = std::mem::take(fleet).pod(&format!("pod-{number}"), node, change);
    }
}

fn budgets(random: &mut StdRng) -> Vec<(String, Value)> {
    let budgets = [
        json!({"metadata": {"name": "none", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "db"}}, "maxUnavailable": 0},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}),
        json!({"metadata": {"name": "all", "namespace": "shop"}, "spec": {"selector": {}, "maxUnavailable": "100%"}}),
        json!({"metadata": {"name": "odd", "namespace": "shop"}, "spec": {"minAvailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": []}]}}}),
    ];
    let chosen = budgets.into_iter().filter(|_| random.random_bool(0.3));
    let path =
        |budget: &Value| format!("{}/{}", super::super::resource::budgets("shop"), budget["metadata"]["name"].as_str().unwrap_or("x"));
    chosen.map(|budget| (path(&budget), budget)).collect()
}
