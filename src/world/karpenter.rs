//! Karpenter: brings nodes for Pods that find none, drains and ends those that are deleted, expires them at their deadline
//! and removes empty ones.

use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;

use super::{
    fleet::{NodeSpec, seconds},
    history::Event,
    host::{Host, Labels, Stage},
    pods::{Owner, Phase, Pod},
    pool::{Due, PoolWorld},
    scheduler::may_run,
    size::Size,
};
use crate::api::{
    karpenter::{Condition, Node, NodeClaim, NodeSpec as ObjectSpec, NodeStatus},
    keys,
    meta::Meta,
    shared::Shared,
    time::{Time, later},
};

/// What the system keeps of an instance: a fifteenth of its memory and 80 thousandths of a cpu.
fn allocatable(capacity: Size) -> Size {
    Size { cpu: capacity.cpu - 80, memory: capacity.memory - capacity.memory / 15, pods: capacity.pods }
}

/// An instance of which Pods may use this much.
pub(super) fn capacity_for(usable: Size) -> Size {
    Size { cpu: usable.cpu + 80, memory: usable.memory + usable.memory / 14 + 1, pods: usable.pods }
}

/// Pods are forced from this long before the end of the terminationGracePeriod on: their own default grace.
const FORCED_BEFORE: TimeDelta = TimeDelta::seconds(30);
/// Seconds for which a provider takes an offering that was not to be had for unavailable, and Karpenter plans nothing on it.
const UNAVAILABLE: i64 = 180;
/// Seconds that a drain takes at least (Karpenter's `MinDrainTime`).
const DRAIN: i64 = 5;
/// Seconds between one refused eviction of a Pod and its next, and from then on. Karpenter begins with a tenth of a second,
/// doubles it each time, and has no more than these ten; here they are counted in whole seconds from the first.
const EVICTIONS: [i64; 5] = [1, 1, 1, 3, 7];
const EVICTION: i64 = 10;

/// A NodeClaim's conditions, each with the stage from which on it holds.
const STAGES: [(&str, Stage); 4] =
    [("Launched", Stage::Launched), ("Registered", Stage::Registered), ("Initialized", Stage::Ready), ("Ready", Stage::Ready)];

/// Sets one condition of a list.
fn set(conditions: &mut Vec<Condition>, kind: &str, status: &str, since: Option<Time>) {
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(condition) => (condition.status, condition.last_transition_time) = (status.into(), since),
        None => {
            conditions.push(Condition { kind: kind.into(), status: status.into(), last_transition_time: since, ..Condition::default() });
        }
    }
}

/// A node that Karpenter is about to launch.
struct Planned {
    sum: Size,
    zone: Option<usize>,
}

impl PoolWorld {
    /// A node that is there at the beginning.
    pub(super) fn add_node(&mut self, spec: NodeSpec) {
        let id = self.claim(spec.claim, spec.node, spec.capacity, spec.zone, Some((spec.created, spec.expire_after, spec.grace)));
        let now = std::mem::replace(&mut self.now, spec.created);
        self.stage(id, Stage::Ready);
        self.now = now;
    }

