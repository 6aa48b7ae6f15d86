//! Workloads and their Pods: they start, are evicted under their PodDisruptionBudgets, and come back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{NodeAffinity, NodeSelectorRequirement},
    policy::v1::PodDisruptionBudget,
};
use serde_json::json;

use super::{
    fleet::WorkloadSpec,
    pool::{Due, PoolWorld},
    protection::Written,
    size::Size,
};
use crate::{
    api::{
        json, keys,
        pod::{Affinity, Pod as Object, PodStatus},
        shared::Shared,
        time::Time,
    },
    surge::{placeholder::claim_of, untolerated},
};

mod object;

pub(super) use object::agent;
use object::{status, template};

/// The namespace of the workloads.
pub(super) const NAMESPACE: &str = "default";

/// A workload at work.
#[derive(Clone)]
pub(super) struct Workload {
    pub spec: Arc<WorkloadSpec>,
    /// Its Pods that are Ready.
    pub ready: u32,
    pub pods: BTreeSet<u32>,
    /// A Pod of it, but for name, uid, node, volumes and status.
    pub template: Object,
    /// Of a StatefulSet the zone of each replica's volume, by ordinal; `None` for one that no Pod has used yet.
    pub volumes: Vec<Option<usize>>,
}

/// Whose Pod it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    Workload(usize),
    /// The placeholder of this name.
    Placeholder(String),
}

/// How far a Pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Starting,
    Ready,
    /// Evicted or deleted, and not gone yet.
    Ending,
}

/// A Pod, as the models see it.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub owner: Owner,
    pub request: Size,
    pub host: Option<u32>,
    pub phase: Phase,
    /// Which replica of a StatefulSet it is, and so which volume it has.
    pub ordinal: Option<u32>,
    /// When its kubelet took it.
    pub since: Option<Time>,
    /// What somebody wrote to its metadata.
    pub written: Option<Box<Written>>,
    /// What its Node must be, and rather be.
    pub affinity: Option<Shared<Affinity>>,
    /// Whether it tolerates the taints of the pool's Nodes.
    pub tolerates: bool,
}

impl Pod {
    fn node_affinity(&self) -> Option<&NodeAffinity> {
        self.affinity.as_ref()?.node_affinity.as_ref()
    }

    /// What its Node's labels must be.
    pub fn required(&self) -> impl Iterator<Item = &NodeSelectorRequirement> {
        let required = self.node_affinity().and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        required.into_iter().flat_map(|required| &required.node_selector_terms).flat_map(|term| term.match_expressions.iter().flatten())
    }

    /// Whether it would rather not have this host.
    pub fn avoids(&self, hostname: &str) -> bool {
        let preferred = self.node_affinity().and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
        let terms = preferred.into_iter().flatten().flat_map(|term| term.preference.match_expressions.iter().flatten());
        let mut hosts = terms.filter(|term| term.key == keys::HOSTNAME_LABEL && term.operator == "NotIn");
        hosts.any(|term| term.values.iter().flatten().any(|host| host == hostname))
    }
}

impl Workload {
    /// Pods that may be disrupted now; a budget that is overdrawn allows none.
    pub fn allowed(&self) -> u32 {
        match self.spec.max_unavailable {
            None => u32::MAX,
            Some(max) => (self.ready + max).saturating_sub(self.spec.replicas),
        }
    }

    fn is_budget_met(&self) -> bool {
        self.spec.max_unavailable.is_none_or(|max| self.ready + max >= self.spec.replicas)
    }

    /// Its budget as an object.
    pub fn budget(&self) -> Option<PodDisruptionBudget> {
        let max = self.spec.max_unavailable?;
        let status = json!({
            "disruptionsAllowed": self.allowed(), "currentHealthy": self.ready, "expectedPods": self.spec.replicas,
            "desiredHealthy": self.spec.replicas.saturating_sub(max), "observedGeneration": 1,
        });
        let object = json!({
            "metadata": {"name": self.spec.name, "namespace": NAMESPACE, "uid": format!("pdb-{}", self.spec.name), "generation": 1},
            "spec": {"maxUnavailable": max, "selector": {"matchLabels": {"app": self.spec.name}}},
            "status": status,
        });
        json::from_value(&object).ok()
    }
}

impl PoolWorld {
    /// Adds a workload whose Pods are Ready at once, as far as there is room.
    pub(super) fn add_workload(&mut self, spec: WorkloadSpec) {
        self.add_workload_on(spec, &[]);
    }

