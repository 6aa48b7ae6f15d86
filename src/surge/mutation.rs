//! Whether an admission controller changed what a placeholder asks for (§2, rehearsal): a sidecar, a LimitRange's default.
//! The surge then reserves other room than the Pods need, or none that Karpenter can bring.

use std::collections::BTreeSet;

use super::requests::effective_requests;
use crate::api::{karpenter::pod_meta, keys, pod::Pod};

/// What the API server made of where the placeholder may go, and of its effective requests, with both numbers; `None` where
/// it left them alone.
pub fn mutated(sent_pod: &Pod, returned_pod: &Pod) -> Option<String> {
    let (sent, returned) = match (effective_requests(sent_pod), effective_requests(returned_pod)) {
        (Ok(sent), Ok(returned)) => (sent, returned),
        (Err(unreadable), _) | (_, Err(unreadable)) => return Some(unreadable.to_string()),
    };
    let mut changed = placed(sent_pod, returned_pod);
    let resources: BTreeSet<&String> = sent.0.keys().chain(returned.0.keys()).collect();
    let resized = resources.into_iter().filter(|resource| sent.get(resource) != returned.get(resource)).map(|resource| {
        let (sent, returned) = (sent.get(resource).canonical(resource), returned.get(resource).canonical(resource));
        format!("{resource}: {sent} sent, {returned} returned")
    });
    changed.extend(resized);
    (!changed.is_empty()).then(|| changed.join("; "))
}

/// A node selector or a priority that somebody gave it: it may find no node of the pool, or push Pods off one.
fn placed(sent: &Pod, returned: &Pod) -> Vec<String> {
    let selector = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_selector.clone()).unwrap_or_default();
    let class = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()).unwrap_or_default();
    let (known, returned_with) = (selector(sent), selector(returned));
    let added = returned_with.iter().filter(|(key, value)| known.get(*key) != Some(value));
    let mut changed: Vec<String> = added.map(|(key, value)| format!("nodeSelector {key}={value} added")).collect();
    if class(sent) != class(returned) {
        changed.push(format!("priorityClassName: {:?} sent, {:?} returned", class(sent), class(returned)));
    }
    changed
}

/// What tells the placeholder as ours, where the API server would store it without: its label, or its annotation.
pub fn disowned(sent: &Pod, returned: &Pod) -> Option<&'static str> {
    let (sent, returned) = (pod_meta(sent), pod_meta(returned));
    if sent.label(keys::SURGE_FOR) != returned.label(keys::SURGE_FOR) {
        return Some("label noderotation.io/surge-for");
    }
    (sent.annotation(keys::SURGE_FOR) != returned.annotation(keys::SURGE_FOR)).then_some("annotation noderotation.io/surge-for")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "surge", "namespace": "rotation"}, "spec": spec})).unwrap()
    }

    fn pause(requests: Value) -> Value {
        json!({"name": "pause", "resources": {"requests": requests}})
    }

    #[test]
    fn the_same_room_in_other_words_is_no_change() {
        let sent = pod(json!({"containers": [pause(json!({"cpu": "1500m", "memory": "1Gi"}))]}));
        let returned = pod(json!({
            "containers": [pause(json!({"cpu": "1.5", "memory": "1024Mi", "ephemeral-storage": "0"}))],
            "nodeName": "", "tolerations": [{"operator": "Exists"}],
        }));
        assert_eq!(mutated(&sent, &returned), None);
    }

    #[test]
    fn a_sidecar_a_default_and_an_overhead_are_told_with_both_numbers() {
        let sent = pod(json!({"containers": [pause(json!({"cpu": "1500m"}))]}));
        let told = |spec| mutated(&sent, &pod(spec));
        let sidecar = json!({"name": "proxy", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
        let both = Some("cpu: 1500m sent, 1600m returned; memory: 0 sent, 64Mi returned".to_owned());
        assert_eq!(told(json!({"containers": [pause(json!({"cpu": "1500m"})), sidecar]})), both);
        let init = json!({"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
        assert_eq!(told(json!({"initContainers": [init], "containers": [pause(json!({"cpu": "1500m"}))]})), both);
        let lowered = Some("cpu: 1500m sent, 1 returned".to_owned());
        assert_eq!(told(json!({"containers": [pause(json!({"cpu": "1"}))]})), lowered);
        let overhead = Some("memory: 0 sent, 120Mi returned".to_owned());
        assert_eq!(told(json!({"overhead": {"memory": "120Mi"}, "containers": [pause(json!({"cpu": "1500m"}))]})), overhead);
        let unreadable = r#"Pod rotation/surge: spec.overhead.cpu: "?" is no quantity"#.to_owned();
        assert_eq!(told(json!({"overhead": {"cpu": "?"}, "containers": []})), Some(unreadable));
    }
}
