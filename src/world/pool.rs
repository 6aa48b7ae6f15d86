//! One NodePool's part of the world: the objects that a pass sees, and what the models know beside them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ops::RangeInclusive,
    sync::Arc,
};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::{
    fleet::{Model, PoolSpec, seconds},
    history::{Event, Happening, Said},
    host::Hosts,
    pods::{Pod, Workload, agent},
    size::{Lists, set},
};
use crate::{
    api::{
        karpenter::Node,
        keys,
        meta::Meta,
        pod::Pod as Object,
        shared::Shared,
        time::{Time, later},
    },
    policy::Policy,
    rotation::memory::Memory,
    schedule::window::Occurrence,
    view::View,
};

/// A NodePool in the world.
#[derive(Clone)]
pub struct PoolWorld {
    /// The pool's name.
    pub name: String,
    /// Now, in whole seconds.
    pub now: Time,
    /// What a pass sees, without facts: policies, the pool, its claims, placeholders and marked Nodes.
    pub view: View,
    /// What happened.
    pub history: Vec<Happening>,
    /// What passes said that is no transition: why a start was not made, and what else to look at.
    pub said: BTreeMap<&'static str, Said>,
    /// Whether a pass could see something new since [`PoolWorld::take_changed`].
    changed: bool,
    pub(super) nodes: Arc<BTreeMap<String, Shared<Node>>>,
    pub(super) hosts: Hosts,
    /// Sizes as lists of resources: hosts of one kind have one list.
    pub(super) lists: Lists,
    pub(super) host_of: FxHashMap<String, u32>,
    pub(super) pods: FxHashMap<u32, Pod>,
    /// Pods of placeholders, by their names.
    pub(super) placeholders: BTreeMap<String, u32>,
    pub(super) pending: Vec<u32>,
    pub(super) workloads: Vec<Workload>,
    pub(super) spec: PoolSpec,
    pub(super) model: Arc<Model>,
    /// The Pod of the DaemonSets on each Node.
    pub(super) agent: Option<Object>,
    pub(super) provisioning: bool,
    /// No instance was to be had, and none is tried before then; `None` once one was.
    pub(super) unavailable_until: Option<Time>,
    /// What the passes' decisions have in common; told of every change of a claim or its Node.
    pub(super) memory: Memory,
    /// When the last pass said that one could do something by time alone.
    pub(super) foreseen: Option<Time>,
    pub(super) room_changed: bool,
    agenda: BinaryHeap<Reverse<(Time, u64, Due)>>,
    pub(super) rng: Pcg64Mcg,
    serial: u64,
    /// Pods that are wanted and not Ready.
    down: u32,
    /// The most of them at once before the first window.
    pub peak_before: u32,
    /// Outside of windows, since.
    pub peak_outside: u32,
    /// Inside.
    pub peak_inside: u32,
    /// How many placeholders a ResourceQuota allows.
    pub(super) quota: Option<u32>,
    /// The items of the LimitRanges in the placeholders' namespace.
    pub(super) limits: Vec<serde_json::Value>,
    /// When starts are allowed, over the whole time that is simulated.
    pub(super) windows: Arc<Vec<Occurrence>>,
}

/// What falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Launched(u32),
    Registered(u32),
    Initialized(u32),
    PodUp(u32),
    PodGone(u32),
    Provision,
    Expire(u32),
    Drain(u32),
    Force(u32),
    Gone(u32),
    Consolidate(u32),
}

