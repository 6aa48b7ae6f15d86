//! One pass's hold on the cluster: [`Cluster`] on a real API server.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::{
    api::{Patch, PatchParams},
    core::Request as Resource,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    call::Api,
    events::{Said, Teller},
    execute::Executor,
    facts,
    faults::Faults,
    lease::{self, Acquisition, Held, LastPass, Lease, Sight},
    load,
    preflight::{PreflightError, preflight},
    resource::POLICIES,
    stop::Stop,
};
use crate::{
    api::{keys::PROGRAM, time::Time},
    clock::Clock,
    cluster::{Cluster, Failure},
    rotation::effect::{Effect, Fresh, Outcome, apply},
    view::{Need, View},
};

/// Longer than anyone waits for the Lease.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a pass uses the cluster.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Where the Lease and the placeholders are.
    pub namespace: String,
    /// How long the pass may take.
    pub deadline: Duration,
    /// One limit for every request instead of our own.
    pub request_timeout: Option<Duration>,
    /// Tells when a signal has come.
    pub stop: Stop,
}

/// A connection on which a pass can begin. It reads, and writes nothing until it holds the Lease.
pub struct Session {
    api: Api,
    guard: Guard,
    faults: Faults,
    namespace: String,
    identity: String,
    pass: String,
    said: Said,
}

/// What every write has to pass: no signal, time left, the Lease ours.
pub struct Guard {
    api: Api,
    lease: Option<Lease>,
}

impl Guard {
    /// Whether this may be written now.
    ///
    /// # Errors
    /// [`Failure`] that says what forbids it.
    pub fn permits(&self, attempted: &str) -> Result<(), Failure> {
        self.has_time(attempted)?;
        match &self.lease {
            Some(lease) => lease.permits(self.api.clock.now()).map_err(Failure::LeaseLost),
            None => Err(Failure::LeaseLost("it was not taken".into())),
        }
    }

    /// Whether neither a signal nor the deadline forbids it.
    fn has_time(&self, attempted: &str) -> Result<(), Failure> {
        if self.api.stop.requested().is_some() {
            return Err(Failure::Interrupted(attempted.into()));
        }
        if Instant::now() >= self.api.deadline {
            return Err(Failure::Deadline(attempted.into()));
        }
        Ok(())
    }
}

impl Session {
    /// Begins: preflight, and with it the clock.
    ///
    /// # Errors
    /// [`PreflightError`].
    pub async fn open(client: kube::Client, terms: Terms) -> Result<Self, PreflightError> {
        let session = Self::begin(client, terms);
        session.preflight().await?;
        Ok(session)
    }

    /// Proves that what is needed is served and readable; sets the clock, too.
    ///
    /// # Errors
    /// [`PreflightError`].
    pub async fn preflight(&self) -> Result<(), PreflightError> {
        preflight(&self.api).await
    }

    /// Begins without asking anything: the first answer sets the clock, and the lists of [`Cluster::load`] prove the rest.
    pub fn begin(client: kube::Client, terms: Terms) -> Self {
        let mut api = Api::new(client, terms.deadline, terms.stop);
        if let Some(limit) = terms.request_timeout {
            api = api.limited(limit);
        }
        Self {
            guard: Guard { api: api.clone(), lease: None },
            api,
            faults: Faults::from_env(),
            namespace: terms.namespace,
            identity: lease::identity(),
            pass: format!("{:016x}", rand::random::<u64>()),
            said: Said::default(),
        }
    }

    /// Takes the Lease, so that writes are allowed; waits for as long as `patience` while another holds it. `Some`: it is
    /// still held. The deadline moves by the time that was waited: it bounds what the pass does.
    ///
    /// # Errors
    /// [`Failure`] where the Lease can't be read or written.
    pub async fn take_lease(&mut self, patience: Duration) -> Result<Option<Held>, Failure> {
        let begun = Instant::now();
        let acquired = lease::acquire(&self.patient(patience), &self.namespace, &self.identity, patience).await?;
        self.waited(begun, patience);
        match acquired {
            Acquisition::Ours(lease) => {
                self.guard.lease = Some(lease);
                Ok(None)
            }
            Acquisition::Held(held) => Ok(Some(held)),
        }
    }

