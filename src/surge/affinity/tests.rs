use serde_json::{Value, json};

use super::*;

const ZONE: &str = keys::ZONE_LABEL;

fn pool(requirements: Value) -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"requirements": requirements}}}})).unwrap()
}

fn claim(requirements: Value) -> NodeClaim {
    serde_json::from_value(json!({"metadata": {"name": "web-1"}, "spec": {"requirements": requirements}})).unwrap()
}

fn node(labels: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": "node-1.example.org", "labels": labels}})).unwrap()
}

fn wanted(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).into()).collect()
}

/// The whole affinity as JSON: required expressions, preferences.
fn shape(affinity: &Affinity) -> Value {
    serde_json::to_value(&affinity.node_affinity).unwrap()
}

fn required(expressions: Value) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}})
}

fn is_in(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// Case C12, policies A and B, and run 3.
#[test]
fn required_keys_are_replicated_from_the_node_else_from_the_claim() {
    let pool = pool(json!([is_in(ZONE, &["a", "b", "c"])]));
    let plain = claim(json!([]));
    let labelled = node(json!({ZONE: "c", "kubernetes.io/arch": "arm64"}));

    let only_arch = affinity(&pool, &plain, &labelled, &wanted(&["kubernetes.io/arch"]), &[], []);
    let in_pool = is_in("karpenter.sh/nodepool", &["web"]);
    assert_eq!(shape(&only_arch), required(json!([in_pool, is_in("kubernetes.io/arch", &["arm64"])])));

    let both = affinity(&pool, &plain, &labelled, &wanted(&[ZONE, "kubernetes.io/arch"]), &[], []);
    let expected = required(json!([in_pool, is_in(ZONE, &["c"]), is_in("kubernetes.io/arch", &["arm64"])]));
    assert_eq!((shape(&both), both.dropped), (expected, vec![]));

    let from_claim = affinity(&pool, &claim(json!([is_in(ZONE, &["c"])])), &node(json!({})), &wanted(&[ZONE]), &[], []);
    assert_eq!(shape(&from_claim), required(json!([in_pool, is_in(ZONE, &["c"])])));

    let several = affinity(&pool, &claim(json!([is_in(ZONE, &["c", "d", "a"])])), &node(json!({})), &wanted(&[ZONE]), &[], []);
    assert_eq!(shape(&several), required(json!([in_pool, is_in(ZONE, &["c", "a"])])));
}

/// Case C12, run 4.
#[test]
fn a_key_the_pool_no_longer_allows_is_left_out_and_told() {
    let pool = pool(json!([is_in(ZONE, &["a", "b"])]));
    let affinity = affinity(&pool, &claim(json!([])), &node(json!({ZONE: "c"})), &wanted(&[ZONE, ZONE, "missing"]), &[], []);
    assert_eq!(shape(&affinity), required(json!([is_in("karpenter.sh/nodepool", &["web"])])));
    let told: Vec<String> = affinity.dropped.iter().map(|drop| format!("{} {:?}: {}", drop.key, drop.values, drop.why)).collect();
    assert_eq!(
        told,
        [
            r#"topology.kubernetes.io/zone ["c"]: NodePool web allows only: In [a, b]"#,
            "missing []: neither the Node's labels nor the NodeClaim's requirements have a value for it",
        ]
    );
}

#[test]
fn a_template_label_is_a_requirement_too() {
    let mut pool = pool(json!([]));
    pool.spec.template.metadata.labels.insert("tier".into(), "new".into());
    let affinity = affinity(&pool, &claim(json!([])), &node(json!({"tier": "old"})), &wanted(&["tier"]), &[], []);
    let why = "NodePool web allows only: the template's label new".into();
    assert_eq!(affinity.dropped, vec![Dropped { key: "tier".into(), values: vec!["old".into()], why }]);
}

#[test]
fn each_operator_admits_what_karpenter_admits() {
    for (operator, values, value, admitted) in [
        ("In", vec!["4", "8"], "8", true),
        ("In", vec!["4", "8"], "16", false),
        ("NotIn", vec!["4"], "8", true),
        ("NotIn", vec!["4"], "4", false),
        ("Exists", vec![], "x", true),
        ("DoesNotExist", vec![], "x", false),
        ("Gt", vec!["4"], "4", false),
        ("Gt", vec!["4"], "5", true),
        ("Lt", vec!["4"], "4", false),
        ("Lt", vec!["4"], "3", true),
        ("Gte", vec!["4"], "4", true),
        ("Gte", vec!["4"], "3", false),
        ("Lte", vec!["4"], "4", true),
        ("Lte", vec!["4"], "5", false),
        ("Lte", vec!["4"], "large", false),
    ] {
        let pool = pool(json!([{"key": "size", "operator": operator, "values": values}]));
        let affinity = affinity(&pool, &claim(json!([])), &node(json!({"size": value})), &wanted(&["size"]), &[], []);
        assert_eq!(affinity.dropped.is_empty(), admitted, "{operator} {values:?} {value}");
    }
    let bounds = pool(json!([{"key": "size", "operator": "Gt", "values": ["4"]}, {"key": "size", "operator": "NotIn", "values": ["6"]}]));
    assert_eq!(affinity(&bounds, &claim(json!([])), &node(json!({"size": "5"})), &wanted(&["size"]), &[], []).dropped, vec![]);
    let why = "NodePool web allows only: Gt [4] and NotIn [6]".into();
    assert_eq!(
        affinity(&bounds, &claim(json!([])), &node(json!({"size": "6"})), &wanted(&["size"]), &[], []).dropped,
        vec![Dropped { key: "size".into(), values: vec!["6".into()], why }]
    );
}

/// Case C06.
#[test]
fn hosts_are_avoided_by_their_label_and_never_required() {
    let nodes =
        [node(json!({"kubernetes.io/hostname": "ip-10-0-0-9"})), node(json!({})), node(json!({"kubernetes.io/hostname": "ip-10-0-0-7"}))];
    let candidate = node(json!({"kubernetes.io/hostname": "ip-10-0-0-7", "instance": "m5"}));
    let hostname = wanted(&["kubernetes.io/hostname", "instance"]);
    let affinity = affinity(&pool(json!([])), &claim(json!([])), &candidate, &hostname[..1], &hostname, &nodes);
    let mut expected = required(json!([is_in("karpenter.sh/nodepool", &["web"])]));
    expected["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
        {"weight": 100, "preference": {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-0-7", "ip-10-0-0-9"]}]}},
        {"weight": 1, "preference": {"matchExpressions": [is_in("instance", &["m5"])]}},
    ]);
    assert_eq!(shape(&affinity), expected);
    let why = "a new node has another hostname, and Karpenter provisions nothing for a Pod that names one".into();
    assert_eq!(affinity.dropped, vec![Dropped { key: "kubernetes.io/hostname".into(), values: vec!["ip-10-0-0-7".into()], why }]);
}

#[test]
fn nodes_without_a_hostname_label_make_no_term() {
    let affinity = affinity(
        &pool(json!([])),
        &claim(json!([])),
        &node(json!({})),
        &[],
        &[],
        &[node(json!({})), node(json!({"kubernetes.io/hostname": ""}))],
    );
    assert_eq!(affinity.node_affinity.preferred_during_scheduling_ignored_during_execution, None);
}
