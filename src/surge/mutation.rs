//! Whether an admission controller changed what a placeholder asks for (§2, rehearsal): a sidecar, a LimitRange's default.
//! The surge then reserves other room than the Pods need, or none that Karpenter can bring.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::requests::effective_requests;

/// What the API server made of the placeholder's effective requests, with both numbers; `None` where it left them alone.
pub fn mutated(sent: &Pod, returned: &Pod) -> Option<String> {
    let (sent, returned) = match (effective_requests(sent), effective_requests(returned)) {
        (Ok(sent), Ok(returned)) => (sent, returned),
        (Err(unreadable), _) | (_, Err(unreadable)) => return Some(unreadable.to_string()),
    };
    let resources: BTreeSet<&String> = sent.0.keys().chain(returned.0.keys()).collect();
    let changed: Vec<String> = resources
        .into_iter()
        .filter(|resource| sent.get(resource) != returned.get(resource))
        .map(|resource| {
            let (sent, returned) = (sent.get(resource).canonical(resource), returned.get(resource).canonical(resource));
            format!("{resource}: {sent} sent, {returned} returned")
        })
        .collect();
    (!changed.is_empty()).then(|| changed.join("; "))
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
