//! Bringing a fleet to where a test starts from.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::error::{Attempt, Error};
use crate::fleet::{PODS_PER_FULL_NODE, PODS_PER_PART_FILLED_NODE, Pool, Workload};

/// How long a step of filling may take beyond the time that Pods take to be Ready.
const STEP_LIMIT: Duration = Duration::from_secs(60);

impl ControlPlane {
    /// Makes a pool (or changes it) and waits until Karpenter takes it as Ready. Pods that ask for it earlier wait ten
    /// seconds for Karpenter's next look.
    pub async fn install(&self, pool: &Pool) -> Result<(), Error> {
        self.apply_objects(&pool.objects()).await?;
        let pools = self.node_pools();
        self.wait_for(&format!("the NodePool {} is Ready", pool.name()), STEP_LIMIT, async || {
            let stored = pools.get(pool.name()).await.attempt(|| format!("read the NodePool {}", pool.name()))?;
            Ok(has_condition(&stored.data, "Ready"))
        })
        .await
    }

    /// Makes a workload (or changes it) and waits until all its Pods are Ready.
    pub async fn deploy(&self, workload: &Workload) -> Result<(), Error> {
        self.apply_objects(&workload.objects()).await?;
        self.wait_for_pods(workload).await
    }

    /// NodePools, whose type is not compiled in.
    pub fn node_pools(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodePool");
        Api::all_with(self.client(), &ApiResource::from_gvk_with_plural(&kind, "nodepools"))
    }

    /// NodeClaims, whose type is not compiled in.
    pub fn node_claims(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
        Api::all_with(self.client(), &ApiResource::from_gvk_with_plural(&kind, "nodeclaims"))
    }

    /// The NodeClaims of a pool, those being deleted too.
    pub async fn node_claims_of(&self, pool: &str) -> Result<Vec<DynamicObject>, Error> {
        let of_pool = ListParams::default().labels(&format!("karpenter.sh/nodepool={pool}"));
        let claims = self.node_claims().list(&of_pool).await.attempt(|| format!("list the NodeClaims of {pool}"))?;
        Ok(claims.items)
    }

    /// The Pods of a workload, those being deleted too.
    pub async fn pods_of(&self, workload: &Workload) -> Result<Vec<Pod>, Error> {
        let of_workload = ListParams::default().labels(&format!("app={}", workload.name()));
        let pods: Api<Pod> = Api::namespaced(self.client(), workload.in_namespace());
        let pods = pods.list(&of_workload).await.attempt(|| format!("list the Pods of {}", workload.name()))?;
        Ok(pods.items)
    }

    /// Waits until a pool has exactly `count` NodeClaims, each with this condition true, such as `Initialized`.
    pub async fn wait_for_claims(&self, pool: &str, count: usize, condition: &str) -> Result<(), Error> {
        self.wait_for(&format!("{count} NodeClaims of {pool} that are {condition}"), self.step_limit(), async || {
            let claims = self.node_claims_of(pool).await?;
            Ok(claims.len() == count && claims.iter().all(|claim| has_condition(&claim.data, condition)))
        })
        .await
    }

    /// Waits until a workload has exactly its replicas, all Ready.
    pub async fn wait_for_pods(&self, workload: &Workload) -> Result<(), Error> {
        self.wait_for(&format!("all Pods of {} are Ready", workload.name()), self.step_limit(), async || {
            let pods = self.pods_of(workload).await?;
            Ok(pods.len() == workload.replica_count() as usize && pods.iter().all(is_ready))
        })
        .await
    }

    /// Makes a pool of exactly `nodes` Nodes, each with five Pods of 1 cpu and room for two more, all Ready; answers the
    /// workload as it is then. It fills the Nodes, and then scales down with the Pods to go chosen, two on each Node.
    /// On part-filled Nodes a placeholder that stays too long makes Karpenter launch a Node too many, which the
    /// scheduler's preemption hides on full ones.
    pub async fn part_filled_fleet(&self, pool: &Pool, nodes: u32) -> Result<Workload, Error> {
        let workload = Workload::new(pool.name(), pool.name());
        self.part_fill(pool, workload, nodes).await
    }

    /// As [`ControlPlane::part_filled_fleet`], with a workload of your own (its replicas are set here, its Pods must ask
    /// for 1 cpu).
    pub async fn part_fill(&self, pool: &Pool, workload: Workload, nodes: u32) -> Result<Workload, Error> {
        self.fill_with(pool, workload, PODS_PER_PART_FILLED_NODE, nodes).await
    }

    /// As [`ControlPlane::part_filled_fleet`], with the five Pods of each Node from two workloads: three of the first, two
    /// of the second. Each has a budget of its own, so that a drain moves two Pods at once.
    pub async fn part_fill_two(&self, pool: &Pool, [first, second]: [Workload; 2], nodes: u32) -> Result<[Workload; 2], Error> {
        const SECOND: u32 = 2;
        let first = self.fill_with(pool, first, PODS_PER_PART_FILLED_NODE - SECOND, nodes).await?;
        let second = second.replicas(nodes * SECOND);
        self.deploy(&second).await?;
        self.check_each_node_has(&second, SECOND).await?;
        Ok([first, second])
    }

    /// Fills the Nodes, and leaves so many Pods on each.
    async fn fill_with(&self, pool: &Pool, workload: Workload, pods: u32, nodes: u32) -> Result<Workload, Error> {
        let full = workload.replicas(nodes * PODS_PER_FULL_NODE);
        self.install(pool).await?;
        self.deploy(&full).await?;
        self.wait_for_claims(pool.name(), nodes as usize, "Initialized").await?;
        self.mark_surplus(&full, pods).await?;

        let part = full.replicas(nodes * pods);
        self.deploy(&part).await?;
        self.check_each_node_has(&part, pods).await?;
        Ok(part)
    }

    async fn check_each_node_has(&self, workload: &Workload, count: u32) -> Result<(), Error> {
        let nodes = self.pods_by_node(workload).await?;
        let wrong: Vec<_> = nodes.into_iter().filter(|(_, pods)| pods.len() as u32 != count).collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Error::Unreadable { what: "the part-filled fleet".into(), why: format!("{wrong:?}") }),
        }
    }

    /// The Pods of a workload by Node, by name.
    pub async fn pods_by_node(&self, workload: &Workload) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.pods_of(workload).await? {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            nodes.entry(node).or_default().push(pod.name_any());
        }
        Ok(nodes)
    }

    /// Tells the ReplicaSet controller which Pods to end first: all but so many of each Node.
    async fn mark_surplus(&self, workload: &Workload, kept: u32) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client(), workload.in_namespace());
        let first_to_go = Patch::Merge(json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}));
        for names in self.pods_by_node(workload).await?.values() {
            for name in names.iter().skip(kept as usize) {
                let marked = pods.patch(name, &PatchParams::default(), &first_to_go).await;
                marked.attempt(|| format!("mark the Pod {name} as first to go"))?;
            }
        }
        Ok(())
    }

    fn step_limit(&self) -> Duration {
        STEP_LIMIT + self.options().pod_ready_delay + self.options().pod_stop_delay
    }
}

/// Whether `status.conditions` of an object says so.
pub fn has_condition(object: &serde_json::Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
}

/// Whether a Pod is Ready and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none() && conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}