    fn claim(
        &mut self,
        claim: String,
        node: String,
        capacity: Size,
        zone: usize,
        lived: Option<(Time, Option<String>, Option<String>)>,
    ) -> u32 {
        let id = u32::try_from(self.next()).unwrap_or(u32::MAX);
        let template = &self.spec.pool.spec.template;
        let mut labels: Labels = template.metadata.labels.clone();
        let zone_name = self.spec.zones.get(zone).cloned().unwrap_or_default();
        for (key, value) in [
            (keys::NODEPOOL_LABEL, self.name.as_str()),
            (keys::HOSTNAME_LABEL, &node),
            (keys::ZONE_LABEL, &zone_name),
            ("kubernetes.io/arch", "amd64"),
            ("karpenter.sh/capacity-type", "on-demand"),
        ] {
            labels.insert(key.into(), value.into());
        }
        let mut spec = template.spec.clone();
        let mut metadata = Meta { name: claim.clone(), labels: labels.clone(), ..Meta::default() };
        if let Some((created, expire_after, grace)) = lived {
            metadata.creation_timestamp = Some(created);
            spec.expire_after = expire_after;
            spec.termination_grace_period = grace;
        }
        self.stamp(&mut metadata);
        let status = Shared::default();
        let object = NodeClaim { metadata, spec, status };
        if let Some(deadline) = object.deadline() {
            self.at(deadline, Due::Expire(id));
        }
        self.memory.changed(&claim);
        self.view.claims.insert(claim.clone(), object.into());
        self.host_of.insert(claim.clone(), id);
        self.host_of.insert(node.clone(), id);
        let room = allocatable(capacity) - self.spec.daemons;
        self.hosts.insert(
            id,
            Host {
                claim,
                node,
                labels,
                zone,
                capacity,
                room,
                used: Size::default(),
                stage: Stage::Claimed,
                cordoned: false,
                deleting: None,
                ending: false,
                refused: BTreeMap::new(),
                pods: std::collections::BTreeSet::new(),
            },
        );
        self.refresh_resources();
        self.note_change();
        id
    }

    /// Brings the claim, its Node and the model to this stage.
    fn stage(&mut self, id: u32, stage: Stage) {
        let Some(host) = self.hosts.advance(id, stage) else { return };
        let (claim, node, labels) = (host.claim.clone(), host.node.clone(), host.labels.clone());
        let capacity = host.capacity;
        let serial = self.next();
        let now = self.now;
        let (whole, usable) = (self.lists.of(capacity), self.lists.of(allocatable(capacity)));
        self.memory.changed(&claim);
        if let Some(claim) = self.view.claims.get_mut(&claim) {
            let status = &mut *claim.status;
            for (kind, from) in STAGES {
                set(&mut status.conditions, kind, if stage >= from { "True" } else { "Unknown" }, Some(now));
            }
            status.node_name = (stage >= Stage::Registered).then(|| node.clone());
            if status.capacity.is_empty() {
                (status.capacity, status.allocatable) = (whole, usable.clone());
            }
            claim.metadata.resource_version = serial.to_string();
        }
        if stage >= Stage::Registered {
            let nodes = Arc::make_mut(&mut self.nodes);
            let node = nodes.entry(node).or_insert_with_key(|name| {
                let metadata = Meta {
                    name: name.clone(),
                    uid: format!("{}-node-{id}", self.name),
                    creation_timestamp: Some(now),
                    labels,
                    annotations: self.spec.pool.spec.template.metadata.annotations.clone(),
                    ..Meta::default()
                };
                let spec = ObjectSpec { unschedulable: false, taints: self.spec.pool.spec.template.spec.taints.clone() };
                Node { metadata, spec, status: NodeStatus { allocatable: usable, conditions: Vec::new() }.into() }.into()
            });
            let ready = if stage == Stage::Ready { "True" } else { "False" };
            set(&mut node.status.conditions, "Ready", ready, None);
            node.metadata.resource_version = serial.to_string();
        }
        self.look_for_room();
        self.note_change();
    }

    /// Somebody waits for a node, or will: Karpenter looks at it in a moment.
    pub(super) fn ask_karpenter(&mut self) {
        if !std::mem::replace(&mut self.provisioning, true) {
            self.after(self.model.batch, Due::Provision);
        }
    }

