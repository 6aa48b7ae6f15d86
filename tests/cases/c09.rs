//! C09 · What the placeholder asks for: GPUs, hugepages, DaemonSets, the clamp.

use noderotation::api::pod::Pod;
use noderotation::{
    api::karpenter::{Node, NodeClaim, NodePool},
    surge::{self, Reservation},
};
use serde_json::{Value, json};

use crate::fleet::placeholder_settings;

fn request(reservation: Reservation, node_memory: &str) -> surge::SurgeRequest {
    let pods: Vec<Pod> = serde_json::from_value(json!([
        {"metadata": {"name": "trainer", "namespace": "ml"}, "spec": {"containers": [{"name": "a", "resources": {
            "requests": {"cpu": "1500m", "memory": "2950Mi", "example.com/gpu": 2, "hugepages-2Mi": "64Mi"},
            "limits": {"example.com/gpu": 2, "hugepages-2Mi": "64Mi"}}}]}},
        {"metadata": {"name": "agent", "namespace": "ml", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}]},
         "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]}},
    ]).as_array().unwrap().iter().map(as_texts).collect::<Value>())
    .unwrap();
    let allocatable = json!({"cpu": "1930m", "memory": "3033Mi", "example.com/gpu": 2, "hugepages-2Mi": "64Mi"});
    let claim: NodeClaim = serde_json::from_value(json!({"metadata": {"name": "gpu-1"}, "status": {"allocatable": allocatable}})).unwrap();
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"memory": node_memory}}})).unwrap();
    surge::request_for(reservation, &pool(), &claim, &node, &pods).unwrap()
}

/// Numbers of a Pod's quantities as texts, as the API server returns them.
fn as_texts(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(items) => items.iter().map(as_texts).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), as_texts(value))).collect()),
        other => other.clone(),
    }
}

fn pool() -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "gpu"}})).unwrap()
}

#[test]
fn the_placeholder_has_limits_where_the_api_server_insists_and_no_more_than_karpenter_plans() {
    let request = request(Reservation::Pods, "3060Mi");
    let told: Vec<String> = request.clamped.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["memory: 2950Mi wanted, 2933Mi planned beside the DaemonSets, 17Mi missing"]);
    assert_eq!((request.refused, request.beyond_band), (vec![], vec![]));
    let pod = surge::placeholder(&placeholder_settings(), &pool(), "gpu-1", &request.request, Default::default());
    let resources = serde_json::to_value(pod.spec.unwrap().containers[0].resources.clone()).unwrap();
    let expected = json!({
        "requests": {"cpu": "1500m", "memory": "2933Mi", "example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
        "limits": {"example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
    });
    assert_eq!(resources, expected);
}

#[test]
fn a_shortfall_beyond_the_band_is_told() {
    // The kubelet reports 16Mi above the plan, 17Mi are missing.
    let beyond = request(Reservation::Pods, "3049Mi").beyond_band;
    assert_eq!(beyond.iter().map(|beyond| beyond.band.canonical("memory")).collect::<Vec<_>>(), ["16Mi"]);
    assert_eq!(request(Reservation::Pods, "3050Mi").beyond_band, []);
}

#[test]
fn a_whole_node_takes_all_cpu_and_memory_beside_the_daemonsets() {
    let whole = request(Reservation::WholeNode, "3060Mi").request;
    assert_eq!(whole.to_string(), "cpu 1830m, example.com/gpu 2, hugepages-2Mi 64Mi, memory 2933Mi");
}
