//! What a crash leaves behind, in words: which of the steps of a rotation have been written.

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams};
use serde_json::Value;

use crate::passes::{NAMESPACE, annotation, json};

/// What there is of a rotation of the NodeClaim `old`.
pub async fn left(plane: &ControlPlane, pool: &str, old: &str) -> String {
    let node_pool = json(&plane.node_pools(), pool).await;
    let mut parts =
        words("pool", &node_pool, &[("active-rotation", "anchored"), ("active-rotation-state", "mirrored"), ("written-by", "signed")]);
    let claims: Vec<Value> = plane.node_claims_of(pool).await.unwrap().iter().map(|claim| serde_json::to_value(claim).unwrap()).collect();
    let claim = claims.iter().find(|claim| claim["metadata"]["name"] == old);
    let claim = claim.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
    let nodes = Api::<Node>::all(plane.client()).list(&ListParams::default()).await.unwrap();
    let nodes: Vec<Value> = nodes.items.iter().map(|node| serde_json::to_value(node).unwrap()).collect();
    let (olds, others): (Vec<&Value>, Vec<&Value>) = nodes.iter().partition(|node| claim.is_some_and(|claim| is_of(node, claim)));
    match claim {
        None => parts.push("old deleted".into()),
        Some(claim) => {
            let state = annotation(claim, "state").map(|state| format!("old {state}"));
            let marks = olds.iter().flat_map(|node| marks(node));
            let all: Vec<String> = state.into_iter().chain(marks).collect();
            parts.extend((!all.is_empty()).then(|| all.join(" ")));
        }
    }
    // The old Node may outlive its claim by a moment.
    let hosts = others.iter().filter(|node| node["spec"]["unschedulable"] != true).flat_map(|node| marks(node));
    parts.extend(hosts.map(|mark| format!("host {mark}")));
    let placeholders = Api::<Pod>::namespaced(plane.client(), NAMESPACE).list(&ListParams::default()).await.unwrap();
    parts.extend(placeholders.items.iter().map(|_| "placeholder".to_owned()));
    parts.join("; ")
}

fn words(what: &str, object: &Value, words: &[(&str, &str)]) -> Vec<String> {
    let said: Vec<&str> = words.iter().filter(|(key, _)| annotation(object, key).is_some()).map(|(_, word)| *word).collect();
    if said.is_empty() { Vec::new() } else { vec![format!("{what} {}", said.join(" "))] }
}

fn is_of(node: &Value, claim: &Value) -> bool {
    node["metadata"]["name"] == claim["status"]["nodeName"]
}

fn marks(node: &Value) -> Vec<String> {
    let marks = [("surge-for", "frozen"), ("cordoned", "cordoned")];
    marks.into_iter().filter(|(key, _)| annotation(node, key).is_some()).map(|(_, word)| word.to_owned()).collect()
}