    /// Plans for pending Pods and for those of nodes that are going, knowing nothing of preemption; what finds no room on
    /// a node that stays, or comes, gets a new one.
    pub(super) fn provision(&mut self) {
        self.provisioning = false;
        if self.unavailable_until.is_some_and(|until| self.now < until) {
            return;
        }
        let leaving = self.hosts.leaving().flat_map(|host| host.pods.iter().copied());
        let leaving = leaving.filter(|id| self.is_rescheduled(*id));
        let wanted: Vec<u32> = self.pending.iter().copied().chain(leaving).collect();
        let mut taken: BTreeMap<u32, Size> = BTreeMap::new();
        let mut planned: Vec<Planned> = Vec::new();
        let largest = self.spec.instances.last().map(|size| allocatable(*size) - self.spec.daemons).unwrap_or_default();
        for id in wanted {
            let Some(pod) = self.pods.get(&id).filter(|pod| pod.tolerates) else { continue };
            let volume = self.zone_of(pod);
            let fitting = self.hosts.open(pod.request.cpu).filter(|(id, host)| {
                let room = || host.free() - taken.get(id).copied().unwrap_or_default();
                pod.request.fits(room()) && !pod.avoids(&host.node) && may_run(pod, volume, host)
            });
            // The oldest.
            if let Some(host) = fitting.map(|(host, _)| host).min() {
                *taken.entry(host).or_default() += pod.request;
                continue;
            }
            let zone = volume.or_else(|| self.zone_by_term(pod));
            // Where nothing was to be had, one stands for all that would fail alike.
            let is_enough = self.unavailable_until.is_some() && !planned.is_empty();
            let same = planned
                .iter_mut()
                .find(|new| (new.sum + pod.request).fits(largest) && (zone.is_none() || new.zone.is_none() || new.zone == zone));
            match same {
                Some(new) => {
                    new.sum += pod.request;
                    new.zone = new.zone.or(zone);
                }
                None if is_enough => break,
                None if pod.request.fits(largest) => planned.push(Planned { sum: pod.request, zone }),
                None => {}
            }
        }
        for new in planned {
            self.launch(&new);
        }
    }

    /// The zone that a Pod asks for.
    fn zone_by_term(&self, pod: &Pod) -> Option<usize> {
        let term = pod.required().find(|term| term.key == keys::ZONE_LABEL && term.operator == "In")?;
        let zone = term.values.as_ref()?.first()?;
        self.spec.zones.iter().position(|known| known == zone)
    }

    fn launch(&mut self, new: &Planned) {
        let daemons = self.spec.daemons;
        let fitting = self.spec.instances.iter().copied().find(|size| new.sum.fits(allocatable(*size) - daemons) && self.is_allowed(*size));
        let Some(capacity) = fitting else { return };
        let zone = match new.zone {
            Some(zone) => zone,
            None => self.between(&(0..=i64::try_from(self.spec.zones.len()).unwrap_or(1) - 1)) as usize,
        };
        self.launch_instance(capacity, zone);
    }

    fn launch_instance(&mut self, capacity: Size, zone: usize) {
        let serial = self.next();
        let (claim, node) = (format!("{}-{serial:06}", self.name), format!("ip-{}-{serial:06}", self.name));
        let id = self.claim(claim.clone(), node, capacity, zone, None);
        self.tell(&claim, Event::Launched, String::new());
        let delay = self.between(&self.model.launch.clone());
        self.after(delay, Due::Launched(id));
    }

    /// Whether the pool's limits allow one more such instance. Karpenter plans as if Nodes that are going were gone, and only
    /// makes no claim where what there is is past a limit already; it charges whole instances.
    fn is_allowed(&self, capacity: Size) -> bool {
        let Some(limits) = self.view.pools.get(&self.name).and_then(|pool| pool.spec.limits.as_ref()) else { return true };
        let limit = Size::of_raw(limits);
        let nodes = limits.get("nodes").and_then(|limit| crate::api::quantity::Quantity::parse_value(limit).ok());
        let has = |resource: &str| limits.contains_key(resource);
        let holds = |sum: Size, count: usize| {
            (!has("cpu") || sum.cpu <= limit.cpu)
                && (!has("memory") || sum.memory <= limit.memory)
                && nodes.is_none_or(|nodes| i64::try_from(count).unwrap_or(i64::MAX) <= nodes.value())
        };
        let (staying, count) = self.hosts.staying();
        holds(staying + capacity, count + 1) && holds(self.hosts.capacity(), self.hosts.len())
    }

