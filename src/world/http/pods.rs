//! The models' Pods at the door: found by name, listed, and what may be changed of them.

use serde_json::Value;

use super::{
    answer::Answer,
    live::json,
    request::Call,
    resource::{Key, PODS},
};
use crate::world::{pool::PoolWorld, protection::Written};

/// What may be changed of a Pod's spec, in the API server's words.
const UPDATES: &str = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
     (allow it to be set to 1 if it was previously negative)";
/// The label by which the models' controllers and budgets select.
const SELECTED_BY: &str = "app";

/// Whether the API server lets a Pod be changed so.
pub(super) fn meets_update(call: &Call, before: &Value, after: &Value) -> Result<(), Answer> {
    let tolerations = |pod: &Value| pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let (had, has) = (tolerations(before), tolerations(after));
    if fixed(before) == fixed(after) && had.iter().all(|toleration| has.contains(toleration)) {
        return Ok(());
    }
    Err(Answer::invalid(PODS, &call.name, "spec", UPDATES))
}

/// The part of a spec that never changes.
fn fixed(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    fields.retain(|field, _| !["activeDeadlineSeconds", "tolerations"].contains(&field.as_str()));
    for list in ["containers", "initContainers"] {
        let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        containers.filter_map(Value::as_object_mut).for_each(|container| drop(container.remove("image")));
    }
    spec
}

/// What a patch makes of a workload's Pod's metadata; the models know nothing else of it that could change.
pub(super) fn written(before: &Value, after: &Value) -> Result<Written, Answer> {
    if rest(before) != rest(after) {
        return Err(Answer::not_allowed("of a Pod of a workload, only labels and annotations can be changed in the embedded world"));
    }
    let texts = |field: &str| {
        let list = after["metadata"][field].as_object().into_iter().flatten();
        list.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let written = Written { labels: texts("labels"), annotations: texts("annotations") };
    if before["metadata"]["labels"][SELECTED_BY] != after["metadata"]["labels"][SELECTED_BY] {
        let why = format!("controllers and budgets of the embedded world know their Pods by the label {SELECTED_BY}, which has to stay");
        return Err(Answer::not_allowed(&why));
    }
    Ok(written)
}

/// All but labels and annotations.
fn rest(pod: &Value) -> Value {
    let mut rest = pod.clone();
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata.retain(|field, _| !["labels", "annotations"].contains(&field.as_str()));
    }
    rest
}

/// The Pod of this name.
pub(super) fn pod(pool: &PoolWorld, key: &Key) -> Option<Value> {
    let placeholder = pool.view.placeholders.get(&key.name).map(json);
    let found = placeholder.or_else(|| pool.object(pool.pod_named(&key.name)?).map(|pod| json(&pod))).or_else(|| {
        let node = key.name.strip_prefix("agent-").filter(|node| pool.nodes.contains_key(*node))?;
        pool.objects_on(node).iter().find(|pod| pod.metadata.name.as_deref() == Some(&key.name)).map(json)
    });
    found.filter(|pod| pod["metadata"]["namespace"] == key.namespace.as_str())
}

/// All Pods, or those on one Node.
pub(super) fn pods(pool: &PoolWorld, node: Option<&str>) -> Vec<Value> {
    match node {
        Some(node) => pool.objects_on(node).iter().map(json).collect(),
        None => {
            let daemons = pool
                .nodes
                .keys()
                .flat_map(|node| pool.objects_on(node))
                .filter(|pod| pod.metadata.name.as_deref().is_some_and(|name| name.starts_with("agent-")));
            pool.pods.keys().filter_map(|id| pool.object(*id)).chain(daemons).map(|pod| json(&pod)).collect()
        }
    }
}
