use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn resources(list: &[(&str, &str)]) -> Resources {
    Resources(list.iter().map(|(resource, text)| ((*resource).into(), Quantity::parse(text).unwrap())).collect())
}

fn settings() -> PlaceholderSettings {
    PlaceholderSettings { namespace: "rotation".into(), image: "registry.example/pause:3.10".into(), pull_secrets: vec!["pull".into()] }
}

fn pool() -> NodePool {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {
            "taints": [{"key": "team", "value": "shop", "effect": "NoSchedule"}, {"key": "spot", "effect": "NoExecute"}],
            "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
        }}},
    }))
    .unwrap()
}

fn built(request: &Resources) -> Value {
    serde_json::to_value(placeholder(&settings(), &pool(), "web-abc", request, NodeAffinity::default())).unwrap()
}

/// The whole Pod, with the request of case C09.
#[test]
fn the_placeholder_is_a_restricted_bare_pod_that_asks_for_the_room() {
    let request = resources(&[("cpu", "1500m"), ("memory", "2933Mi"), ("example.com/gpu", "2"), ("hugepages-2Mi", "64Mi")]);
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "noderotation-surge-web-abc",
            "namespace": "rotation",
            "labels": {"noderotation.io/surge-for": "web-abc", "karpenter.sh/nodepool": "web"},
            "annotations": {"noderotation.io/surge-for": "web-abc", "karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            "affinity": {"nodeAffinity": {}},
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "pause",
                "image": "registry.example/pause:3.10",
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "2933Mi", "example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
                    "limits": {"example.com/gpu": "2", "hugepages-2Mi": "64Mi"},
                },
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
            }],
            "enableServiceLinks": false,
            "imagePullSecrets": [{"name": "pull"}],
            "priorityClassName": "noderotation-surge",
            "restartPolicy": "Always",
            "securityContext": {
                "runAsGroup": 65535, "runAsNonRoot": true, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 0,
            "tolerations": [
                {"key": "team", "operator": "Equal", "value": "shop", "effect": "NoSchedule"},
                {"key": "spot", "operator": "Equal", "value": "", "effect": "NoExecute"},
            ],
        },
    });
    assert_eq!(built(&request), expected);
}

#[test]
fn hugepages_alone_come_with_a_cpu_request_as_the_api_server_wants() {
    let resources = &built(&resources(&[("hugepages-2Mi", "4Mi")]))["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"requests": {"cpu": "0", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}));
}

#[test]
fn a_node_without_pods_makes_a_placeholder_without_requests() {
    assert_eq!(built(&Resources::default())["spec"]["containers"][0]["resources"], json!({}));
}

/// Case C06.
#[test]
fn long_names_get_different_valid_labels_and_the_annotation_has_the_whole() {
    let first = format!("p-{}", "a".repeat(66));
    let second = format!("p-{}b", "a".repeat(65));
    let third = format!("{}-{}", "a".repeat(62), "b".repeat(5));
    let labels: Vec<String> = [&first, &second, &third].into_iter().map(|claim| surge_for_label(claim)).collect();
    assert!(labels.iter().all(|label| is_label_value(label)), "{labels:?}");
    assert_ne!(labels[0], labels[1]);
    assert!(["abc-", "-abc", "a b", "", "é"].into_iter().all(|odd| is_label_value(&surge_for_label(odd))));
    let pod = placeholder(&settings(), &pool(), &first, &Resources::default(), NodeAffinity::default());
    assert_eq!(claim_of(&pod), Some(first.as_str()));
    assert_eq!(pod.metadata.labels.unwrap()[keys::SURGE_FOR], labels[0]);
    assert_eq!((surge_for_label("web-abc"), placeholder_name("web-abc")), ("web-abc".into(), "noderotation-surge-web-abc".into()));
}

#[test]
fn a_pod_without_the_annotation_belongs_to_no_claim() {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "x", "labels": {"noderotation.io/surge-for": "web-abc"}}})).unwrap();
    assert_eq!(claim_of(&pod), None);
}

