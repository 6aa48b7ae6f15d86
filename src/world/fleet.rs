//! What a world begins with: NodePools with the nodes and workloads in them, and how long things take there.

use std::ops::RangeInclusive;

use chrono::TimeDelta;

use super::size::Size;
use crate::api::{karpenter::NodePool, shared::Shared, time::Time};

/// One NodePool with all that is in it. Pools share nothing but the policies, so each is a small world of its own.
#[derive(Debug, Clone)]
pub struct PoolSpec {
    /// The object.
    pub pool: Shared<NodePool>,
    /// The instances that Karpenter may launch for it, smallest first.
    pub instances: Vec<Size>,
    /// Its zones; never empty.
    pub zones: Vec<String>,
    /// What the DaemonSets take on each node.
    pub daemons: Size,
    /// The nodes it has.
    pub nodes: Vec<NodeSpec>,
    /// The workloads whose Pods run there.
    pub workloads: Vec<WorkloadSpec>,
}

/// A node that is there at the beginning, Ready.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// The NodeClaim's name.
    pub claim: String,
    /// The Node's name.
    pub node: String,
    /// When it was created.
    pub created: Time,
    /// The NodeClaim's own `expireAfter`.
    pub expire_after: Option<String>,
    /// The NodeClaim's own `terminationGracePeriod`.
    pub grace: Option<String>,
    /// What the instance has.
    pub capacity: Size,
    /// Which of the pool's zones.
    pub zone: usize,
}

/// A Deployment or a StatefulSet.
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// Its name; its namespace is `default`.
    pub name: String,
    /// How many Pods it wants.
    pub replicas: u32,
    /// What each requests.
    pub request: Size,
    /// How long a Pod takes until it is Ready, in seconds.
    pub ready_after: RangeInclusive<i64>,
    /// How long a Pod takes to end, in seconds.
    pub grace: i64,
    /// `maxUnavailable` of its PodDisruptionBudget; `None` for no budget.
    pub max_unavailable: Option<u32>,
    /// A StatefulSet with zonal volumes: a Pod comes back, by the same name, only once the old one is gone, and only in the zone
    /// of its volume.
    pub sticky: bool,
}

/// How long things take and what goes wrong, by the world's seed.
#[derive(Debug, Clone)]
pub struct Model {
    /// Seconds that Karpenter gathers Pods before it launches.
    pub batch: i64,
    /// Seconds from a NodeClaim to its instance.
    pub launch: RangeInclusive<i64>,
    /// Seconds from the instance to its Node.
    pub register: RangeInclusive<i64>,
    /// Seconds from the Node to a Ready one.
    pub initialize: RangeInclusive<i64>,
    /// Seconds until a placeholder runs, once bound.
    pub pause: RangeInclusive<i64>,
    /// Seconds from the end of the drain to the end of the instance.
    pub terminate: RangeInclusive<i64>,
    /// Every drain takes at least this long, in seconds: a what-if.
    pub drain: i64,
    /// Seconds that a node has to be empty before Karpenter removes it; `None` for never.
    pub consolidate_after: Option<i64>,
    /// When no instance is to be had: `[from, to)`.
    pub no_capacity: Vec<(Time, Time)>,
    /// One in so many Nodes registers and never becomes Ready; 0 for none.
    pub one_in_never_ready: u32,
    /// A kubelet refuses one in so many placeholders; 0 for none.
    pub one_in_refused: u32,
    /// From when on no Node and no kubelet fails any more; `None` for never.
    pub sound_from: Option<Time>,
}

impl Default for Model {
    /// An ordinary cloud on an ordinary day.
    fn default() -> Self {
        Self {
            batch: 2,
            launch: 2..=8,
            register: 20..=50,
            initialize: 5..=20,
            pause: 1..=4,
            terminate: 10..=40,
            drain: 0,
            consolidate_after: Some(60),
            no_capacity: Vec::new(),
            one_in_never_ready: 0,
            one_in_refused: 0,
            sound_from: None,
        }
    }
}

/// Seconds as a span.
pub(super) fn seconds(count: i64) -> TimeDelta {
    TimeDelta::seconds(count)
}
