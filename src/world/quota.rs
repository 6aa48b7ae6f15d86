//! A ResourceQuota of Pods in the namespace of the placeholders: the API server refuses what would exceed it, in a dry run as
//! in earnest.

use super::pool::PoolWorld;

/// The API server's words on one Pod more than a quota allows.
pub(super) fn exceeded(pod: &str, quota: &str, requested: &str, used: &str, limited: &str) -> String {
    format!("pods \"{pod}\" is forbidden: exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")
}

impl PoolWorld {
    /// Sets (`Some`) or removes (`None`) a quota of the pool's placeholders.
    pub fn set_quota(&mut self, pods: Option<u32>) {
        self.quota = pods;
        self.note_change();
    }

    /// Why one placeholder more, of this name, is refused.
    pub(super) fn over_quota(&self, name: &str) -> Option<String> {
        let (used, limited) = (self.view.placeholders.len(), self.quota?);
        let is_over = u32::try_from(used).is_ok_and(|used| used >= limited);
        is_over.then(|| exceeded(name, "placeholders", "pods=1", &format!("pods={used}"), &format!("pods={limited}")))
    }
}
