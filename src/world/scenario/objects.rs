//! A fleet as a cluster's objects describe it. What they don't say is filled in plausibly, and told.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::{
    Pool, Words,
    invent::{DAEMONS, INSTANCE, Numbers},
    is_ours,
};
use crate::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        keys,
        pod::Pod,
        shared::Shared,
        time::Time,
    },
    surge::pods::{is_completed, is_daemonset, is_mirror, is_placeholder, node_of},
    world::{
        fleet::{NodeSpec, PoolSpec},
        karpenter::capacity_for,
        size::Size,
    },
};

mod workloads;

/// Objects of a cluster. What is not ours to simulate is passed over.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// NodePools by name.
    pub pools: BTreeMap<String, Shared<NodePool>>,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Shared<NodeClaim>>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Shared<Node>>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// PodDisruptionBudgets; `None` where nobody said whether there are any.
    pub budgets: Option<Vec<PodDisruptionBudget>>,
    /// The Nodes whose Pods are known, where that is not all of them.
    pub sampled: Option<BTreeSet<String>>,
}

/// Lifetimes to try instead of those that the objects have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instead {
    /// `expireAfter`.
    pub expire_after: Option<String>,
    /// `terminationGracePeriod`.
    pub grace: Option<String>,
}

impl Objects {
    /// Whether there is nothing of a fleet in them.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
            && self.claims.is_empty()
            && !self.nodes.values().any(|node| node.metadata.label(keys::NODEPOOL_LABEL).is_some())
    }

    /// The pools, by name, and what had to be assumed.
    pub fn fleet(mut self, numbers: &Numbers, instead: &Instead, from: Time) -> (Vec<Pool>, Vec<String>) {
        let mut assumed = Vec::new();
        self.complete(&mut assumed);
        let instead = instead.clone();
        for spec in
            self.pools.values_mut().map(|pool| &mut pool.spec.template.spec).chain(self.claims.values_mut().map(|claim| &mut claim.spec))
        {
            spec.expire_after = instead.expire_after.clone().or(spec.expire_after.take());
            spec.termination_grace_period = instead.grace.clone().or(spec.termination_grace_period.take());
        }
        let is_bare = self.claims.is_empty();
        if is_bare {
            let count = numbers.nodes;
            assumed.push(format!("there is no NodeClaim in what was given: {count} nodes of all ages are assumed (--nodes)"));
        }
        if self.pods.is_empty() {
            let count = numbers.pods_per_node;
            assumed.push(format!("there is no Pod in what was given: {count} on each node are assumed (--pods-per-node)"));
        } else if self.budgets.is_none() {
            let most = numbers.max_unavailable;
            assumed.push(format!(
                "there is no PodDisruptionBudget in what was given: every workload is taken to let {most} of its Pods be down (--max-unavailable)"
            ));
        }
        if let Some(sampled) = &self.sampled {
            let (known, all) = (sampled.len(), self.claims.len());
            assumed.push(format!("the Pods of {known} of {all} nodes were read: the others are taken to be like them"));
        }
        let pods = self.pods_by_node();
        let share = numbers.nodes.div_ceil(self.pools.len().max(1));
        let names: Vec<String> = self.pools.keys().cloned().collect();
        let mut late = 0;
        let pools = names.iter().enumerate().filter_map(|(index, name)| {
            let mut pool = self.pool(name, &pods, numbers, from, &mut late)?;
            if is_bare {
                let capacity = pool.spec.instances.first().copied()?;
                pool.spec.nodes = numbers.nodes(&pool.spec.pool, (index, names.len()), share, capacity, pool.spec.zones.len(), from);
            }
            if self.pods.is_empty() {
                let capacity = pool.spec.instances.first().copied()?;
                pool.spec.workloads = numbers.workloads(name, pool.spec.nodes.len(), capacity, false);
            }
            Some(pool)
        });
        let pools = pools.collect();
        if late > 0 {
            let at = crate::api::time::to_annotation(from);
            assumed.push(format!("{late} NodeClaims have passed their deadline by {at} and are left out: --from takes an earlier time"));
        }
        (pools, assumed)
    }

    /// Makes the NodePools and NodeClaims that others name.
    fn complete(&mut self, assumed: &mut Vec<String>) {
        if self.claims.is_empty() {
            let of_pools = self.nodes.values().filter(|node| node.metadata.label(keys::NODEPOOL_LABEL).is_some());
            let claims: BTreeMap<String, Shared<NodeClaim>> =
                of_pools.map(|node| (node.metadata.name.clone(), self.claim_of(node).into())).collect();
            if !claims.is_empty() {
                assumed.push("there is no NodeClaim in what was given: they are taken to be as old as their Nodes, and to expire as their NodePool says".into());
            }
            self.claims = claims;
        }
        let named: BTreeSet<String> = self.claims.values().filter_map(|claim| claim.pool().map(str::to_owned)).collect();
        for name in named.into_iter().filter(|name| !self.pools.contains_key(name)).collect::<Vec<_>>() {
            let mut pool = NodePool::default();
            pool.metadata.name.clone_from(&name);
            if let Some(claim) = self.claims.values().find(|claim| claim.pool() == Some(&name)) {
                pool.spec.template.spec = claim.spec.clone();
            }
            assumed.push(format!(
                "there is no NodePool {name} in what was given: it is taken to be like its NodeClaims, without labels and limits"
            ));
            self.pools.insert(name, pool.into());
        }
    }

    fn claim_of(&self, node: &Node) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.name.clone_from(&node.metadata.name);
        claim.metadata.creation_timestamp = node.metadata.creation_timestamp;
        claim.metadata.labels.clone_from(&node.metadata.labels);
        claim.status.node_name = Some(node.metadata.name.clone());
        if let Some(pool) = claim.pool().and_then(|pool| self.pools.get(pool)) {
            claim.spec = pool.spec.template.spec.clone();
        }
        claim
    }

    /// The Pods that are to be moved, and those of DaemonSets, by Node.
    fn pods_by_node(&self) -> BTreeMap<&str, Vec<&Pod>> {
        let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| !is_completed(pod) && !is_mirror(pod) && !is_placeholder(pod)) {
            if let Some(node) = node_of(pod) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        by_node
    }

    fn pool(&self, name: &str, pods: &BTreeMap<&str, Vec<&Pod>>, numbers: &Numbers, from: Time, late: &mut usize) -> Option<Pool> {
        let mut pool = self.pools.get(name)?.clone();
        pool.metadata.annotations.retain(|key, _| !is_ours(key));
        let all: Vec<&NodeClaim> = self.claims.values().map(Deref::deref).filter(|claim| claim.pool() == Some(name)).collect();
        let claims: Vec<&NodeClaim> = all.iter().copied().filter(|claim| claim.deadline().is_none_or(|deadline| deadline > from)).collect();
        *late += all.len() - claims.len();
        let zones = self.zones(&claims);
        let nodes: Vec<NodeSpec> = claims.iter().map(|claim| self.node(claim, &zones)).collect();
        let mut instances: Vec<Size> = nodes.iter().map(|node| node.capacity).collect();
        instances.sort_unstable_by_key(|size| (size.cpu, size.memory));
        instances.dedup();
        if instances.is_empty() {
            instances.push(Size::instance(INSTANCE.0, INSTANCE.1));
        }
        let daemons = nodes.iter().filter_map(|node| pods.get(node.node.as_str())).map(|pods| daemons(pods));
        let daemons = daemons.max_by_key(|size| (size.cpu, size.memory)).unwrap_or(DAEMONS);
        let words = claims.iter().map(|claim| self.words(claim)).collect();
        let placed = self.workloads(&nodes, pods, numbers);
        let spec = PoolSpec { pool, instances, zones, daemons, nodes, workloads: Vec::new() };
        Some(Pool { spec, placed, words })
    }

    fn zones(&self, claims: &[&NodeClaim]) -> Vec<String> {
        let zones: BTreeSet<String> = claims.iter().filter_map(|claim| self.zone(claim)).collect();
        if zones.is_empty() { vec!["zone-a".into()] } else { zones.into_iter().collect() }
    }

    fn zone(&self, claim: &NodeClaim) -> Option<String> {
        let on_claim = claim.metadata.label(keys::ZONE_LABEL);
        let on_node = claim.node().and_then(|node| self.nodes.get(node)).and_then(|node| node.metadata.label(keys::ZONE_LABEL));
        on_claim.or(on_node).map(str::to_owned)
    }

    fn node(&self, claim: &NodeClaim, zones: &[String]) -> NodeSpec {
        let node = claim.node().unwrap_or(&claim.metadata.name).to_owned();
        let usable = Size::of_raw(&claim.status.allocatable);
        let reported = self.nodes.get(&node).map(|node| Size::of_raw(&node.status.allocatable)).unwrap_or_default();
        let usable = if usable.cpu > 0 { usable } else { reported };
        let mut capacity = Size::of_raw(&claim.status.capacity);
        if usable.cpu > 0 {
            // What Pods may use counts more than what the provider says that the instance has.
            let least = capacity_for(usable);
            capacity = Size { cpu: capacity.cpu.max(least.cpu), memory: capacity.memory.max(least.memory), pods: least.pods };
        }
        if capacity.cpu <= 0 || capacity.memory <= 0 {
            capacity = Size::instance(INSTANCE.0, INSTANCE.1);
        }
        if capacity.pods == 0 {
            capacity.pods = Size::instance(1, 1).pods;
        }
        let zone = self.zone(claim).and_then(|zone| zones.iter().position(|known| *known == zone)).unwrap_or_default();
        NodeSpec {
            claim: claim.metadata.name.clone(),
            node,
            created: claim.metadata.creation_timestamp.unwrap_or_default(),
            expire_after: claim.spec.expire_after.clone(),
            grace: claim.spec.termination_grace_period.clone(),
            capacity,
            zone,
        }
    }

    /// What operators wrote there; what passes did is forgotten: the forecast begins with no rotation in flight.
    fn words(&self, claim: &NodeClaim) -> Words {
        let node = claim.node().and_then(|node| self.nodes.get(node));
        let meta = node.map(|node| node.metadata.clone()).unwrap_or_default();
        let is_frozen_by_us = meta.annotations.contains_key(keys::DO_NOT_DISRUPT_OWNED);
        let is_from_pass = |key: &str| is_ours(key) || (is_frozen_by_us && key == keys::DO_NOT_DISRUPT);
        let mut on_claim = (*claim.metadata.annotations).clone();
        on_claim.retain(|key, _| !is_from_pass(key));
        let cordoned = node.is_some_and(|node| node.spec.unschedulable) && !meta.annotations.contains_key(keys::CORDONED);
        let mut on_node = (*meta.annotations).clone();
        on_node.retain(|key, _| !is_from_pass(key));
        let deleting = claim.metadata.is_deleting();
        Words { claim: claim.metadata.name.clone(), on_claim, on_node, cordoned, deleting }
    }
}

fn daemons(pods: &[&Pod]) -> Size {
    pods.iter().filter(|pod| is_daemonset(pod)).fold(Size::default(), |sum, pod| sum + Size::requested_by(pod))
}
