//! The surge (§6): how much room a node's Pods need, what Karpenter plans with, and the placeholder Pod that makes it
//! bring that room; whether it came; and what keeps an old node from draining.

use crate::api::{
    karpenter::{Node, NodeClaim, NodePool},
    keys,
    pod::Pod,
    quantity::Resources,
};

pub mod affinity;
pub mod blockers;
pub mod clamp;
pub mod headroom;
pub mod mutation;
pub mod placeholder;
pub mod pods;
pub mod ready;
pub mod requests;

pub use affinity::{Affinity, Dropped, affinity};
pub use blockers::{Blocker, Blockers, blockers};
pub use clamp::{BeyondBand, Limited, SurgeRequest};
pub use headroom::{Doubt, Shortfall, doubts, headroom};
pub use mutation::{disowned, mutated};
pub use placeholder::{PlaceholderSettings, PlaceholderState, Waiting, claim_of, placeholder, placeholder_name, surge_for_label};
pub use ready::{NotReady, came_after, induced, ready, reapable, reapable_unready, untolerated};
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

/// How much room a surge reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// What the Pods of the old node need.
    Pods,
    /// All that Karpenter plans with on such a node: `surge.wholeNodeReservation`.
    WholeNode,
}

/// What the placeholder of a claim asks for: [`request_for`] its Pods.
///
/// # Errors
/// As [`request_for`].
pub fn request(pool: &NodePool, claim: &NodeClaim, node: &Node, pods: &[Pod]) -> Result<SurgeRequest, SurgeError> {
    request_for(Reservation::Pods, pool, claim, node, pods)
}

/// What the placeholder of a claim asks for: the requests of the Pods on its Node, clamped to what Karpenter plans with.
/// `pods` are all Pods of the Node.
///
/// # Errors
/// A quantity of a Pod, of the claim or of its Node that can't be read.
pub fn request_for(
    reservation: Reservation,
    pool: &NodePool,
    claim: &NodeClaim,
    node: &Node,
    pods: &[Pod],
) -> Result<SurgeRequest, SurgeError> {
    let failed = |unreadable| SurgeError::new(&pool.metadata.name, unreadable);
    let hostname = node.metadata.label(keys::HOSTNAME_LABEL);
    let wanted = requests::requests(pods, &node.metadata.name, hostname).map_err(failed)?;
    let daemonsets = requests::daemonset_requests(pods).map_err(failed)?;
    let read = |raw, kind: &str, name: &str| {
        Resources::from_raw(raw).map_err(|why| failed(UnreadableQuantity::at(format!("{kind} {name}"), "status.allocatable", why)))
    };
    let allocatable = read(&claim.status.allocatable, "NodeClaim", &claim.metadata.name)?;
    let reported = read(&node.status.allocatable, "Node", &node.metadata.name)?;
    let request = clamp::clamp(wanted, &allocatable, &daemonsets).judge_band(&reported, &allocatable);
    Ok(match reservation {
        Reservation::Pods => request,
        Reservation::WholeNode => request.reserve_whole_node(&allocatable, &daemonsets),
    })
}

#[cfg(test)]
mod tests;
