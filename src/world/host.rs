//! What the models know of one NodeClaim and its Node.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::size::Size;
use crate::api::{shared::Shared, time::Time};

/// Labels of a NodeClaim and its Node.
pub(super) type Labels = Shared<BTreeMap<String, String>>;

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

    /// Whether it may be planned with: it is neither cordoned nor being deleted.
    pub fn is_open(&self) -> bool {
        !self.cordoned && self.deleting.is_none()
    }

    /// Whether the scheduler may use it.
    pub fn takes_pods(&self) -> bool {
        self.stage == Stage::Ready && self.is_open()
    }
}

/// The hosts of a pool by id, with what the models ask of all of them at once kept at hand.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    by_id: BTreeMap<u32, Host>,
    /// Those that are open, by the cpu that is left.
    open: BTreeSet<(i64, Reverse<u32>)>,
    leaving: BTreeSet<u32>,
    /// The capacity of all, and of those that are leaving.
    sums: (Size, Size),
}

impl Hosts {
    pub fn get(&self, id: u32) -> Option<&Host> {
        self.by_id.get(&id)
    }

    /// The oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Host)> {
        self.by_id.iter().map(|(id, host)| (*id, host))
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The capacity of all.
    pub fn capacity(&self) -> Size {
        self.sums.0
    }

    /// The capacity of those that are not leaving, and how many they are.
    pub fn staying(&self) -> (Size, usize) {
        (self.sums.0 - self.sums.1, self.by_id.len() - self.leaving.len())
    }

    /// Those that are being deleted.
    pub fn leaving(&self) -> impl Iterator<Item = &Host> {
        self.leaving.iter().filter_map(|id| self.by_id.get(id))
    }

    /// Those that are open and have so much cpu left: the one with the most first, then the oldest.
    pub fn open(&self, cpu: i64) -> impl Iterator<Item = (u32, &Host)> {
        let open = self.open.range((cpu, Reverse(u32::MAX))..).rev();
        open.filter_map(|(_, Reverse(id))| Some((*id, self.by_id.get(id)?)))
    }

    pub fn insert(&mut self, id: u32, host: Host) {
        self.remove(id);
        self.count(id, Counted::of(&host));
        self.by_id.insert(id, host);
    }

    pub fn remove(&mut self, id: u32) -> Option<Host> {
        let host = self.by_id.remove(&id)?;
        self.discount(id, Counted::of(&host));
        Some(host)
    }

    /// Changes a host; `None` where there is none.
    pub fn change<T>(&mut self, id: u32, change: impl FnOnce(&mut Host) -> T) -> Option<T> {
        let host = self.by_id.get_mut(&id)?;
        let before = Counted::of(host);
        let changed = change(host);
        let after = Counted::of(host);
        if before != after {
            self.discount(id, before);
            self.count(id, after);
        }
        Some(changed)
    }

    /// Brings a host to a stage; nothing that is kept at hand depends on it.
    pub fn advance(&mut self, id: u32, stage: Stage) -> Option<&Host> {
        let host = self.by_id.get_mut(&id)?;
        host.stage = stage;
        Some(host)
    }

    fn count(&mut self, id: u32, host: Counted) {
        self.sums.0 += host.capacity;
        if host.leaving {
            self.sums.1 += host.capacity;
            self.leaving.insert(id);
        }
        if let Some(cpu) = host.free {
            self.open.insert((cpu, Reverse(id)));
        }
    }

    fn discount(&mut self, id: u32, host: Counted) {
        self.sums.0 -= host.capacity;
        if host.leaving {
            self.sums.1 -= host.capacity;
            self.leaving.remove(&id);
        }
        if let Some(cpu) = host.free {
            self.open.remove(&(cpu, Reverse(id)));
        }
    }
}

/// What is kept at hand of a host.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counted {
    capacity: Size,
    leaving: bool,
    /// The cpu that is left on one that is open.
    free: Option<i64>,
}

impl Counted {
    fn of(host: &Host) -> Self {
        Self { capacity: host.capacity, leaving: host.deleting.is_some(), free: host.is_open().then(|| host.free().cpu) }
    }
}
