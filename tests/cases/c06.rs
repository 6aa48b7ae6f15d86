//! C06 · Node name, hostname label, and names too long for a label.

use noderotation::api::pod::Pod;
use noderotation::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        keys,
        quantity::Resources,
    },
    surge,
};
use serde_json::{Value, json};

use crate::fleet::placeholder_settings;

const FQDN: &str = "ip-10-0-0-7.rack3.building-two.example-corporation.internal.example.org";

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pool() -> NodePool {
    parse(json!({"metadata": {"name": "web"}}))
}

fn node(labels: Value) -> Node {
    parse(json!({"metadata": {"name": FQDN, "labels": labels}}))
}

fn pod(name: &str, spec: Value) -> Pod {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    let mut spec = spec;
    spec["containers"] = json!([container]);
    parse(json!({"metadata": {"name": name, "namespace": "apps"}, "spec": spec}))
}

#[test]
fn pods_pinned_by_label_or_by_name_are_not_in_the_request() {
    let by_label = json!({"nodeSelector": {"kubernetes.io/hostname": "ip-10-0-0-7"}});
    let field = json!({"key": "metadata.name", "operator": "In", "values": [FQDN]});
    let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}});
    let pods = [pod("p1", by_label), pod("p2", by_name), pod("p3", json!({}))];
    let node = node(json!({"kubernetes.io/hostname": "ip-10-0-0-7"}));
    let request = surge::request(&pool(), &NodeClaim::default(), &node, &pods).unwrap().request;
    assert_eq!(request.to_string(), "cpu 1");
}

#[test]
fn the_hostname_is_the_labels_and_never_required() {
    let old = node(json!({"kubernetes.io/hostname": "ip-10-0-0-7"}));
    let (nameless, empty) = (node(json!({})), node(json!({"kubernetes.io/hostname": ""})));
    let keys = [keys::HOSTNAME_LABEL.to_owned()];
    let affinity = |node, others: &[&Node]| {
        let affinity = surge::affinity(&pool(), &NodeClaim::default(), node, &keys, &keys, others.iter().copied());
        serde_json::to_value(affinity.node_affinity).unwrap()
    };
    let in_pool =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["web"]}]}]});
    let elsewhere = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-0-7"]});
    let expected = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": in_pool,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {"matchExpressions": [elsewhere]}}],
    });
    assert_eq!(affinity(&old, &[&nameless, &empty]), expected);
    // No term at all rather than an empty list.
    assert_eq!(affinity(&nameless, &[&empty]), json!({"requiredDuringSchedulingIgnoredDuringExecution": in_pool}));
}

#[test]
fn long_names_have_labels_of_their_own_and_the_annotation_decides() {
    let names = [format!("p-{}", "a".repeat(66)), format!("p-{}b", "a".repeat(65)), format!("{}-{}", "a".repeat(62), "a".repeat(10))];
    let mut labels = std::collections::BTreeSet::new();
    for name in &names {
        let pod = surge::placeholder(&placeholder_settings(), &pool(), name, &Resources::default(), Default::default());
        let label = pod.metadata.labels.as_ref().unwrap()[keys::SURGE_FOR].clone();
        let ends = [label.bytes().next(), label.bytes().last()];
        assert!(label.len() <= 63 && ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric())), "{label}");
        assert_eq!(surge::claim_of(&pod), Some(name.as_str()));
        labels.insert(label);
    }
    assert_eq!(labels.len(), 3);
}
