//! Watches a pool and its workloads while a test goes on, so that what was true for a moment only is not missed.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::control_plane::ControlPlane;
use crate::error::{Attempt, Error};
use crate::fleet::Workload;

const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What a pool and a workload went through since the observer was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The most NodeClaims that the pool had at once, those being deleted too.
    pub claims_max: usize,
    /// Every NodeClaim that the pool ever had.
    pub claims_seen: BTreeSet<String>,
    /// The fewest Ready replicas that the Deployment's status told.
    pub ready_min: i32,
}

/// Follows one pool and one workload until it is dropped. It watches, it does not sample: a NodeClaim that lived for a
/// moment is counted.
pub struct Observer {
    observed: Arc<Mutex<Observed>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Observer {
    /// What was seen so far.
    pub fn observed(&self) -> Observed {
        lock(&self.observed).clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl ControlPlane {
    /// Begins to observe a workload and its pool.
    pub async fn observe(&self, workload: &Workload) -> Result<Observer, Error> {
        let deployments: Api<Deployment> = Api::namespaced(self.client(), workload.in_namespace());
        let deployment = deployments.get(workload.name()).await.attempt(|| format!("read the Deployment {}", workload.name()))?;
        let observed = Arc::new(Mutex::new(Observed { ready_min: ready(&deployment), ..Observed::default() }));
        let claims = tokio::spawn(follow_claims(self.node_claims(), workload.pool().to_owned(), observed.clone()));
        let readiness = tokio::spawn(follow_readiness(deployments, workload.name().to_owned(), observed.clone()));
        Ok(Observer { observed, tasks: vec![claims, readiness] })
    }
}

async fn follow_claims(claims: Api<DynamicObject>, pool: String, observed: Arc<Mutex<Observed>>) {
    let selector = format!("karpenter.sh/nodepool={pool}");
    loop {
        let _watch_again = watch_claims(&claims, &selector, &observed).await;
        sleep(RETRY_PAUSE).await;
    }
}

async fn watch_claims(claims: &Api<DynamicObject>, selector: &str, observed: &Mutex<Observed>) -> kube::Result<()> {
    let list = claims.list(&ListParams::default().labels(selector)).await?;
    let mut present: BTreeSet<String> = list.items.iter().map(ResourceExt::name_any).collect();
    note_claims(observed, &present);
    let version = list.metadata.resource_version.unwrap_or_default();
    let mut events = pin!(claims.watch(&WatchParams::default().labels(selector), &version).await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(claim) | WatchEvent::Modified(claim) => present.insert(claim.name_any()),
            WatchEvent::Deleted(claim) => present.remove(&claim.name_any()),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => return Ok(()),
        };
        note_claims(observed, &present);
    }
    Ok(())
}

async fn follow_readiness(deployments: Api<Deployment>, name: String, observed: Arc<Mutex<Observed>>) {
    loop {
        let _watch_again = watch_readiness(&deployments, &name, &observed).await;
        sleep(RETRY_PAUSE).await;
    }
}

async fn watch_readiness(deployments: &Api<Deployment>, name: &str, observed: &Mutex<Observed>) -> kube::Result<()> {
    let now = deployments.get(name).await?;
    note_ready(observed, ready(&now));
    let only_this = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(deployments.watch(&only_this, &now.resource_version().unwrap_or_default()).await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(deployment) | WatchEvent::Modified(deployment) => note_ready(observed, ready(&deployment)),
            WatchEvent::Deleted(_) => note_ready(observed, 0),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return Ok(()),
        }
    }
    Ok(())
}

fn ready(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

fn note_claims(observed: &Mutex<Observed>, present: &BTreeSet<String>) {
    let mut observed = lock(observed);
    observed.claims_max = observed.claims_max.max(present.len());
    observed.claims_seen.extend(present.iter().cloned());
}

fn note_ready(observed: &Mutex<Observed>, ready: i32) {
    let mut observed = lock(observed);
    observed.ready_min = observed.ready_min.min(ready);
}

fn lock(observed: &Mutex<Observed>) -> std::sync::MutexGuard<'_, Observed> {
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}
