//! NodeClaims, Nodes and Pods of the sizes that they have in production, `managedFields` included: about 7 KB, 13 KB and 8 KB
//! of JSON. The API server adds the `managedFields` by itself.

use control_plane::INSTANCE_TYPE;
use serde_json::{Value, json};

/// Types that a claim may become, as Karpenter lists them.
const INSTANCE_TYPES: usize = 110;
/// Images that a kubelet reports at most by default are 50; most Nodes have fewer.
const IMAGES: usize = 20;
/// Environment variables of a Pod's container.
const VARIABLES: usize = 28;

fn labels(pool: &str, name: &str) -> Value {
    json!({
        "karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": INSTANCE_TYPE, "topology.kubernetes.io/zone": "test-zone-a",
        "topology.kubernetes.io/region": "test-region", "kubernetes.io/hostname": name, "team.example.com/owner": "platform",
        "instance.example.com/family": "c7", "instance.example.com/generation": "7", "instance.example.com/size": "2xlarge",
        "instance.example.com/cpu-manufacturer": "amd", "instance.example.com/network-bandwidth": "12500",
    })
}

/// A NodeClaim without its status.
pub fn claim(pool: &str, name: &str) -> Value {
    let only = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let types: Vec<String> = (0..INSTANCE_TYPES).map(|number| format!("c{}d.{number}xlarge", number % 8)).collect();
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "generateName": format!("{pool}-"), "labels": labels(pool, name), "annotations": {
            "karpenter.sh/nodepool-hash": "9723487234523452345", "karpenter.sh/nodepool-hash-version": "v3",
            "karpenter.kwok.sh/nodeclass-hash": "2348734523452345234", "karpenter.kwok.sh/nodeclass-hash-version": "v4",
        }, "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "expireAfter": "720h", "terminationGracePeriod": "1h",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": pool},
            "requirements": [
                only("karpenter.sh/nodepool", pool), only("karpenter.sh/capacity-type", "on-demand"),
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}, only("kubernetes.io/arch", "amd64"),
                only("kubernetes.io/os", "linux"), only("topology.kubernetes.io/zone", "test-zone-a"),
            ],
            "resources": {"requests": {"cpu": "5", "memory": "4Gi", "pods": "9"}},
            "startupTaints": [{"key": "node.example.com/agent-not-ready", "effect": "NoExecute"}],
        },
    })
}

/// A NodeClaim's status.
pub fn claim_status(name: &str) -> Value {
    let kinds = ["Launched", "Registered", "Initialized", "Consolidatable", "ConsistentStateFound", "Drifted", "Ready"];
    json!({
        "nodeName": name, "providerID": format!("kwok://{name}"), "imageID": "image-0123456789abcdef0",
        "capacity": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110"},
        "allocatable": {"cpu": "7900m", "memory": "15Gi", "ephemeral-storage": "18Gi", "pods": "110"},
        "conditions": kinds.map(condition),
    })
}

fn condition(kind: &str) -> Value {
    let status = if kind == "Drifted" { "False" } else { "True" };
    json!({
        "type": kind, "status": status, "reason": kind, "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// A Node.
pub fn node(pool: &str, name: &str) -> Value {
    let images: Vec<Value> = (0..IMAGES)
        .map(|number| {
            let digest = format!("{number:02x}").repeat(32);
            let repository = format!("registry.example.com/platform/services/component-number-{number:03}");
            json!({"names": [format!("{repository}@sha256:{digest}"), format!("mirror.{repository}@sha256:{digest}"), format!("{repository}:v1.2{number}.3-release")], "sizeBytes": 41_234_567 + number})
        })
        .collect();
    let conditions: Vec<Value> = ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock", "Ready"]
        .map(|kind| {
            json!({
                "type": kind, "status": if kind == "Ready" { "True" } else { "False" }, "reason": "KubeletHasSufficient",
                "message": format!("kubelet has sufficient of what {kind} is about"),
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .into();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels(pool, name), "annotations": {
            "node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            "karpenter.sh/nodepool-hash": "9723487234523452345", "karpenter.sh/nodepool-hash-version": "v3",
            "csi.volume.kubernetes.io/nodeid": format!(r#"{{"csi.example.com":"{name}","file.csi.example.com":"{name}"}}"#),
        }},
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "110"},
            "allocatable": {"cpu": "7900m", "memory": "15Gi", "ephemeral-storage": "18Gi", "pods": "110"},
            "conditions": conditions, "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.20.30.40"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "0f0e0d0c-0000-4000-8000-000000000000", "containerRuntimeVersion": "containerd",
                "kernelVersion": "6.12.40", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "0123456789abcdef0123456789abcdef",
                "operatingSystem": "linux", "osImage": "Example Linux 2026", "systemUUID": "0f0e0d0c-0000-4000-8000-000000000000",
            },
        },
    })
}

/// A Pod on a Node.
pub fn pod(node: &str, name: &str) -> Value {
    let variables: Vec<Value> = (0..VARIABLES)
        .map(|number| json!({"name": format!("SETTING_NUMBER_{number:02}"), "value": format!("a value of usual length, number {number}")}))
        .collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": {"app": "filler", "app.kubernetes.io/name": "filler", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"config.example.com/checksum": "0123456789abcdef".repeat(4)},
        },
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "main", "image": "registry.example.com/platform/services/filler:v1.22.3", "env": variables,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "ports": [{"name": "http", "containerPort": 8080}], "livenessProbe": probe("/live"), "readinessProbe": probe("/ready"),
            }],
        },
    })
}
