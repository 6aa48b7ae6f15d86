//! The zonal volumes of StatefulSets: each replica has one, which its first Pod's Node puts into a zone, and which every
//! later Pod of that replica takes again. Scaling leaves them where they are.

use super::{
    pods::{Owner, Pod, Workload},
    pool::PoolWorld,
};

/// How a StatefulSet's Pod calls its volume.
pub(super) const DATA: &str = "data";

impl Workload {
    /// The name of a replica's PersistentVolumeClaim.
    pub fn claim_name(&self, ordinal: u32) -> String {
        format!("{DATA}-{}-{ordinal}", self.spec.name)
    }

    /// Makes the claim of a replica, which its Pods wait for; where there is one, that stays.
    pub fn claim_volume(&mut self, ordinal: u32) {
        let wanted = ordinal as usize + 1;
        if self.volumes.len() < wanted {
            self.volumes.resize(wanted, None);
        }
    }

    /// Puts a replica's volume into a zone, where it is in none yet.
    pub fn place_volume(&mut self, ordinal: u32, zone: usize) {
        if let Some(volume) = self.volumes.get_mut(ordinal as usize) {
            volume.get_or_insert(zone);
        }
    }
}

impl PoolWorld {
    /// The zone that a Pod has to run in: that of its volume.
    pub(super) fn zone_of(&self, pod: &Pod) -> Option<usize> {
        let ordinal = pod.ordinal?;
        let Owner::Workload(workload) = pod.owner else { return None };
        self.workloads[workload].volumes.get(ordinal as usize).copied().flatten()
    }
}
