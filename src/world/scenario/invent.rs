//! Fleets that nobody has: plausible pools, nodes and workloads, from a few numbers.

use chrono::TimeDelta;
use serde_json::json;

use super::Pool;
use crate::{
    api::{
        karpenter::NodePool,
        time::{Time, later},
    },
    world::{
        fleet::{NodeSpec, PoolSpec, WorkloadSpec},
        size::Size,
    },
};

/// What fleets are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    /// Nodes in all pools together.
    pub nodes: usize,
    /// Pools.
    pub pools: usize,
    /// `expireAfter`, as Karpenter takes it.
    pub expire_after: String,
    /// `terminationGracePeriod`, as Karpenter takes it; `None` for unset.
    pub grace: Option<String>,
    /// Pods on a node.
    pub pods_per_node: u32,
    /// `maxUnavailable` of each workload's budget.
    pub max_unavailable: u32,
}

impl Default for Numbers {
    /// An ordinary cluster: four pools as EKS Auto Mode sets them up.
    fn default() -> Self {
        Self { nodes: 56, pools: 4, expire_after: "336h".into(), grace: Some("1h".into()), pods_per_node: 8, max_unavailable: 1 }
    }
}

/// Names of the first pools.
const NAMES: [&str; 4] = ["api", "data", "jobs", "web"];
/// The pool whose Pods are a StatefulSet's.
const STATEFUL: &str = "data";
/// Workloads are about so large.
const REPLICAS: u32 = 14;
/// What an instance has where nobody says.
pub const INSTANCE: (i64, i64) = (8, 32);
/// What DaemonSets take on each node.
pub const DAEMONS: Size = Size { cpu: 200, memory: 512, pods: 4 };

impl Numbers {
    /// The pools, by name.
    pub fn fleet(&self, from: Time) -> Vec<Pool> {
        let share = |index: usize| self.nodes / self.pools + usize::from(index < self.nodes % self.pools);
        let mut pools: Vec<Pool> = (0..self.pools).map(|index| self.pool(index, share(index), from)).collect();
        pools.sort_by(|one, other| one.spec.pool.metadata.name.cmp(&other.spec.pool.metadata.name));
        pools
    }

    fn pool(&self, index: usize, nodes: usize, from: Time) -> Pool {
        let name = &name(index);
        let object = json!({
            "metadata": {"name": name, "labels": {"workload": name}},
            "spec": {"template": {"spec": {"expireAfter": self.expire_after, "terminationGracePeriod": self.grace}}},
        });
        let pool: NodePool = serde_json::from_value(object).unwrap_or_default();
        let capacity = Size::instance(INSTANCE.0, INSTANCE.1);
        let zones: Vec<String> = ["zone-a", "zone-b", "zone-c"].map(str::to_owned).into();
        let nodes = self.nodes(&pool, (index, self.pools), nodes, capacity, zones.len(), from);
        let workloads = self.workloads(name, nodes.len(), capacity, name == STATEFUL);
        let spec = PoolSpec { pool: pool.into(), instances: vec![capacity], zones, daemons: DAEMONS, nodes, workloads };
        Pool { spec, placed: Vec::new(), words: Vec::new() }
    }

    /// Nodes of a pool, the so-maniest of so many, of all ages: as many in each part of their lifetime.
    pub fn nodes(
        &self,
        pool: &NodePool,
        (place, of): (usize, usize),
        count: usize,
        capacity: Size,
        zones: usize,
        from: Time,
    ) -> Vec<NodeSpec> {
        let template = &pool.spec.template.spec;
        let lifetime = template.expire_after().unwrap_or(TimeDelta::days(14)).num_seconds();
        let name = &pool.metadata.name;
        let parts = whole(count.max(1)).saturating_mul(whole(of.max(1)));
        (0..count)
            .map(|index| {
                // Pools take turns, so that not all of them lose a node at the same moment.
                let part = whole(index * of + place);
                let age = lifetime.saturating_mul(2 * part + 1) / (2 * parts);
                NodeSpec {
                    claim: format!("{name}-{index:03}"),
                    node: format!("ip-{name}-{index:03}"),
                    created: later(from, -TimeDelta::seconds(age)),
                    expire_after: template.expire_after.clone(),
                    grace: template.termination_grace_period.clone(),
                    capacity,
                    zone: index % zones.max(1),
                }
            })
            .collect()
    }

    /// Workloads that fill these nodes to four fifths.
    pub fn workloads(&self, pool: &str, nodes: usize, capacity: Size, sticky: bool) -> Vec<WorkloadSpec> {
        let pods = self.pods_per_node.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX));
        if pods == 0 {
            return Vec::new();
        }
        let per_node = i64::from(self.pods_per_node);
        let room = |whole: i64, daemons: i64| (whole * 14 / 15 - daemons).max(0) * 4 / 5 / per_node;
        let request = Size::pod(room(capacity.cpu, DAEMONS.cpu), room(capacity.memory, DAEMONS.memory));
        let count = pods.div_ceil(REPLICAS);
        let workload = |index: u32| WorkloadSpec {
            name: format!("{pool}-{}", index + 1),
            replicas: pods / count + u32::from(index < pods % count),
            request,
            ready_after: if sticky { 30..=90 } else { 10..=40 },
            grace: if sticky { 20 } else { 10 },
            max_unavailable: Some(self.max_unavailable),
            sticky,
        };
        (0..count).map(workload).collect()
    }
}

fn name(index: usize) -> String {
    NAMES.get(index).map_or_else(|| format!("pool-{:02}", index + 1), |name| (*name).to_owned())
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
