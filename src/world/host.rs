//! What the models know of one NodeClaim and its Node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::size::Size;
use crate::api::time::Time;

/// Labels of a NodeClaim and its Node.
pub(super) type Labels = Arc<BTreeMap<String, String>>;

/// How far an instance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Karpenter has made the NodeClaim.
    Claimed,
    /// The instance is there.
    Launched,
    /// Its Node is.
    Registered,
    /// Its Node is Ready.
    Ready,
}

/// A NodeClaim and the Node it becomes.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub claim: String,
    pub node: String,
    pub labels: Labels,
    pub zone: usize,
    pub capacity: Size,
    /// What Pods may use beside the DaemonSets.
    pub room: Size,
    pub used: Size,
    pub stage: Stage,
    pub cordoned: bool,
    pub deleting: Option<Time>,
    /// Nothing keeps the instance any more: its end is on its way.
    pub ending: bool,
    /// Pods whose eviction their budgets refused: how often, and when it is tried again.
    pub refused: BTreeMap<u32, (usize, Time)>,
    pub pods: BTreeSet<u32>,
}

impl Host {
    /// What is left.
    pub fn free(&self) -> Size {
        self.room - self.used
    }

    /// Whether the scheduler may use it.
    pub fn takes_pods(&self) -> bool {
        self.stage == Stage::Ready && !self.cordoned && self.deleting.is_none()
    }
}
