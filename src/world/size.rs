//! Resources as the world's scheduler counts them: three whole numbers, so that thousands of Pods are placed in no time.

use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde_json::Value;

use crate::{
    api::{karpenter::RawResources, pod::Pod, quantity::Resources, shared::Shared},
    surge::requests::effective_requests,
};

/// An amount of cpu, memory and Pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Thousandths of a cpu.
    pub cpu: i64,
    /// MiB.
    pub memory: i64,
    /// Pods.
    pub pods: i64,
}

impl Size {
    /// What one Pod with these requests takes: cpu in thousandths, memory in MiB.
    pub fn pod(cpu: i64, memory: i64) -> Self {
        Self { cpu, memory, pods: 1 }
    }

    /// An instance: whole cpus, memory in GiB, room for 110 Pods.
    pub fn instance(cpus: i64, gib: i64) -> Self {
        Self { cpu: cpus * 1000, memory: gib * 1024, pods: 110 }
    }

    /// Whether it fits into this room.
    pub fn fits(self, room: Self) -> bool {
        self.cpu <= room.cpu && self.memory <= room.memory && self.pods <= room.pods
    }

    /// As a list of resources in an object.
    pub fn raw(self) -> RawResources {
        let mut list = RawResources::new();
        self.write(&mut list);
        list
    }

    /// Into such a list.
    pub fn write(self, list: &mut RawResources) {
        set(list, "cpu", format!("{}m", self.cpu));
        set(list, "memory", format!("{}Mi", self.memory));
        set(list, "pods", self.pods.to_string());
    }

    /// What a list of resources says; what it lacks or can't be read is 0.
    pub fn of_raw(raw: &RawResources) -> Self {
        Resources::from_raw(raw).map(|resources| Self::of(&resources)).unwrap_or_default()
    }

    /// The same of resources that were read.
    pub fn of(resources: &Resources) -> Self {
        let of = |resource: &str| resources.get(resource);
        let thousandths = crate::api::quantity::Quantity(of("cpu").0.saturating_mul(1000)).value();
        Self { cpu: thousandths, memory: of("memory").value() >> 20, pods: of("pods").value() }
    }

    /// What a Pod requests.
    pub fn requested_by(pod: &Pod) -> Self {
        Self { pods: 1, ..effective_requests(pod).map(|resources| Self::of(&resources)).unwrap_or_default() }
    }
}

/// Sets one resource of a list.
pub(super) fn set(list: &mut RawResources, resource: &str, amount: String) {
    match list.get_mut(resource) {
        Some(known) => *known = Value::String(amount),
        None => drop(list.insert(resource.to_owned(), Value::String(amount))),
    }
}

/// Sizes as lists of resources in objects, each made once: a fleet has few.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists(Vec<(Size, Shared<RawResources>)>);

impl Lists {
    /// The list of a size.
    pub fn of(&mut self, size: Size) -> Shared<RawResources> {
        if let Some((_, list)) = self.0.iter().find(|(known, _)| *known == size) {
            return list.clone();
        }
        let list: Shared<RawResources> = size.raw().into();
        self.0.push((size, list.clone()));
        list
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, pods: self.pods + other.pods }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Size {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { cpu: self.cpu - other.cpu, memory: self.memory - other.memory, pods: self.pods - other.pods }
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
