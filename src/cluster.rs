//! What a pass needs from a cluster: the real one (`kube`) and the embedded one (`world`) answer the same questions.

use std::collections::BTreeSet;

use crate::{
    api::time::Time,
    rotation::{
        effect::{Effect, Fresh, Outcome},
        notice::Notice,
    },
    view::{Need, View},
};

/// A cluster, as one pass uses it.
#[allow(async_fn_in_trait, reason = "a pass runs on one task and never needs its futures to be Send")]
pub trait Cluster {
    /// The server's time now.
    fn now(&self) -> Time;

    /// Reads the View.
    ///
    /// # Errors
    /// [`Failure`] when a list can't be read.
    async fn load(&self) -> Result<View, Failure>;

    /// Reads what steps asked for, into `view.facts`; what can't be answered goes into `facts.failed`.
    async fn read(&self, view: &mut View, needs: &BTreeSet<Need>);

    /// Performs one effect: reads its object, judges, writes, and on conflict judges again, at most five times.
    ///
    /// # Errors
    /// [`Failure`] for anything that says nothing about the effect: transport, deadline, a lost Lease, a signal.
    async fn apply(&self, effect: &Effect) -> Result<Outcome, Failure>;

    /// Performs one effect, which may first be judged on a copy of its object that the pass has (`Some(None)`: there was no such
    /// object). What that comes to counts only where a patch lands by it, and so on that very version; else as
    /// [`Cluster::apply`]. Where reading costs nothing, no copy is needed.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    async fn apply_knowing(&self, effect: &Effect, _known: Option<Option<Fresh>>) -> Result<Outcome, Failure> {
        self.apply(effect).await
    }

    /// Tells notices as Events. Failing to tell costs nothing; it is logged.
    async fn tell(&self, notices: &[Notice]);

    /// Writes the observational status of a policy, where it changed; a conflict is silent.
    ///
    /// # Errors
    /// [`Failure`] as in [`Cluster::apply`].
    async fn write_status(&self, policy: &str, resource_version: &str, status: &serde_json::Value) -> Result<(), Failure>;
}

/// Why a call to the cluster says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The call itself failed.
    #[error("{attempted}: {why}")]
    Call {
        /// What was attempted, on which object.
        attempted: String,
        /// Why it failed, with the server's words.
        why: String,
    },
    /// The API server does not serve what a pass needs, or doesn't let us read it.
    #[error("{0}")]
    Preflight(String),
    /// The Lease is no longer ours: no further write.
    #[error("the Lease is lost: {0}")]
    LeaseLost(String),
    /// The pass ran into its deadline.
    #[error("the pass's deadline has passed, before {0}")]
    Deadline(String),
    /// A signal asks the pass to end.
    #[error("interrupted by a signal, before {0}")]
    Interrupted(String),
}
