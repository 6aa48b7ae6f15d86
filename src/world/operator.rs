//! An operator at work on the world's objects: what people, and their tools, do beside the passes.

use std::{collections::BTreeMap, sync::Arc};

use super::pool::PoolWorld;
use crate::{
    api::{karpenter::Node, shared::Shared},
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
        self.patch(&target, patch);
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

    /// Scales a workload. Of a Deployment, Pods too many end in their grace: those that are not Ready first, then the youngest;
    /// of a StatefulSet, those of the highest ordinals, whose volumes stay.
    pub fn scale(&mut self, workload: &str, replicas: u32) {
        let Some(index) = self.workloads.iter().position(|known| known.spec.name == workload) else { return };
        let spec = Arc::make_mut(&mut self.workloads[index].spec);
        let before = std::mem::replace(&mut spec.replicas, replicas);
        if spec.sticky {
            self.scale_set(index, before, replicas)
        } else {
            self.scale_deployment(index, before, replicas)
        }
        self.ask_karpenter();
        self.note_change();
    }

    fn scale_deployment(&mut self, index: usize, before: u32, replicas: u32) {
        for _ in before..replicas {
            self.down_by(1);
            self.new_pod(index, None);
        }
        let mut pods: Vec<(bool, u32)> = self.workloads[index].pods.iter().filter_map(|id| Some((self.is_up(*id)?, *id))).collect();
        pods.sort_unstable_by_key(|(up, id)| (*up, std::cmp::Reverse(*id)));
        for (_, id) in pods.into_iter().take(before.saturating_sub(replicas) as usize) {
            self.drop_pod(id);
        }
    }

    fn scale_set(&mut self, index: usize, before: u32, replicas: u32) {
        let pods = self.workloads[index].pods.iter();
        let pods: BTreeMap<u32, u32> = pods.filter_map(|id| Some((self.pods.get(id)?.ordinal?, *id))).collect();
        for ordinal in before..replicas {
            self.down_by(1);
            // One of this name that is still ending makes room first.
            if !pods.contains_key(&ordinal) {
                self.new_pod(index, Some(ordinal));
            }
        }
        for id in (replicas..before).rev().filter_map(|ordinal| pods.get(&ordinal)) {
            match self.is_up(*id) {
                Some(_) => self.drop_pod(*id),
                // Its successor is wanted no more.
                None => self.down_by(-1),
            }
        }
    }

    /// Sets (`Some`) or removes (`None`) an annotation of a workload's Pod on this Node, where there is one.
    pub fn annotate_pod_on(&mut self, node: &str, key: &str, value: Option<&str>) {
        let Some(id) = self.pod_on(node) else { return };
        self.annotate_pod(id, key, value);
    }

    /// Removes an annotation from all Pods of workloads.
    pub fn clear_pods_of(&mut self, key: &str) {
        let written = |id: &&u32| self.pods.get(id).is_some_and(|pod| pod.written.is_some());
        let mut pods: Vec<u32> = self.pods.keys().filter(written).copied().collect();
        pods.sort_unstable();
        for id in pods {
            self.annotate_pod(id, key, None);
        }
    }

    fn annotate_pod(&mut self, id: u32, key: &str, value: Option<&str>) {
        let Some(mut written) = self.written(id) else { return };
        match value {
            Some(value) => drop(written.annotations.insert(key.into(), value.into())),
            None => drop(written.annotations.remove(key)),
        }
        self.write_pod(id, written);
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
        if let Some(pod) = self.pod_on(node) {
            self.end_pod(pod, false);
            self.note_change();
        }
    }

    /// The first of the workloads' Pods on a Node.
    fn pod_on(&self, node: &str) -> Option<u32> {
        let host = self.host_of.get(node).and_then(|id| self.hosts.get(*id))?;
        host.pods.iter().copied().find(|pod| self.is_of_workload(*pod))
    }

    /// The Nodes, by name.
    pub fn nodes(&self) -> &BTreeMap<String, Shared<Node>> {
        &self.nodes
    }

    /// Pods of workloads on a claim's Node.
    pub fn workload_pods_on(&self, claim: &str) -> usize {
        let host = self.host_of.get(claim).and_then(|id| self.hosts.get(*id));
        host.map_or(0, |host| host.pods.iter().filter(|pod| self.is_of_workload(**pod)).count())
    }
}