    /// The same; its first Pods are on these Nodes, full or not.
    pub(super) fn add_workload_on(&mut self, spec: WorkloadSpec, nodes: &[String]) {
        let index = self.workloads.len();
        let template = template(&self.name, &spec);
        let (replicas, sticky) = (spec.replicas, spec.sticky);
        self.workloads.push(Workload { spec: Arc::new(spec), ready: 0, pods: BTreeSet::new(), template, volumes: Vec::new() });
        self.down_by(i32::try_from(replicas).unwrap_or(i32::MAX));
        // Onto one host after another, as the scheduler's spreading would in the long run.
        let hosts: Vec<u32> = self.hosts.iter().map(|(id, _)| id).collect();
        let mut turn = hosts.iter().copied().cycle().skip(usize::try_from(self.next()).unwrap_or_default() % hosts.len().max(1));
        for pod in 0..replicas {
            let id = self.new_pod(index, sticky.then_some(pod));
            self.pending.retain(|pending| *pending != id);
            let given = nodes.get(pod as usize).and_then(|node| self.host_of.get(node).copied());
            let host = given.or_else(|| turn.by_ref().take(hosts.len()).find(|host| self.is_room_on(*host, id)));
            match host {
                Some(host) => {
                    self.bind(id, host);
                    self.pod_up(id);
                }
                None => self.pending.push(id),
            }
        }
        self.peak_before = 0;
        self.peak_outside = 0;
        self.peak_inside = 0;
        if !self.pending.is_empty() {
            self.ask_karpenter();
        }
    }

    /// A new Pod of a workload; of a StatefulSet the replica of this ordinal.
    pub(super) fn new_pod(&mut self, workload: usize, ordinal: Option<u32>) -> u32 {
        let request = self.workloads[workload].spec.request;
        if let Some(ordinal) = ordinal {
            self.workloads[workload].claim_volume(ordinal);
        }
        let pod = Pod {
            owner: Owner::Workload(workload),
            request: Size { pods: 1, ..request },
            host: None,
            phase: Phase::Pending,
            ordinal,
            since: None,
            written: None,
            affinity: None,
            tolerates: true,
        };
        let id = self.add_pod(pod);
        self.workloads[workload].pods.insert(id);
        id
    }

    pub(super) fn add_pod(&mut self, pod: Pod) -> u32 {
        // Ids only have to differ within a pool; serials grow by far less than this in any history.
        let id = u32::try_from(self.next()).unwrap_or(u32::MAX);
        self.pods.insert(id, pod);
        self.pending.push(id);
        self.look_for_room();
        id
    }