fn is_label_value(text: &str) -> bool {
    let is_end = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

fn is_object_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_end = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        is_end(part.chars().next())
            && is_end(part.chars().last())
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

proptest! {
    #[test]
    fn labels_and_names_are_valid_and_never_shared(
        stem in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,5}",
        ends in proptest::collection::btree_set("[a-z0-9]{1,4}", 2..5),
    ) {
        let claims: Vec<String> = ends.iter().map(|end| format!("{stem}{end}")).filter(|claim| claim.len() <= 253).collect();
        let labels: std::collections::BTreeSet<String> = claims.iter().map(|claim| surge_for_label(claim)).collect();
        let names: std::collections::BTreeSet<String> = claims.iter().map(|claim| placeholder_name(claim)).collect();
        prop_assert!(labels.iter().all(|label| is_label_value(label)), "{:?}", labels);
        prop_assert!(names.iter().all(|name| is_object_name(name)), "{:?}", names);
        prop_assert_eq!((labels.len(), names.len()), (claims.len(), claims.len()));
    }

    #[test]
    fn any_text_gives_a_valid_label(text in ".*") {
        prop_assert!(is_label_value(&surge_for_label(&text)));
    }
}

/// Case C08.
#[test]
fn each_state_of_the_placeholder_is_told_apart() {
    let state = |metadata: Value, node: Option<&str>, status: Value| {
        let mut whole = json!({"metadata": metadata, "spec": {"containers": [{"name": "pause", "image": "pause:3"}]}, "status": status});
        if let Some(node) = node {
            whole["spec"]["nodeName"] = json!(node);
        }
        PlaceholderState::of(Some(&serde_json::from_value(whole).unwrap()))
    };
    let deleting = json!({"deletionTimestamp": "2026-12-05T02:00:00Z"});
    let pulling = json!({"phase": "Pending", "containerStatuses": [{
        "name": "pause", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "403 Forbidden"}},
    }]});
    let waiting = Waiting { image: "pause:3".into(), reason: "ErrImagePull".into(), message: "403 Forbidden".into() };
    let told: Vec<(PlaceholderState, &str)> = vec![
        (PlaceholderState::of(None), "there is no placeholder"),
        (state(json!({}), Some("n2"), json!({"phase": "Failed", "reason": "OutOfcpu"})), "the placeholder has ended: Failed: OutOfcpu"),
        (
            state(json!({}), Some("n2"), json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})),
            "the placeholder has ended: Failed: Evicted: low on memory",
        ),
        (state(json!({}), None, json!({"phase": "Succeeded"})), "the placeholder has ended: Succeeded"),
        (state(deleting.clone(), Some("n2"), json!({"phase": "Running"})), "an earlier placeholder is still terminating"),
        (state(deleting, Some("n2"), json!({"phase": "Failed"})), "an earlier placeholder is still terminating"),
        (state(json!({}), None, json!({"phase": "Pending"})), "the placeholder has no node yet"),
        (state(json!({}), Some(""), json!({})), "the placeholder has no node yet"),
        (state(json!({}), Some("n2"), json!({"phase": "Pending"})), "the placeholder is bound to node n2 and doesn't run yet"),
        (
            state(json!({}), Some("n2"), pulling.clone()),
            "the placeholder is bound to node n2 and waits: image pause:3: ErrImagePull: 403 Forbidden",
        ),
        (state(json!({}), Some("n2"), json!({"phase": "Running"})), "the placeholder runs on node n2"),
    ];
    for (state, words) in &told {
        assert_eq!(state.to_string(), *words);
    }
    assert_eq!(state(json!({}), Some("n2"), pulling), PlaceholderState::Bound { node: "n2".into(), waiting: Some(waiting) });
    assert_eq!(told.iter().filter_map(|(state, _)| state.node()).collect::<Vec<_>>(), ["n2", "n2", "n2"]);
}
