//! NodePools, NodeClaims and Nodes as Karpenter leaves them, made directly: nobody runs them.

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

/// Makes pools with claims and Nodes, and a policy for all of them whose window is open and which finds nothing old enough.
pub async fn make(plane: &ControlPlane, pools: usize, claims: usize) {
    let names: Vec<String> = (0..pools).map(|number| format!("pool-{number}")).collect();
    for name in &names {
        let pool = Pool::new(name).expire_after("720h").termination_grace_period("1h");
        plane.apply_objects(&pool.objects()).await.unwrap();
    }
    let claims = names.iter().flat_map(|pool| (0..claims).map(move |number| (pool.as_str(), format!("{pool}-{number:05}"))));
    stream::iter(claims).for_each_concurrent(AT_ONCE, async |(pool, name)| make_claim(plane, pool, &name).await).await;
    let policy = json!({
        "apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy", "metadata": {"name": "all"},
        "spec": {
            "nodePoolSelector": {},
            "maintenanceWindows": [{"timezone": "Europe/Berlin", "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], "start": "00:00", "end": "24:00"}],
            "surge": {"readyTimeout": "20m"},
        },
    });
    plane.apply_objects(&[policy]).await.unwrap();
}

async fn make_claim(plane: &ControlPlane, pool: &str, name: &str) {
    let claims = plane.node_claims();
    let claim: DynamicObject = serde_json::from_value(claim(pool, name)).unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();
    claims.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status(name)}))).await.unwrap();
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node(pool, name)).unwrap()).await.unwrap();
}

fn labels(pool: &str, name: &str) -> Value {
    json!({
        "karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": INSTANCE_TYPE, "topology.kubernetes.io/zone": "test-zone-a",
        "kubernetes.io/hostname": name,
    })
}

fn claim(pool: &str, name: &str) -> Value {
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels(pool, name), "annotations": {
            "karpenter.sh/nodepool-hash": "9723487234523452345", "karpenter.sh/nodepool-hash-version": "v3",
            "karpenter.kwok.sh/nodeclass-hash": "2348734523452345234",
        }, "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "expireAfter": "720h", "terminationGracePeriod": "1h",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": pool},
            "requirements": [
                only("karpenter.sh/nodepool", pool), only("karpenter.sh/capacity-type", "on-demand"),
                only("node.kubernetes.io/instance-type", INSTANCE_TYPE), only("kubernetes.io/arch", "amd64"),
                only("kubernetes.io/os", "linux"), only("topology.kubernetes.io/zone", "test-zone-a"),
            ],
            "resources": {"requests": {"cpu": "5", "memory": "4Gi", "pods": "9"}},
        },
    })
}

fn status(name: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z"});
    let kinds = ["Launched", "Registered", "Initialized", "Consolidatable", "Ready"];
    json!({
        "nodeName": name, "providerID": format!("kwok://{name}"), "imageID": "image-0123456789abcdef0",
        "capacity": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110"},
        "allocatable": {"cpu": "7900m", "memory": "15Gi", "ephemeral-storage": "18Gi", "pods": "110"},
        "conditions": kinds.map(condition),
    })
}

fn node(pool: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels(pool, name)},
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "7900m", "memory": "15Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}