impl PoolWorld {
    /// A pool as it is at `now`, with all Pods Ready. The seed decides how long everything takes.
    pub fn new(spec: PoolSpec, policies: &BTreeMap<String, Policy>, model: Arc<Model>, seed: u64, now: Time) -> Self {
        let name = spec.pool.metadata.name.clone();
        let digest = Sha256::digest(format!("{seed}/{name}"));
        let mut bytes = [0_u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        let mut world = Self {
            now,
            view: View { policies: policies.clone(), ..View::default() },
            history: Vec::new(),
            said: BTreeMap::new(),
            changed: true,
            nodes: Arc::default(),
            hosts: Hosts::default(),
            lists: Lists::default(),
            host_of: FxHashMap::default(),
            pods: FxHashMap::default(),
            placeholders: BTreeMap::new(),
            pending: Vec::new(),
            workloads: Vec::new(),
            model,
            agent: agent(spec.daemons),
            provisioning: false,
            unavailable_until: None,
            memory: Memory::default(),
            foreseen: None,
            room_changed: false,
            agenda: BinaryHeap::new(),
            rng: Pcg64Mcg::from_seed(bytes),
            serial: 0,
            down: 0,
            peak_before: 0,
            peak_outside: 0,
            peak_inside: 0,
            quota: None,
            limits: Vec::new(),
            windows: Arc::default(),
            spec,
            name,
        };
        let mut pool = world.spec.pool.clone();
        world.stamp(&mut pool.metadata);
        world.view.pools.insert(world.name.clone(), pool);
        world.settle_in();
        world
    }

    /// Tells the world when the windows are open, so that it can tell Pods disrupted inside from those outside.
    pub fn under(mut self, windows: Arc<Vec<Occurrence>>) -> Self {
        self.windows = windows;
        self
    }

    fn settle_in(&mut self) {
        for node in std::mem::take(&mut self.spec.nodes) {
            self.add_node(node);
        }
        for workload in std::mem::take(&mut self.spec.workloads) {
            self.add_workload(workload);
        }
        self.history.clear();
        self.refresh_resources();
    }

    /// A new version for an object.
    pub(super) fn stamp(&mut self, meta: &mut Meta) {
        self.serial += 1;
        meta.resource_version = self.serial.to_string();
        if meta.uid.is_empty() {
            meta.uid = format!("{}-{}", self.name, self.serial);
        }
        if meta.creation_timestamp.is_none() {
            meta.creation_timestamp = Some(self.now);
        }
    }

    /// A number that was not given before.
    pub(super) fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(super) fn between(&mut self, range: &RangeInclusive<i64>) -> i64 {
        self.rng.random_range(range.clone())
    }

    /// Whether this is the one in so many that fails.
    pub(super) fn one_in(&mut self, count: u32) -> bool {
        let is_sound = self.model.sound_from.is_some_and(|from| from <= self.now);
        count > 0 && !is_sound && self.rng.random_ratio(1, count)
    }

    pub(super) fn after(&mut self, delay: i64, due: Due) {
        self.at(later(self.now, seconds(delay)), due);
    }

    pub(super) fn at(&mut self, time: Time, due: Due) {
        let serial = self.next();
        self.agenda.push(Reverse((time.max(self.now), serial, due)));
    }

    pub(super) fn tell(&mut self, claim: &str, event: Event, detail: String) {
        self.history.push(Happening { at: self.now, pool: self.name.clone(), claim: claim.into(), event, detail });
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Whether a pass could see something new since this was last asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// When the next thing happens by itself; `None` for never.
    pub fn next_due(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((time, _, _))| *time)
    }

    /// Lets happen what is due until then, and then it is then.
    pub fn advance(&mut self, until: Time) {
        while let Some(Reverse((time, _, _))) = self.agenda.peek()
            && *time <= until
        {
            let Some(Reverse((time, _, due))) = self.agenda.pop() else { break };
            self.now = time;
            self.happen(due);
            self.schedule();
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Launched(host) => self.launched(host),
            Due::Registered(host) => self.registered(host),
            Due::Initialized(host) => self.initialized(host),
            Due::PodUp(pod) => self.pod_up(pod),
            Due::PodGone(pod) => self.pod_gone(pod),
            Due::Provision => self.provision(),
            Due::Expire(host) => self.expire(host),
            Due::Drain(host) => self.drain(host),
            Due::Force(host) => self.force(host),
            Due::Gone(host) => self.terminated(host),
            Due::Consolidate(host) => self.consolidate(host),
        }
    }

    /// Changes a Node, and what follows from its labels.
    pub(super) fn with_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let serial = self.next();
        // What is shared would be copied in being changed.
        let marked = self.view.marked.remove_entry(name).map(|(name, _)| name);
        let nodes = Arc::make_mut(&mut self.nodes);
        let Some(node) = nodes.get_mut(name) else { return };
        change(node);
        node.metadata.resource_version = serial.to_string();
        if node.metadata.labels.contains_key(keys::MARKED) {
            self.view.marked.insert(marked.unwrap_or_else(|| name.into()), node.clone());
        }
        if let Some(id) = self.host_of.get(name).copied() {
            self.hosts.change(id, |host| host.cordoned = node.spec.unschedulable);
            if let Some(host) = self.hosts.get(id) {
                self.memory.changed(&host.claim);
            }
            self.emptied(id);
        }
        self.look_for_room();
        self.note_change();
    }

    /// Karpenter keeps the sum of what it launched in the pool's status; such a write alone is nothing to look at.
    pub(super) fn refresh_resources(&mut self) {
        let (sum, count) = (self.hosts.capacity(), self.hosts.len());
        let serial = self.next();
        let Some(pool) = self.view.pools.get_mut(&self.name) else { return };
        sum.write(&mut pool.status.resources);
        set(&mut pool.status.resources, "nodes", count.to_string());
        pool.metadata.resource_version = serial.to_string();
    }

    /// Counts Pods that are wanted and not Ready.
    pub(super) fn down_by(&mut self, change: i32) {
        self.down = self.down.saturating_add_signed(change);
        if change > 0 {
            let after = self.windows.partition_point(|window| window.start <= self.now);
            let is_open = after > 0 && self.now < self.windows[after - 1].end;
            let peak = match after {
                _ if is_open => &mut self.peak_inside,
                0 if !self.windows.is_empty() => &mut self.peak_before,
                _ => &mut self.peak_outside,
            };
            *peak = (*peak).max(self.down);
        }
    }
}
