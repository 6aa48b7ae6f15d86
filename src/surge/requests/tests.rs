use serde_json::{Value, json};

use super::*;
use crate::api::quantity::Quantity;

fn resources(list: &[(&str, &str)]) -> Resources {
    Resources(list.iter().map(|(resource, text)| ((*resource).into(), Quantity::parse(text).unwrap())).collect())
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web-1", "namespace": "shop"}, "spec": spec})).unwrap()
}

/// A Pod of 1 cpu, with further metadata and spec.
fn one_cpu(metadata: Value, spec: Value, phase: &str) -> Pod {
    let mut whole = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
    whole["metadata"]["name"] = json!("web-1");
    whole["spec"]["containers"] = json!([{"name": "app", "resources": {"requests": {"cpu": "1"}}}]);
    serde_json::from_value(whole).unwrap()
}

fn effective(spec: Value) -> Resources {
    effective_requests(&pod(spec)).unwrap()
}

fn asks(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(name: &str, cpu: &str) -> Value {
    json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn containers_and_sidecars_run_together() {
    let spec = json!({"containers": [asks("a", "100m"), asks("b", "0.1")], "initContainers": [sidecar("s", "100m")]});
    assert_eq!(effective(spec), resources(&[("cpu", "300m")]));
}

#[test]
fn an_init_container_counts_with_the_sidecars_started_before_it_only() {
    let before = json!({"containers": [asks("a", "1")], "initContainers": [sidecar("s", "500m"), asks("i", "2")]});
    assert_eq!(effective(before), resources(&[("cpu", "2500m")]));
    let after = json!({"containers": [asks("a", "1")], "initContainers": [asks("i", "2"), sidecar("s", "500m")]});
    assert_eq!(effective(after), resources(&[("cpu", "2")]));
    let lower = json!({"containers": [asks("a", "3")], "initContainers": [asks("i", "2"), asks("j", "2")]});
    assert_eq!(effective(lower), resources(&[("cpu", "3")]));
}

#[test]
fn overhead_comes_on_top() {
    let spec = json!({"containers": [asks("a", "1")], "overhead": {"cpu": "250m", "memory": "120Mi"}});
    assert_eq!(effective(spec), resources(&[("cpu", "1250m"), ("memory", "120Mi")]));
}

#[test]
fn the_pods_own_resources_replace_the_sum_where_they_count() {
    let spec = json!({
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}}],
        "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "example.com/gpu": "5"}},
        "overhead": {"cpu": "100m"},
    });
    assert_eq!(effective(spec), resources(&[("cpu", "3100m"), ("memory", "1Gi"), ("example.com/gpu", "1"), ("hugepages-2Mi", "4Mi")]));
}

#[test]
fn a_resized_container_counts_with_the_most_it_may_hold() {
    let resized = |reason: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1"},
            "spec": {"containers": [asks("a", "64")]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{
                    "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"},
                }],
            },
        }))
        .unwrap()
    };
    assert_eq!(effective_requests(&resized("Deferred")), Ok(resources(&[("cpu", "64")])));
    assert_eq!(effective_requests(&resized("Infeasible")), Ok(resources(&[("cpu", "2")])));
}

#[test]
fn only_pods_that_need_another_node_are_summed() {
    let owned =
        |api_version: &str, kind: &str| json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u"}]});
    let pods = [
        one_cpu(owned("apps/v1", "ReplicaSet"), json!({}), "Running"),
        one_cpu(json!({}), json!({}), "Pending"),
        one_cpu(json!({"deletionTimestamp": "2026-12-05T02:00:00Z"}), json!({}), "Running"),
        one_cpu(owned("apps/v1", "DaemonSet"), json!({}), "Running"),
        one_cpu(owned("v1", "Node"), json!({}), "Running"),
        one_cpu(json!({"annotations": {"kubernetes.io/config.mirror": "x"}}), json!({}), "Running"),
        one_cpu(json!({}), json!({}), "Succeeded"),
        one_cpu(json!({}), json!({}), "Failed"),
        one_cpu(json!({"labels": {"noderotation.io/surge-for": "old"}}), json!({}), "Running"),
    ];
    assert_eq!(requests(&pods, "n1", Some("h1")), Ok(resources(&[("cpu", "3")])));
    assert_eq!(daemonset_requests(&pods), Ok(resources(&[("cpu", "1")])));
}

