//! Whether the surge is there (§6), which NodeClaim it brought, and what of it may be taken back.

use std::fmt;

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::{
    placeholder::{PlaceholderState, claim_of},
    pods::{is_completed, is_daemonset, is_mirror},
};
use crate::api::{
    karpenter::{Node, NodeClaim},
    keys,
    pod::Pod,
    time::Time,
};

/// Why the surge isn't there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// The placeholder doesn't run.
    Placeholder(PlaceholderState),
    /// It runs on the old node itself.
    OnCandidate {
        /// The old node.
        node: String,
    },
    /// Its node does not exist.
    NoHost {
        /// The node.
        node: String,
    },
    /// Its node belongs to another pool.
    OtherPool {
        /// The node.
        node: String,
        /// The pool its label names, where it has one.
        pool: Option<String>,
    },
    /// Its node isn't Ready.
    HostNotReady {
        /// The node.
        node: String,
    },
    /// Its node is going away itself.
    HostLeaving {
        /// The node.
        node: String,
    },
    /// Its node takes no new Pods: it is cordoned, or has got a taint since.
    HostClosed {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placeholder(state) => write!(formatter, "{state}"),
            Self::OnCandidate { node } => write!(formatter, "the placeholder runs on the old node {node} itself"),
            Self::NoHost { node } => write!(formatter, "the placeholder's node {node} does not exist"),
            Self::OtherPool { node, pool: Some(pool) } => write!(formatter, "the placeholder's node {node} belongs to pool {pool}"),
            Self::OtherPool { node, pool: None } => write!(formatter, "the placeholder's node {node} belongs to no pool"),
            Self::HostNotReady { node } => write!(formatter, "the placeholder's node {node} is not Ready"),
            Self::HostLeaving { node } => write!(formatter, "the placeholder's node {node} is being removed itself"),
            Self::HostClosed { node, why } => write!(formatter, "the placeholder's node {node} takes no other Pods: {why}"),
        }
    }
}

/// Whether the old node may go: its placeholder runs on another Ready node of the same pool. Answers that node's name.
///
/// `host` is the whole Node the placeholder is bound to ([`PlaceholderState::node`]), `None` where it does not exist.
/// A host that is being deleted or carries Karpenter's `disrupted` taint takes no Pods, so it isn't ready either; nor is
/// one that somebody has cordoned, or that got a taint which the placeholder doesn't tolerate: what is drained from the
/// old node could not go there.
///
/// # Errors
/// What is still missing.
pub fn ready(placeholder: Option<&Pod>, host: Option<&Node>, candidate_node: &str, pool: &str) -> Result<String, NotReady> {
    let node = match PlaceholderState::of(placeholder) {
        PlaceholderState::Running { node } => node,
        state => return Err(NotReady::Placeholder(state)),
    };
    if node == candidate_node {
        return Err(NotReady::OnCandidate { node });
    }
    let Some(host) = host.filter(|host| host.metadata.name == node) else { return Err(NotReady::NoHost { node }) };
    let host_pool = host.metadata.label(keys::NODEPOOL_LABEL);
    if host_pool != Some(pool) {
        return Err(NotReady::OtherPool { node, pool: host_pool.map(String::from) });
    }
    if host.metadata.is_deleting() || host.spec.taints.iter().any(|taint| taint.key == keys::DISRUPTED_TAINT) {
        return Err(NotReady::HostLeaving { node });
    }
    if !host.is_ready() {
        return Err(NotReady::HostNotReady { node });
    }
    match closed(host, placeholder) {
        Some(why) => Err(NotReady::HostClosed { node, why }),
        None => Ok(node),
    }
}

/// Why a node takes no Pods like the placeholder.
fn closed(host: &Node, placeholder: Option<&Pod>) -> Option<String> {
    if host.spec.unschedulable {
        return Some("it is cordoned".into());
    }
    untolerated(&host.spec.taints, placeholder).map(|taint| format!("it has the taint {}:{}", taint.key, taint.effect))
}

/// The first of these taints that keeps a Pod out.
pub fn untolerated<'t>(taints: &'t [Taint], pod: Option<&Pod>) -> Option<&'t Taint> {
    let tolerations: Vec<&Toleration> =
        pod.and_then(|pod| pod.spec.as_ref()).into_iter().flat_map(|spec| spec.tolerations.iter().flatten()).collect();
    taints.iter().find(|taint| taint.effect != "PreferNoSchedule" && !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// As the scheduler matches them.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, effect, operator) = (text(&toleration.key), text(&toleration.effect), text(&toleration.operator));
    let by_key = key == taint.key || (key.is_empty() && operator == "Exists");
    let is_equal = matches!(operator.as_str(), "" | "Equal") && text(&toleration.value) == text(&taint.value);
    let by_value = operator == "Exists" || is_equal;
    by_key && by_value && (effect.is_empty() || effect == taint.effect)
}

/// The claim that the placeholder is on: that of the pool whose Node is the placeholder's. Whether the placeholder
/// brought it or only found it is told by its age against `started-at`.
pub fn induced<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>, pool: &str, node: &str) -> Option<&'a NodeClaim> {
    claims.into_iter().find(|claim| claim.node() == Some(node) && claim.pool() == Some(pool))
}

/// Whether a claim came after the attempt began. Both times have whole seconds; the same second is too early: Karpenter
/// takes longer than that to answer a placeholder.
pub fn came_after(claim: &NodeClaim, started_at: Time) -> bool {
    claim.metadata.creation_timestamp.is_some_and(|created| created > started_at)
}

/// Whether the rollback of `rotation` (the old claim's name) may delete the induced claim: it came after the attempt
/// began, and its Node holds nothing but this rotation's placeholder, DaemonSet, mirror and completed Pods. `pods` are
/// those on its Node; a claim without a Node is never reaped: other Pods may wait for it.
pub fn reapable(claim: &NodeClaim, started_at: Time, rotation: &str, pods: &[Pod]) -> bool {
    let is_ours = |pod: &Pod| claim_of(pod) == Some(rotation);
    let is_nothing = |pod: &Pod| is_ours(pod) || is_daemonset(pod) || is_mirror(pod) || is_completed(pod);
    may_go(claim, rotation, started_at) && claim.node().is_some() && pods.iter().all(is_nothing)
}

/// Whether the rollback of `rotation` may delete a claim whose Node came up and never became ready: of the same pool,
/// Registered, not Initialized, younger than the attempt, and its Node holds only DaemonSet and mirror Pods. Karpenter
/// ends neither such a node nor the bill for it.
pub fn reapable_unready(claim: &NodeClaim, pool: &str, started_at: Time, rotation: &str, pods: &[Pod]) -> bool {
    may_go(claim, rotation, started_at)
        && claim.pool() == Some(pool)
        && claim.is("Registered")
        && !claim.is("Initialized")
        && pods.iter().all(|pod| is_daemonset(pod) || is_mirror(pod))
}

fn may_go(claim: &NodeClaim, rotation: &str, started_at: Time) -> bool {
    claim.metadata.name != rotation && !claim.metadata.is_deleting() && came_after(claim, started_at)
}

#[cfg(test)]
mod tests;
