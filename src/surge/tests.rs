use serde_json::json;

use super::*;
use crate::api::quantity::Quantity;

fn pods() -> Vec<Pod> {
    serde_json::from_value(json!([
        {"metadata": {"name": "trainer", "namespace": "ml"}, "spec": {"containers": [{"name": "a", "resources": {
            "requests": {"cpu": "1500m", "memory": "2950Mi", "example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
            "limits": {"example.com/gpu": "2", "hugepages-2Mi": "64Mi"}}}]}},
        {"metadata": {"name": "agent", "namespace": "ml", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}]},
         "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]}},
    ]))
    .unwrap()
}

fn pool() -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "gpu"}})).unwrap()
}

fn node() -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"memory": "3060Mi"}}})).unwrap()
}

fn claim(allocatable: serde_json::Value) -> NodeClaim {
    serde_json::from_value(json!({"metadata": {"name": "gpu-1"}, "status": {"allocatable": allocatable}})).unwrap()
}

/// Case C09, end to end: summed, clamped, and valid as a Pod.
#[test]
fn the_request_is_what_the_pods_need_within_what_karpenter_plans_with() {
    let claim = claim(json!({"cpu": "1930m", "memory": "3033Mi", "example.com/gpu": 2, "hugepages-2Mi": "64Mi"}));
    let clamp = request(&pool(), &claim, &node(), &pods()).unwrap();
    assert_eq!(clamp.request.to_string(), "cpu 1500m, example.com/gpu 2, hugepages-2Mi 64Mi, memory 2933Mi");
    let quantity = |text| Quantity::parse(text).unwrap();
    let memory = Limited { resource: "memory".into(), wanted: quantity("2950Mi"), limit: quantity("2933Mi") };
    assert_eq!((clamp.clamped, clamp.refused), (vec![memory], vec![]));
}

#[test]
fn an_unreadable_quantity_names_pool_object_and_path() {
    let told = |claim: &NodeClaim, pods: &[Pod]| request(&pool(), claim, &node(), pods).unwrap_err().to_string();
    assert_eq!(
        told(&claim(json!({"memory": "3033 Mi"})), &pods()),
        r#"pool gpu: NodeClaim gpu-1: status.allocatable.memory: "3033 Mi" is no quantity"#
    );
    let mut broken = pods();
    broken[1] = serde_json::from_value(json!({"metadata": {"name": "agent", "namespace": "ml",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}]},
        "spec": {"containers": [], "overhead": {"cpu": "?"}}}))
    .unwrap();
    assert_eq!(told(&claim(json!({})), &broken), r#"pool gpu: Pod ml/agent: spec.overhead.cpu: "?" is no quantity"#);
}