/// Case C06: the Node's name and its hostname label differ.
#[test]
fn pods_pinned_to_this_very_node_are_not_summed() {
    const NAME: &str = "ip-10-0-0-7.rack3.building-two.example-corporation.internal.example.org";
    const HOST: &str = "ip-10-0-0-7";
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let host_in = |hosts: Value| json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}]});
    let name_in = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    let zone = json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["c"]}]});
    let counted = |spec: Value| requests(&[one_cpu(json!({}), spec, "Running")], NAME, Some(HOST)).unwrap() == resources(&[("cpu", "1")]);

    for (pinned, spec) in [
        (true, json!({"nodeSelector": {"kubernetes.io/hostname": HOST}})),
        (true, required(json!([name_in(NAME)]))),
        (true, required(json!([host_in(json!([HOST]))]))),
        (true, required(json!([host_in(json!([HOST])), name_in(NAME)]))),
        (true, required(json!([host_in(json!([HOST])), {}]))),
        (false, json!({})),
        (false, json!({"nodeSelector": {"kubernetes.io/hostname": NAME}})),
        (false, required(json!([host_in(json!([NAME]))]))),
        (false, required(json!([host_in(json!([HOST, "other"]))]))),
        (false, required(json!([host_in(json!([HOST])), zone]))),
        (false, required(json!([name_in(NAME), name_in("other")]))),
        (false, required(json!([{}]))),
        (false, required(json!([]))),
    ] {
        assert_eq!(counted(spec.clone()), !pinned, "{spec}");
    }
    let selector = one_cpu(json!({}), json!({"nodeSelector": {"kubernetes.io/hostname": HOST}}), "Running");
    assert_eq!(requests(&[selector], NAME, None), Ok(resources(&[("cpu", "1")])));
}

#[test]
fn an_unreadable_quantity_names_pod_and_path_and_is_never_0() {
    let error = |spec: Value| effective_requests(&pod(spec)).unwrap_err().to_string();
    assert_eq!(
        error(json!({"containers": [asks("a", "1"), asks("b", "1 Gi")]})),
        r#"Pod shop/web-1: spec.containers[1].resources.requests.cpu: "1 Gi" is no quantity"#
    );
    let gpu = json!({"name": "i", "resources": {"requests": {"example.com/gpu": ""}}});
    assert_eq!(
        error(json!({"containers": [], "initContainers": [gpu]})),
        r#"Pod shop/web-1: spec.initContainers[0].resources.requests['example.com/gpu']: "" is no quantity"#
    );
    assert_eq!(error(json!({"containers": [], "overhead": {"cpu": "x"}})), r#"Pod shop/web-1: spec.overhead.cpu: "x" is no quantity"#);
}

#[test]
fn many_pods_saturate() {
    let pods: Vec<Pod> = (0..3).map(|_| pod(json!({"containers": [asks("a", "9223372036854775807")]}))).collect();
    assert_eq!(requests(&pods, "n1", None), Ok(resources(&[("cpu", "9223372036854775807")])));
}

#[test]
fn a_quantity_below_0_is_none_and_takes_no_room_from_others() {
    let pods = [
        pod(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]})),
        pod(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "-500m"}}}]})),
    ];
    let error = requests(&pods, "node", None).unwrap_err().to_string();
    assert!(error.ends_with("spec.containers[0].resources.requests.cpu: -500m (below 0) is no quantity"), "{error}");
}
