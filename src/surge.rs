//! The surge (§6): how much room a node's Pods need, what Karpenter plans with, and the placeholder Pod that makes it
//! bring that room; whether it came; and what keeps an old node from draining.

use k8s_openapi::api::core::v1::Pod;

use crate::api::{
    karpenter::{Node, NodeClaim, NodePool},
    keys,
    quantity::Resources,
};

pub mod affinity;
pub mod blockers;
pub mod clamp;
pub mod headroom;
pub mod placeholder;
pub mod pods;
pub mod ready;
pub mod requests;

pub use affinity::{Affinity, Dropped, affinity};
pub use blockers::{Blocker, Blockers, blockers};
pub use clamp::{Limited, SurgeRequest};
pub use headroom::{Shortfall, headroom};
pub use placeholder::{PlaceholderSettings, PlaceholderState, Waiting, claim_of, placeholder, placeholder_name, surge_for_label};
pub use ready::{NotReady, came_after, induced, ready, reapable, reapable_unready};
pub use requests::UnreadableQuantity;

/// Why a pool's surge can't be computed. It harms that pool only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pool {pool}: {unreadable}")]
pub struct SurgeError {
    /// The pool.
    pub pool: String,
    /// What can't be read.
    pub unreadable: UnreadableQuantity,
}

impl SurgeError {
    pub(crate) fn new(pool: &str, unreadable: UnreadableQuantity) -> Self {
        Self { pool: pool.into(), unreadable }
    }
}

/// What the placeholder of a claim asks for: the requests of the Pods on its Node, clamped to what Karpenter plans with.
/// `pods` are all Pods of the Node.
///
/// # Errors
/// A quantity of a Pod or of the claim that can't be read.
pub fn request(pool: &NodePool, claim: &NodeClaim, node: &Node, pods: &[Pod]) -> Result<SurgeRequest, SurgeError> {
    let failed = |unreadable| SurgeError::new(&pool.metadata.name, unreadable);
    let hostname = node.metadata.label(keys::HOSTNAME_LABEL);
    let wanted = requests::requests(pods, &node.metadata.name, hostname).map_err(failed)?;
    let daemonsets = requests::daemonset_requests(pods).map_err(failed)?;
    let object = || format!("NodeClaim {}", claim.metadata.name);
    let allocatable = Resources::from_raw(&claim.status.allocatable)
        .map_err(|why| failed(UnreadableQuantity::at(object(), "status.allocatable", why)))?;
    Ok(clamp::clamp(wanted, &allocatable, &daemonsets))
}

#[cfg(test)]
mod tests;
