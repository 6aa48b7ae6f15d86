//! An operator at work on the world's objects: what people, and their tools, do beside the passes.

use std::{collections::BTreeMap, sync::Arc};

use super::pool::PoolWorld;
use crate::{
    api::karpenter::Node,
    policy::Policy,
    rotation::effect::{Kind, Patch, Target},
};

impl PoolWorld {
    /// Sets (`Some`) or removes (`None`) an annotation of the NodePool, a NodeClaim or a Node, as `kubectl annotate` does.
    pub fn annotate(&mut self, kind: Kind, name: &str, key: &str, value: Option<&str>) {
        let target = Target { kind, namespace: String::new(), name: name.into() };
        let patch = Patch::default();
        let patch = match value {
            Some(value) => patch.set(key.to_owned(), value),
            None => patch.clear(key.to_owned()),
        };
        self.patch(&target, &patch);
    }

    /// Cordons or uncordons a Node.
    pub fn cordon(&mut self, node: &str, cordoned: bool) {
        self.with_node(node, |node| node.spec.unschedulable = cordoned);
    }

    /// Replaces all policies.
    pub fn govern(&mut self, policies: &BTreeMap<String, Policy>) {
        self.view.policies = policies.clone();
        self.note_change();
    }

    /// Changes how many Pods of a workload its PodDisruptionBudget lets be away.
    pub fn allow(&mut self, workload: &str, away: u32) {
        let Some(workload) = self.workloads.iter_mut().find(|known| known.spec.name == workload) else { return };
        Arc::make_mut(&mut workload.spec).max_unavailable = Some(away);
        self.note_change();
    }

    /// Scales a workload. Pods too many end in their grace: those that are not Ready first, then the youngest.
    pub fn scale(&mut self, workload: &str, replicas: u32) {
        let Some(index) = self.workloads.iter().position(|known| known.spec.name == workload) else { return };
        let before = self.workloads[index].spec.replicas;
        Arc::make_mut(&mut self.workloads[index].spec).replicas = replicas;
        for _ in before..replicas {
            self.down_by(1);
            self.new_pod(index, None);
        }
        let mut pods: Vec<(bool, u32)> = self.workloads[index].pods.iter().filter_map(|id| Some((self.is_up(*id)?, *id))).collect();
        pods.sort_unstable_by_key(|(up, id)| (*up, std::cmp::Reverse(*id)));
        for (_, id) in pods.into_iter().take(before.saturating_sub(replicas) as usize) {
            self.drop_pod(id);
        }
        self.ask_karpenter();
        self.note_change();
    }

    /// Deletes the placeholders, as `kubectl delete pod` does.
    pub fn delete_placeholders(&mut self) {
        let names: Vec<String> = self.view.placeholders.keys().cloned().collect();
        for name in names {
            self.remove_placeholder(&name);
        }
    }

    /// Deletes a workload's Pod on this Node, where there is one: its controller makes another.
    pub fn delete_pod_on(&mut self, node: &str) {
        let host = self.host_of.get(node).and_then(|id| self.hosts.get(*id));
        let pod = host.and_then(|host| host.pods.iter().copied().find(|pod| self.is_of_workload(*pod)));
        if let Some(pod) = pod {
            self.end_pod(pod, false);
            self.note_change();
        }
    }

    /// The Nodes, by name.
    pub fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// Pods of workloads on a claim's Node.
    pub fn workload_pods_on(&self, claim: &str) -> usize {
        let host = self.host_of.get(claim).and_then(|id| self.hosts.get(*id));
        host.map_or(0, |host| host.pods.iter().filter(|pod| self.is_of_workload(**pod)).count())
    }
}
