//! Workloads as Pods and their budgets describe them.

use std::collections::BTreeMap;

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};

use super::{Numbers, Objects};
use crate::{
    api::{keys, pod::Pod, time::from_api},
    surge::{blockers::selects, pods::is_daemonset},
    world::{
        fleet::{NodeSpec, WorkloadSpec},
        scenario::{Placed, PlacedPod},
        size::Size,
    },
};

/// A Pod takes so long to end at most, in seconds, whatever its grace: few use all of it.
const END: i64 = 30;

impl Objects {
    /// The workloads of a pool's nodes, each with its Pods.
    pub(super) fn workloads(&self, nodes: &[NodeSpec], pods: &BTreeMap<&str, Vec<&Pod>>, numbers: &Numbers) -> Vec<Placed> {
        let known: Vec<&Vec<&Pod>> = nodes.iter().filter_map(|node| pods.get(node.node.as_str())).collect();
        let mut groups: BTreeMap<String, Vec<(&Pod, String)>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let is_unread = self.sampled.as_ref().is_some_and(|sampled| !sampled.contains(&node.node));
            let like = if is_unread { known.get(index % known.len().max(1)).copied() } else { pods.get(node.node.as_str()) };
            for pod in like.into_iter().flatten().filter(|pod| !is_daemonset(pod)) {
                groups.entry(owner(pod)).or_default().push((pod, node.node.clone()));
            }
        }
        groups.into_iter().filter_map(|(name, pods)| self.workload(name, pods, numbers)).collect()
    }

    fn workload(&self, name: String, pods: Vec<(&Pod, String)>, numbers: &Numbers) -> Option<Placed> {
        let (first, _) = *pods.first().map(|(pod, node)| (pod, node)).as_ref()?;
        let requests = pods.iter().map(|(pod, _)| Size::requested_by(pod));
        let request = requests.fold(Size::default(), |most, size| Size {
            cpu: most.cpu.max(size.cpu),
            memory: most.memory.max(size.memory),
            pods: 1,
        });
        let replicas = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        let sticky = name.contains("/StatefulSet/") && has_volume(first);
        let grace = first.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(END);
        let workload = WorkloadSpec {
            max_unavailable: self.max_unavailable(first, replicas, numbers),
            name,
            replicas,
            request,
            ready_after: if sticky { 30..=90 } else { 10..=40 },
            grace: grace.clamp(0, END),
            sticky,
        };
        let pods = pods.into_iter().map(|(pod, node)| PlacedPod {
            node,
            do_not_disrupt: pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(keys::DO_NOT_DISRUPT)).cloned(),
            since: pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(from_api),
        });
        Some(Placed { workload, pods: pods.collect() })
    }

    fn max_unavailable(&self, pod: &Pod, replicas: u32, numbers: &Numbers) -> Option<u32> {
        let Some(budgets) = &self.budgets else { return Some(numbers.max_unavailable) };
        let matching: Vec<&PodDisruptionBudget> = budgets.iter().filter(|budget| selects(budget, pod)).collect();
        match matching.as_slice() {
            [] => None,
            [budget] => Some(allowed(budget, replicas)),
            // Eviction refuses Pods with more than one.
            _ => Some(0),
        }
    }
}

/// How many of so many Pods a budget lets be down.
fn allowed(budget: &PodDisruptionBudget, replicas: u32) -> u32 {
    let Some(spec) = &budget.spec else { return 0 };
    // Both are rounded up, as the disruption controller does.
    let of = |value: &IntOrString| match value {
        IntOrString::Int(count) => u32::try_from(*count).unwrap_or_default(),
        IntOrString::String(text) => {
            let percent = text.trim_end_matches('%').parse::<u64>().unwrap_or_default();
            u32::try_from((u64::from(replicas) * percent).div_ceil(100)).unwrap_or(u32::MAX)
        }
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => of(most),
        (None, Some(least)) => replicas.saturating_sub(of(least)),
        (None, None) => replicas,
    }
}

/// `namespace/kind/name` of what runs it; a bare Pod stands for itself.
fn owner(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first());
    match controller {
        Some(owner) => format!("{namespace}/{}/{}", owner.kind, owner.name),
        None => format!("{namespace}/Pod/{}", pod.metadata.name.as_deref().unwrap_or_default()),
    }
}

fn has_volume(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| volume.persistent_volume_claim.is_some())
}
