//! The scheduler: gives pending Pods to Nodes with room, and lets ordinary ones preempt placeholders.

use k8s_openapi::api::core::v1::NodeSelectorRequirement;

use super::{
    host::{Host, Labels},
    pods::{Owner, Phase, Pod},
    pool::PoolWorld,
};
use crate::api::keys;

impl PoolWorld {
    /// Something has become free, or somebody new waits.
    pub(super) fn look_for_room(&mut self) {
        self.room_changed = true;
    }

    /// Gives every Pod that can be given one a Node: ordinary ones first, then placeholders.
    pub(super) fn schedule(&mut self) {
        while std::mem::take(&mut self.room_changed) && !self.pending.is_empty() {
            let mut pending = std::mem::take(&mut self.pending);
            pending.sort_unstable_by_key(|id| (self.pods.get(id).is_some_and(is_placeholder), *id));
            let mut left = Vec::new();
            for id in pending {
                let Some(pod) = self.pods.get(&id).filter(|pod| pod.phase == Phase::Pending) else { continue };
                let preempts = !is_placeholder(pod);
                match self.best_host(id).or_else(|| if preempts { self.preempt(id) } else { None }) {
                    Some(host) => self.bind(id, host),
                    None => left.push(id),
                }
            }
            left.append(&mut self.pending);
            self.pending = left;
        }
    }

    /// The Node with the most room that takes the Pod: one that it would rather not have only where there is no other.
    pub(super) fn best_host(&self, id: u32) -> Option<u32> {
        let pod = self.pods.get(&id)?;
        let zone = self.zone_of(pod);
        let fitting = self.hosts.open(pod.request.cpu).filter(|(_, host)| is_room(host, pod, zone));
        let mut avoided = None;
        for (id, host) in fitting {
            if !pod.avoids(&host.node) {
                return Some(id);
            }
            avoided = avoided.or(Some(id));
        }
        avoided
    }

    /// Whether a Pod could be given to this Node.
    pub(super) fn is_room_on(&self, host: u32, id: u32) -> bool {
        let (Some(pod), Some(host)) = (self.pods.get(&id), self.hosts.get(host)) else { return false };
        is_room(host, pod, self.zone_of(pod))
    }

    /// Ends a placeholder whose room a Pod needs.
    fn preempt(&mut self, id: u32) -> Option<u32> {
        let pod = self.pods.get(&id)?;
        let zone = self.zone_of(pod);
        let victim = self.placeholders.values().find_map(|victim| {
            let other = self.pods.get(victim)?;
            let (host_id, host) = (other.host?, self.hosts.get(other.host?)?);
            let room = host.free() + other.request;
            (host.takes_pods() && pod.request.fits(room) && may_run(pod, zone, host)).then_some((*victim, host_id))
        });
        let (victim, host) = victim?;
        self.end_pod(victim, true);
        Some(host)
    }
}

fn is_placeholder(pod: &Pod) -> bool {
    matches!(pod.owner, Owner::Placeholder(_))
}

fn is_room(host: &Host, pod: &Pod, zone: Option<usize>) -> bool {
    host.takes_pods() && pod.request.fits(host.free()) && may_run(pod, zone, host)
}

/// Whether a Node's labels and taints are those that a Pod needs, and its zone that of the Pod's volume.
pub(super) fn may_run(pod: &Pod, zone: Option<usize>, host: &Host) -> bool {
    pod.tolerates && zone.is_none_or(|zone| zone == host.zone) && pod.required().all(|required| holds(required, &host.labels))
}

fn holds(required: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&required.key);
    let listed = value.is_some_and(|value| required.values.as_ref().is_some_and(|values| values.contains(value)));
    match required.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // Comparisons of numbers are only ever copied from a Node's own labels by way of `In`.
        _ => required.key != keys::NODEPOOL_LABEL,
    }
}