    /// Gives a Pod to a Node.
    pub(super) fn bind(&mut self, id: u32, host: u32) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let taken = self.hosts.change(host, |node| {
            node.used += pod.request;
            node.pods.insert(id);
            (node.node.clone(), node.zone)
        });
        let Some((node, zone)) = taken else { return };
        pod.host = Some(host);
        pod.phase = Phase::Starting;
        pod.since = Some(self.now);
        let ordinal = pod.ordinal;
        let owner = pod.owner.clone();
        match owner {
            Owner::Workload(workload) => {
                let spec = Arc::clone(&self.workloads[workload].spec);
                if let Some(ordinal) = ordinal {
                    self.workloads[workload].place_volume(ordinal, zone);
                }
                let delay = self.between(&spec.ready_after);
                self.after(delay, Due::PodUp(id));
            }
            Owner::Placeholder(name) => {
                self.with_placeholder(&name, |pod| pod.spec.get_or_insert_default().node_name = Some(node));
                let delay = self.between(&self.model.pause.clone());
                self.after(delay, Due::PodUp(id));
            }
        }
    }

    pub(super) fn pod_up(&mut self, id: u32) {
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.phase == Phase::Starting) else { return };
        let owner = pod.owner.clone();
        pod.phase = Phase::Ready;
        match owner {
            Owner::Workload(workload) => {
                self.workloads[workload].ready += 1;
                self.down_by(-1);
            }
            Owner::Placeholder(name) => {
                if self.one_in(self.model.one_in_refused) {
                    self.free(id);
                    let (reason, message) = ("OutOfcpu".to_owned(), "Node didn't have enough resource: cpu".to_owned());
                    let refused = PodStatus { reason: Some(reason), message: Some(message), ..status("Failed", None) };
                    self.with_placeholder(&name, |pod| pod.status = Some(refused));
                    return;
                }
                self.with_placeholder(&name, |pod| pod.status = Some(status("Running", Some("True"))));
            }
        }
    }

    pub(super) fn with_placeholder(&mut self, name: &str, change: impl FnOnce(&mut Object)) {
        let serial = self.next();
        if let Some(pod) = self.view.placeholders.get_mut(name) {
            change(pod);
            pod.metadata.resource_version = Some(serial.to_string());
            self.note_change();
        }
    }

    pub(super) fn is_of_workload(&self, id: u32) -> bool {
        self.pods.get(&id).is_some_and(|pod| matches!(pod.owner, Owner::Workload(_)))
    }

    /// Whether a Pod may be evicted now.
    pub(super) fn may_evict(&self, id: u32) -> bool {
        let Some(pod) = self.pods.get(&id) else { return false };
        match (&pod.owner, pod.phase) {
            (Owner::Placeholder(_), _) => true,
            (Owner::Workload(workload), Phase::Ready) => self.workloads[*workload].allowed() > 0,
            (Owner::Workload(workload), _) => self.workloads[*workload].is_budget_met(),
        }
    }

    /// Ends a Pod, with its grace or without.
    pub(super) fn end_pod(&mut self, id: u32, at_once: bool) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if pod.phase == Phase::Ending && !at_once {
            return;
        }
        let was = std::mem::replace(&mut pod.phase, Phase::Ending);
        match pod.owner.clone() {
            Owner::Placeholder(name) => {
                self.remove_placeholder(&name);
            }
            Owner::Workload(workload) => {
                let spec = Arc::clone(&self.workloads[workload].spec);
                if was == Phase::Ready {
                    self.workloads[workload].ready -= 1;
                    self.down_by(1);
                }
                if was != Phase::Ending && !spec.sticky {
                    self.new_pod(workload, None);
                    self.ask_karpenter();
                }
                if at_once {
                    self.pod_gone(id);
                } else {
                    self.after(spec.grace, Due::PodGone(id));
                }
            }
        }
    }

    /// Whether a Pod is Ready; `None` for one that is ending.
    pub(super) fn is_up(&self, id: u32) -> Option<bool> {
        let phase = self.pods.get(&id)?.phase;
        (phase != Phase::Ending).then_some(phase == Phase::Ready)
    }

    /// Ends a workload's Pod that nobody wants any more.
    pub(super) fn drop_pod(&mut self, id: u32) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let (was, owner) = (std::mem::replace(&mut pod.phase, Phase::Ending), pod.owner.clone());
        let Owner::Workload(workload) = owner else { return };
        if was == Phase::Ready {
            self.workloads[workload].ready -= 1;
        } else {
            self.down_by(-1);
        }
        let grace = self.workloads[workload].spec.grace;
        self.after(if was == Phase::Pending { 0 } else { grace }, Due::PodGone(id));
    }

    pub(super) fn pod_gone(&mut self, id: u32) {
        let Some(pod) = self.pods.get(&id) else { return };
        let (ordinal, owner) = (pod.ordinal, pod.owner.clone());
        self.free(id);
        self.pods.remove(&id);
        self.pending.retain(|pending| *pending != id);
        if let Owner::Workload(workload) = owner {
            self.workloads[workload].pods.remove(&id);
            let replicas = self.workloads[workload].spec.replicas;
            if let Some(ordinal) = ordinal.filter(|ordinal| *ordinal < replicas) {
                self.new_pod(workload, Some(ordinal));
                self.ask_karpenter();
            }
        }
    }

    /// Takes a Pod off its host.
    pub(super) fn free(&mut self, id: u32) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let Some(host) = pod.host.take() else { return };
        let request = pod.request;
        let freed = self.hosts.change(host, |node| {
            let is_there = node.pods.remove(&id);
            if is_there {
                node.used -= request;
            }
            is_there
        });
        if freed == Some(true) {
            self.look_for_room();
            self.emptied(host);
        }
    }

    /// A placeholder that was created: to be scheduled like any other Pod.
    pub(super) fn add_placeholder(&mut self, mut object: Shared<Object>) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let serial = self.next();
        object.metadata.uid = Some(format!("{}-pod-{serial}", self.name));
        object.metadata.resource_version = Some(serial.to_string());
        object.status = Some(status("Pending", None));
        let pod = Pod {
            owner: Owner::Placeholder(name.clone()),
            request: Size::requested_by(&object),
            host: None,
            phase: Phase::Pending,
            ordinal: None,
            since: None,
            written: None,
            affinity: object.spec.as_ref().and_then(|spec| spec.affinity.clone()),
            tolerates: untolerated(&self.spec.pool.spec.template.spec.taints, Some(&object)).is_none(),
        };
        self.view.placeholders.insert(name.clone(), object);
        let id = self.add_pod(pod);
        self.placeholders.insert(name, id);
        self.ask_karpenter();
        self.note_change();
    }

    /// Deletes a placeholder: it has no grace.
    pub(super) fn remove_placeholder(&mut self, name: &str) -> Option<Shared<Object>> {
        let object = self.view.placeholders.remove(name)?;
        if let Some(id) = self.placeholders.remove(name) {
            self.free(id);
            self.pods.remove(&id);
            self.pending.retain(|pending| *pending != id);
        }
        self.note_change();
        Some(object)
    }

    /// The claim whose placeholder has this name.
    pub fn placeholder_claim(&self, name: &str) -> Option<&str> {
        claim_of(self.view.placeholders.get(name)?)
    }

    /// The budgets of a namespace.
    pub(super) fn budgets(&self, namespace: &str) -> Vec<PodDisruptionBudget> {
        if namespace != NAMESPACE {
            return Vec::new();
        }
        self.workloads.iter().filter_map(Workload::budget).collect()
    }

    /// Ready Pods by workload, for those that watch budgets.
    pub fn ready_pods(&self) -> BTreeMap<String, (u32, u32)> {
        self.workloads.iter().map(|workload| (workload.spec.name.clone(), (workload.ready, workload.spec.replicas))).collect()
    }
}
