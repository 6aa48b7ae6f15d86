//! What kind of Pod a Pod is, told as Karpenter tells it.

use crate::api::{keys, pod::Pod};

/// Set by the kubelet on the copy of a static Pod.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// `namespace/name`.
pub fn pod_name(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    match pod.metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.into(),
    }
}

fn is_owned_by(pod: &Pod, api_version: &str, kind: &str) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.api_version == api_version && owner.kind == kind)
}

/// Whether a DaemonSet runs it: every node gets its own.
pub fn is_daemonset(pod: &Pod) -> bool {
    is_owned_by(pod, "apps/v1", "DaemonSet")
}

/// Whether it mirrors a static Pod of the node, which nobody can evict.
pub fn is_mirror(pod: &Pod) -> bool {
    is_owned_by(pod, "v1", "Node") || pod.metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR_ANNOTATION)
}

/// Its phase; empty where it has none yet.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether it has ended, and so needs nothing.
pub fn is_completed(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether its deletion has been asked for.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it carries the label of a placeholder, of whichever rotation.
pub fn is_placeholder(pod: &Pod) -> bool {
    pod.metadata.labels.iter().flatten().any(|(key, _)| key == keys::SURGE_FOR)
}

/// The node it is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
