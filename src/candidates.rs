//! The census of a pool's claims and the choice of the next candidate (§5).

use crate::api::time::Time;

/// Where a claim stands; every claim is in exactly one bucket, the first that fits in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Its rotation is anchored.
    InFlight,
    /// It is being deleted.
    Deleting,
    /// `expired`.
    Terminal,
    /// Its Node carries the operator's do-not-disrupt.
    OptedOut,
    /// No Node, Node gone, or not Ready.
    NotReady,
    /// Too young.
    NotTriggered,
    /// A failed attempt is too recent.
    InBackoff,
    /// May be rotated now.
    Eligible,
}

/// A claim that may be rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The claim.
    pub claim: String,
    /// Its Node.
    pub node: String,
    /// When it was created.
    pub created: Time,
    /// When Karpenter expires it; `None` for never.
    pub deadline: Option<Time>,
    /// When it was triggered.
    pub triggered_at: Option<Time>,
}
