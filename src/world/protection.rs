//! `karpenter.sh/do-not-disrupt` on Pods, and what else somebody with `kubectl` writes to those of workloads.

use std::collections::BTreeMap;

use chrono::TimeDelta;

use super::{
    fleet::seconds,
    pods::{Owner, Phase},
    pool::{Due, PoolWorld},
    scenario::PlacedPod,
};
use crate::api::{
    keys,
    time::{Time, later, parse_duration},
};

/// The labels and annotations of a Pod, all of them, once somebody has written some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// How long Karpenter leaves a Pod where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Until the annotation is changed.
    Lasting,
    Until(Time),
}

impl PoolWorld {
    /// Whether Karpenter evicts a Pod, and plans for its eviction: not while its `do-not-disrupt` is `true`, or a duration
    /// from its start that has not ended.
    pub(super) fn protection(&self, id: u32) -> Option<Protection> {
        let pod = self.pods.get(&id).filter(|pod| pod.phase != Phase::Ending)?;
        let annotations = match &pod.owner {
            Owner::Placeholder(name) => self.view.placeholders.get(name)?.metadata.annotations.as_ref(),
            Owner::Workload(workload) => match &pod.written {
                Some(written) => Some(&written.annotations),
                None => self.workloads[*workload].template.metadata.annotations.as_ref(),
            },
        };
        let value = annotations?.get(keys::DO_NOT_DISRUPT)?;
        if value == "true" {
            return Some(Protection::Lasting);
        }
        let span = parse_duration(value).filter(|span| *span > TimeDelta::zero())?;
        let Some(since) = pod.since else { return Some(Protection::Lasting) };
        let until = later(since, span);
        (self.now < until).then_some(Protection::Until(until))
    }

    /// Karpenter comes back to a Pod that is protected when that ends.
    pub(super) fn come_back_to(&mut self, host: u32, pod: u32, protection: Protection) {
        let Protection::Until(until) = protection else { return };
        let is_new = self.hosts.change(host, |host| {
            let is_new = host.refused.values().all(|(_, other)| *other != until);
            host.refused.insert(pod, (0, until));
            is_new
        });
        if is_new == Some(true) {
            self.at(until, Due::Drain(host));
        }
    }

    /// Stores all labels and annotations of a workload's Pod. Karpenter, which is told of Pods, looks at it again.
    pub(super) fn write_pod(&mut self, id: u32, written: Written) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        pod.written = Some(Box::new(written));
        self.look_again_at(id);
        self.note_change();
    }

    /// Karpenter is told that a Pod was written to.
    pub(super) fn look_again_at(&mut self, id: u32) {
        let Some(host) = self.pods.get(&id).and_then(|pod| pod.host) else { return };
        self.hosts.change(host, |host| host.refused.remove(&id));
        if self.hosts.get(host).is_some_and(|host| host.deleting.is_some()) {
            let next = later(self.now, seconds(1));
            self.at(next, Due::Drain(host));
            self.ask_karpenter();
        }
    }

    /// Protects the Pods of the workload that was added last, as these say. What all say alike is the template's.
    pub(super) fn protect_last_workload(&mut self, placed: &[PlacedPod]) {
        let Some(workload) = self.workloads.last_mut() else { return };
        let ids: Vec<u32> = workload.pods.iter().copied().collect();
        let first = placed.first().and_then(|pod| pod.do_not_disrupt.clone());
        let is_of_template = placed.iter().all(|pod| pod.do_not_disrupt == first);
        if let Some(value) = first.filter(|_| is_of_template) {
            workload.template.metadata.annotations = Some(BTreeMap::from([(keys::DO_NOT_DISRUPT.to_owned(), value)]));
        }
        for (id, placed) in ids.into_iter().zip(placed) {
            if let (Some(pod), Some(since)) = (self.pods.get_mut(&id), placed.since)
                && pod.host.is_some()
            {
                pod.since = Some(since.min(self.now));
            }
            if let (Some(value), false) = (&placed.do_not_disrupt, is_of_template)
                && let Some(mut written) = self.written(id)
            {
                written.annotations.insert(keys::DO_NOT_DISRUPT.into(), value.clone());
                self.write_pod(id, written);
            }
        }
    }

    /// The labels and annotations of a workload's Pod.
    pub(super) fn written(&self, id: u32) -> Option<Written> {
        let pod = self.pods.get(&id)?;
        let Owner::Workload(workload) = pod.owner else { return None };
        Some(match &pod.written {
            Some(written) => (**written).clone(),
            None => {
                let metadata = self.workloads[workload].template.metadata.clone();
                Written { labels: metadata.labels.unwrap_or_default(), annotations: metadata.annotations.unwrap_or_default() }
            }
        })
    }
}