    /// Sees whether the Lease is free, waiting likewise, and writes nothing yet.
    ///
    /// # Errors
    /// [`Failure`] where it can't be read.
    pub async fn look_for_lease(&mut self, patience: Duration) -> Result<Result<Sight, Held>, Failure> {
        let begun = Instant::now();
        let seen = lease::look_for(&self.patient(patience), &self.namespace, &self.identity, patience).await?;
        self.waited(begun, patience);
        Ok(seen)
    }

    /// Takes the Lease that was seen free; `false` where somebody has written it since.
    ///
    /// # Errors
    /// [`Failure`] where it can't be written, or a signal or the deadline came first.
    pub async fn take_seen_lease(&mut self, sight: Sight) -> Result<bool, Failure> {
        self.guard.has_time("take the Lease")?;
        self.guard.lease = sight.take().await?;
        Ok(self.guard.lease.is_some())
    }

    fn patient(&self, patience: Duration) -> Api {
        let mut patient = self.api.clone();
        patient.deadline += patience.min(PATIENCE);
        patient
    }

    fn waited(&mut self, begun: Instant, patience: Duration) {
        self.api.deadline += begun.elapsed().min(patience);
        self.guard.api.deadline = self.api.deadline;
    }

    /// The Lease as it is stored, whoever holds it; `None` where there is none.
    ///
    /// # Errors
    /// [`Failure`] where it can't be read.
    pub async fn lease(&self) -> Result<Option<lease::Record>, Failure> {
        lease::look(&self.api, &self.namespace).await
    }

    /// Gives the Lease back, after the last write.
    pub async fn close(self) {
        self.give_back(None).await;
    }

    /// The same at the end of a pass, with word of how it ended.
    pub async fn finish(self, last: LastPass) {
        self.give_back(Some(last)).await;
    }

    async fn give_back(self, last: Option<LastPass>) {
        if let Some(lease) = self.guard.lease {
            lease.release(last).await;
        }
    }

    /// The clock that the API server's answers set.
    pub fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.api.clock)
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The id that signs this pass's writes.
    pub fn pass_id(&self) -> &str {
        &self.pass
    }
}

impl Cluster for Session {
    fn now(&self) -> Time {
        self.api.clock.now()
    }

    async fn load(&self) -> Result<View, Failure> {
        load::load(&self.api, &self.namespace).await
    }

    async fn read(&self, view: &mut View, needs: &BTreeSet<Need>) {
        let reader = facts::Reader { api: &self.api, namespace: &self.namespace, pass: &self.pass };
        facts::read(reader, view, needs).await;
    }

    async fn apply(&self, effect: &Effect) -> Result<Outcome, Failure> {
        self.apply_knowing(effect, None).await
    }

    async fn apply_knowing(&self, effect: &Effect, known: Option<Option<Fresh>>) -> Result<Outcome, Failure> {
        let executor = Executor { api: &self.api, guard: &self.guard, faults: &self.faults, pass: &self.pass };
        executor.perform(&effect.target(), known, |fresh| apply(effect, fresh, &self.pass)).await
    }

    async fn tell(&self, notices: &[crate::rotation::notice::Notice]) {
        let teller = Teller { api: &self.api, guard: &self.guard, said: &self.said, instance: &self.identity, pass: &self.pass };
        teller.tell(notices).await;
    }

    /// A merge patch: a field that is to go has to be there as `null`.
    async fn write_status(&self, policy: &str, resource_version: &str, status: &Value) -> Result<(), Failure> {
        let attempted = format!("patch the status of RotationPolicy {policy}");
        self.guard.permits(&attempted)?;
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": resource_version}, "status": status}));
        let params = PatchParams { field_manager: Some(PROGRAM.into()), ..PatchParams::default() };
        let request = Resource::new(POLICIES).patch_subresource("status", policy, &params, &patch);
        let request = request.map_err(|error| Failure::Call { attempted: attempted.clone(), why: error.to_string() })?;
        match self.api.write(&request).await {
            Ok(_) => Ok(()),
            // Changed or deleted meanwhile: the next pass sees it as it is then.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error.failure(&attempted)),
        }
    }
}
