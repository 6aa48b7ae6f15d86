//! The operator of a scene: does what is due, by the API, on either side.

use chrono::TimeDelta;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use noderotation::api::time::Time;
use serde_json::{Value, json};

use super::{
    scene::{Deed, Scene},
    story::Teller,
};

/// In which pool, after which transitions, how many seconds later, and what.
type Due = (&'static str, &'static [&'static str], i64, Deed);

/// What is left to be done.
pub struct Operator {
    client: Client,
    left: Vec<Due>,
}

impl Operator {
    pub fn new(client: Client, scenes: &[Scene]) -> Self {
        let of = |scene: &Scene| {
            let name = scene.name;
            scene.deeds.clone().into_iter().map(move |(at, later, deed)| (name, at, later, deed))
        };
        Self { client, left: scenes.iter().flat_map(of).collect() }
    }

    /// Does what is due.
    pub async fn act(&mut self, now: Time, teller: &Teller) {
        let is_due = |(pool, after, later, _): &Due| {
            let came = |head: &&str| teller.rows(pool).iter().find(|row| row.head() == **head).map(|row| row.at);
            let all: Option<Vec<Time>> = after.iter().map(came).collect();
            all.is_some_and(|all| all.iter().all(|at| now - *at >= TimeDelta::seconds(*later)))
        };
        let (due, left): (Vec<Due>, Vec<Due>) = std::mem::take(&mut self.left).into_iter().partition(is_due);
        self.left = left;
        for (pool, _, _, deed) in due {
            self.perform(pool, &deed, teller).await;
        }
    }

    pub async fn perform(&self, pool: &str, deed: &Deed, teller: &Teller) {
        match deed {
            Deed::Pool(patch) => self.patch(&self.all("karpenter.sh", "v1", "NodePool"), pool, patch).await,
            Deed::Policy(patch) => self.patch(&self.all("noderotation.io", "v1alpha1", "RotationPolicy"), pool, patch).await,
            Deed::Budget(away) => {
                let kind = GroupVersionKind::gvk("policy", "v1", "PodDisruptionBudget");
                let api = Api::namespaced_with(self.client.clone(), "default", &ApiResource::from_gvk(&kind));
                self.patch(&api, pool, &json!({"spec": {"maxUnavailable": away}})).await;
            }
            Deed::Delete(claim) => {
                let claims = self.all("karpenter.sh", "v1", "NodeClaim");
                claims.delete(&teller.claim(pool, claim), &DeleteParams::default()).await.unwrap();
            }
            Deed::Protect(claim) => {
                let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
                self.patch(&self.all("", "v1", "Node"), &teller.node(pool, claim), &patch).await;
            }
        }
    }

    /// Objects of a cluster-scoped kind.
    pub fn all(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = match kind {
            "RotationPolicy" => ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), "rotationpolicies"),
            _ => ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
        };
        Api::all_with(self.client.clone(), &kind)
    }

    async fn patch(&self, api: &Api<DynamicObject>, name: &str, patch: &Value) {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