    pub(super) fn launched(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id) else { return };
        if self.model.no_capacity.iter().any(|(from, to)| *from <= self.now && self.now < *to) {
            let claim = host.claim.clone();
            self.tell(&claim, Event::LaunchFailed, "no instance was to be had".into());
            self.forget(id);
            let again = later(self.now, seconds(UNAVAILABLE));
            if self.unavailable_until.replace(again) != Some(again) {
                self.at(again, Due::Provision);
            }
            return;
        }
        // The first that is to be had again: the others can come, too.
        if self.unavailable_until.take().is_some() {
            self.ask_karpenter();
        }
        self.stage(id, Stage::Launched);
        let delay = self.between(&self.model.register.clone());
        self.after(delay, Due::Registered(id));
    }

    pub(super) fn registered(&mut self, id: u32) {
        if self.hosts.get(id).is_none_or(|host| host.ending) {
            return;
        }
        self.stage(id, Stage::Registered);
        if self.one_in(self.model.one_in_never_ready) {
            return;
        }
        let delay = self.between(&self.model.initialize.clone());
        self.after(delay, Due::Initialized(id));
    }

    pub(super) fn initialized(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id).filter(|host| !host.ending) else { return };
        let claim = host.claim.clone();
        self.stage(id, Stage::Ready);
        self.tell(&claim, Event::Ready, String::new());
        self.emptied(id);
    }

    pub(super) fn expire(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id).filter(|host| host.deleting.is_none()) else { return };
        let claim = host.claim.clone();
        self.tell(&claim, Event::Expired, String::new());
        self.delete(id);
    }

    /// Deletes a NodeClaim: it drains, whoever asked for it.
    pub(super) fn delete(&mut self, id: u32) {
        if self.hosts.get(id).is_none_or(|host| host.deleting.is_some()) {
            return;
        }
        let now = self.now;
        let changed = self.hosts.change(id, |host| {
            host.deleting = Some(now);
            (host.claim.clone(), host.node.clone())
        });
        let Some((name, node)) = changed else { return };
        let serial = self.next();
        let mut grace = None;
        self.memory.changed(&name);
        if let Some(claim) = self.view.claims.get_mut(&name) {
            claim.metadata.deletion_timestamp = Some(now);
            claim.metadata.resource_version = serial.to_string();
            grace = claim.spec.grace();
        }
        if let Some(grace) = grace {
            self.at(later(now, (grace - FORCED_BEFORE).max(seconds(0))), Due::Force(id));
        }
        self.with_node(&node, |node| node.metadata.deletion_timestamp = Some(now));
        if self.hosts.get(id).is_some_and(|host| host.pods.iter().any(|pod| self.is_rescheduled(*pod))) {
            self.ask_karpenter();
        }
        self.note_change();
        self.after(1, Due::Drain(id));
    }

    /// Evicts what may be evicted; the instance ends once nothing is left.
    pub(super) fn drain(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id).filter(|host| !host.ending) else { return };
        let Some(since) = host.deleting else { return };
        let here: Vec<u32> =
            host.pods.iter().copied().filter(|pod| host.refused.get(pod).is_none_or(|(_, again)| *again <= self.now)).collect();
        for pod in here {
            if let Some(protection) = self.protection(pod) {
                self.come_back_to(id, pod, protection);
            } else if self.may_evict(pod) {
                self.end_pod(pod, false);
            } else {
                self.refuse_eviction(id, pod);
            }
        }
        let Some(host) = self.hosts.get(id) else { return };
        if !host.pods.is_empty() {
            return;
        }
        let earliest = later(since, seconds(self.model.drain.max(DRAIN)));
        if self.now < earliest {
            self.at(earliest, Due::Drain(id));
            return;
        }
        self.end_instance(id);
    }

    /// Karpenter isn't told when a budget allows more: it tries again, less and less often.
    fn refuse_eviction(&mut self, id: u32, pod: u32) {
        let now = self.now;
        let again = self.hosts.change(id, |host| {
            let tries = host.refused.get(&pod).map_or(0, |(tries, _)| *tries);
            let again = later(now, seconds(EVICTIONS.get(tries).copied().unwrap_or(EVICTION)));
            let is_new = host.refused.values().all(|(_, other)| *other != again);
            host.refused.insert(pod, (tries + 1, again));
            is_new.then_some(again)
        });
        // All that are tried in one second are tried together.
        if let Some(again) = again.flatten() {
            self.at(again, Due::Drain(id));
        }
    }

    fn end_instance(&mut self, id: u32) {
        if self.hosts.change(id, |host| std::mem::replace(&mut host.ending, true)) != Some(false) {
            return;
        }
        let delay = self.between(&self.model.terminate.clone());
        self.after(delay, Due::Gone(id));
    }

    /// What is left at the end of the terminationGracePeriod is ended whatever its budget says.
    pub(super) fn force(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id).filter(|host| !host.ending) else { return };
        let (claim, here): (String, Vec<u32>) = (host.claim.clone(), host.pods.iter().copied().collect());
        if !here.is_empty() {
            self.tell(&claim, Event::Forced, format!("{} Pods", here.len()));
        }
        for pod in here {
            self.end_pod(pod, true);
        }
        self.end_instance(id);
    }

    pub(super) fn terminated(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id) else { return };
        let claim = host.claim.clone();
        self.tell(&claim, Event::Gone, String::new());
        self.forget(id);
        if !self.pending.is_empty() {
            self.ask_karpenter();
        }
        let wanted = self.spec.pool.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok());
        if wanted.is_some_and(|wanted| self.hosts.len() < wanted)
            && let Some(capacity) = self.spec.instances.first().copied()
        {
            self.launch_instance(capacity, 0);
        }
    }

    /// The claim and its Node are gone.
    fn forget(&mut self, id: u32) {
        let Some(host) = self.hosts.remove(id) else { return };
        for pod in host.pods {
            self.end_pod(pod, true);
        }
        self.host_of.remove(&host.claim);
        self.host_of.remove(&host.node);
        self.memory.changed(&host.claim);
        self.view.claims.remove(&host.claim);
        self.view.marked.remove(&host.node);
        Arc::make_mut(&mut self.nodes).remove(&host.node);
        self.refresh_resources();
        self.note_change();
    }

    /// A Node may have become empty: one that drains ends, another is removed after a while.
    pub(super) fn emptied(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id).filter(|host| host.pods.is_empty() && !host.ending) else { return };
        if host.deleting.is_some() {
            self.after(0, Due::Drain(id));
        } else if let Some(delay) = self.model.consolidate_after {
            self.after(delay, Due::Consolidate(id));
        }
    }

    pub(super) fn consolidate(&mut self, id: u32) {
        let Some(host) = self.hosts.get(id) else { return };
        let is_protected = || self.nodes.get(&host.node).is_some_and(|node| node.metadata.annotation(keys::DO_NOT_DISRUPT) == Some("true"));
        let is_static = self.spec.pool.spec.replicas.is_some();
        if host.deleting.is_some()
            || host.stage != Stage::Ready
            || !host.pods.is_empty()
            || !self.pending.is_empty()
            || is_static
            || is_protected()
        {
            return;
        }
        let claim = host.claim.clone();
        self.tell(&claim, Event::Consolidated, String::new());
        self.delete(id);
    }

    /// Whether Karpenter looks for another node for a Pod of a node that is going: not while its budget never lets one go, and
    /// not while it is protected.
    fn is_rescheduled(&self, id: u32) -> bool {
        let Some(pod) = self.pods.get(&id) else { return false };
        let Owner::Workload(workload) = pod.owner else { return false };
        matches!(pod.phase, Phase::Starting | Phase::Ready)
            && self.workloads[workload].spec.max_unavailable != Some(0)
            && self.protection(id).is_none()
    }
}
