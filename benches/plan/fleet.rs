//! NodePools, NodeClaims and Nodes as large as those of a cloud: every label, requirement and condition that Karpenter and
//! a provider write, about 7 kB for each claim. Nobody runs them.

use std::ops::Range;

use control_plane::{ControlPlane, INSTANCE_TYPE, Pool};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// How many objects are made at once.
const AT_ONCE: usize = 8;
/// As many instance types a claim may be of.
const TYPES: usize = 60;
const NODE_LABELS: [(&str, &str); 18] = [
    ("karpenter.sh/capacity-type", "on-demand"),
    ("karpenter.sh/registered", "true"),
    ("karpenter.sh/initialized", "true"),
    ("karpenter.k8s.aws/instance-category", "m"),
    ("karpenter.k8s.aws/instance-cpu", "8"),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", "intel"),
    ("karpenter.k8s.aws/instance-ebs-bandwidth", "10000"),
    ("karpenter.k8s.aws/instance-encryption-in-transit-supported", "true"),
    ("karpenter.k8s.aws/instance-family", "m6i"),
    ("karpenter.k8s.aws/instance-generation", "6"),
    ("karpenter.k8s.aws/instance-hypervisor", "nitro"),
    ("karpenter.k8s.aws/instance-memory", "32768"),
    ("karpenter.k8s.aws/instance-network-bandwidth", "3125"),
    ("kubernetes.io/arch", "amd64"),
    ("kubernetes.io/os", "linux"),
    ("node.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("topology.k8s.aws/zone-id", "euc1-az2"),
    ("topology.kubernetes.io/zone", "test-zone-a"),
];

/// Makes pools, where they are not there yet, with the claims of these numbers and their Nodes.
pub async fn make(plane: &ControlPlane, pools: usize, claims: Range<usize>) {
    let names: Vec<String> = (0..pools).map(|number| format!("pool-{number}")).collect();
    for name in &names {
        let pool = Pool::new(name).expire_after("720h").termination_grace_period("1h");
        plane.apply_objects(&pool.objects()).await.unwrap();
    }
    let claims = names.iter().flat_map(|pool| claims.clone().map(move |number| (pool.as_str(), format!("{pool}-{number:05}"))));
    stream::iter(claims).for_each_concurrent(AT_ONCE, async |(pool, name)| make_claim(plane, pool, &name).await).await;
}

/// A policy for all pools whose window is open; `age_threshold` says whether any claim is old enough.
pub fn policy(age_threshold: &str) -> Value {
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    json!({
        "apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy", "metadata": {"name": "all"},
        "spec": {
            "nodePoolSelector": {},
            "ageThreshold": age_threshold,
            "maintenanceWindows": [{"timezone": "Europe/Berlin", "days": days, "start": "00:00", "end": "24:00"}],
        },
    })
}

async fn make_claim(plane: &ControlPlane, pool: &str, name: &str) {
    let claims = plane.node_claims();
    let claim: DynamicObject = serde_json::from_value(claim(pool, name)).unwrap();
    let karpenter = PostParams { field_manager: Some("karpenter".into()), ..PostParams::default() };
    claims.create(&karpenter, &claim).await.unwrap();
    let updated = PatchParams { field_manager: Some("karpenter".into()), ..PatchParams::default() };
    claims.patch_status(name, &updated, &Patch::Merge(json!({"status": status(name)}))).await.unwrap();
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&karpenter, &serde_json::from_value(node(pool, name)).unwrap()).await.unwrap();
}

fn labels(pool: &str, name: &str) -> Value {
    let mut labels: Value = NODE_LABELS.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    labels["karpenter.sh/nodepool"] = json!(pool);
    labels["kubernetes.io/hostname"] = json!(name);
    labels
}

fn claim(pool: &str, name: &str) -> Value {
    let types: Vec<String> = (0..TYPES).map(|number| format!("m{}i.{}xlarge", number % 9, number * 2)).collect();
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let mut requirements: Vec<Value> = NODE_LABELS.iter().skip(3).map(|(key, value)| only(key, value)).collect();
    requirements.retain(|requirement| requirement["key"] != "node.kubernetes.io/instance-type");
    requirements.push(json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}));
    requirements.push(only("karpenter.sh/nodepool", pool));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels(pool, name), "annotations": {
            "karpenter.sh/nodepool-hash": "9723487234523452345", "karpenter.sh/nodepool-hash-version": "v3",
            "karpenter.kwok.sh/nodeclass-hash": "2348734523452345234",
            "karpenter.k8s.aws/ec2nodeclass-hash": "17465872364587236457", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
            "karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
        }, "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "expireAfter": "720h", "terminationGracePeriod": "1h",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": pool},
            "requirements": requirements,
            "resources": {"requests": {"cpu": "5", "memory": "4Gi", "pods": "9"}},
        },
    })
}

fn status(name: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z"});
    let kinds = ["Launched", "Registered", "Initialized", "Consolidatable", "ConsistentStateFound", "Ready"];
    json!({
        "nodeName": name, "providerID": format!("kwok://{name}"), "imageID": "image-0123456789abcdef0",
        "capacity": {"cpu": "8", "memory": "31129Mi", "ephemeral-storage": "20Gi", "pods": "110", "vpc.amazonaws.com/pod-eni": "38"},
        "allocatable": {"cpu": "7910m", "memory": "30055Mi", "ephemeral-storage": "17Gi", "pods": "110", "vpc.amazonaws.com/pod-eni": "38"},
        "conditions": kinds.map(condition),
    })
}

fn node(pool: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels(pool, name)},
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {
            "capacity": {"cpu": "8", "memory": "31129Mi", "pods": "110"},
            "allocatable": {"cpu": "7910m", "memory": "30055Mi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}
