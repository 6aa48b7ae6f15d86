//! NodePools, NodeClaims, Nodes and Pods as they are in a large cluster, made directly: no Karpenter, no kubelet and no
//! controller acts on them.

use std::{collections::BTreeMap, fmt, path::Path};

use control_plane::{ControlPlane, Options, Pool};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::Request,
};
use noderotation::api::keys::{DO_NOT_DISRUPT, PREFIX, WINDOW_SETTLED_AT};
use serde_json::{Value, json};

use crate::objects;

/// NodePools, whatever the size.
pub const POOLS: usize = 10;
/// How many objects are made at once.
const AT_ONCE: usize = 16;

/// A cluster that grows.
pub struct Fleet {
    /// Its control plane.
    pub plane: ControlPlane,
    claims: usize,
    pods: usize,
}

/// What the policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// The next window is days away, and no claim is due.
    Outside,
    /// A window is open and every claim is due, but the policy is suspended.
    Gated,
    /// A window is open, every claim is due, and each pool starts a rotation.
    Rotating,
}

impl Fleet {
    /// Starts a control plane with pools and nothing in them.
    pub async fn start() -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/without-cronjob")).await.unwrap();
        let pools = (0..POOLS).map(|number| Pool::new(&pool(number)).expire_after("720h").termination_grace_period("1h"));
        let objects: Vec<Value> = pools.flat_map(|pool| pool.objects()).collect();
        plane.apply_objects(&objects).await.unwrap();
        plane.stop_controllers();
        Self { plane, claims: 0, pods: 0 }
    }

    /// Makes NodeClaims and Nodes until there are so many.
    pub async fn grow(&mut self, claims: usize) {
        let client = self.plane.client();
        let new = (self.claims..claims).map(|number| (pool(number % POOLS), node_name(number)));
        stream::iter(new).for_each_concurrent(AT_ONCE, |(pool, name)| make_claim(client.clone(), pool, name)).await;
        self.claims = self.claims.max(claims);
    }

    /// Makes Pods, evenly on the Nodes, until there are so many.
    pub async fn fill(&mut self, pods: usize) {
        let api: Api<Pod> = Api::default_namespaced(self.plane.client());
        let nodes = self.claims;
        let new = (self.pods..pods).map(|number| (node_name(number % nodes), format!("filler-5d4f8c7b9-{number:06}")));
        stream::iter(new)
            .for_each_concurrent(AT_ONCE, |(node, name)| {
                let api = api.clone();
                async move {
                    let pod: Pod = serde_json::from_value(objects::pod(&node, &name)).unwrap();
                    api.create(&PostParams::default(), &pod).await.unwrap();
                }
            })
            .await;
        self.pods = self.pods.max(pods);
    }

    /// Removes all Pods.
    pub async fn empty(&mut self) {
        let api: Api<Pod> = Api::default_namespaced(self.plane.client());
        let names = (0..self.pods).map(|number| format!("filler-5d4f8c7b9-{number:06}"));
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        stream::iter(names)
            .for_each_concurrent(AT_ONCE, |name| {
                let (api, at_once) = (api.clone(), at_once.clone());
                async move { drop(api.delete(&name, &at_once).await.unwrap()) }
            })
            .await;
        self.pods = 0;
    }

    /// Makes the policy say this.
    pub async fn turn(&self, mood: Mood) {
        let namespaces: Api<Namespace> = Api::all(self.plane.client());
        let started = namespaces.get("default").await.unwrap().metadata.creation_timestamp.unwrap().0;
        let today = started.strftime("%A").to_string();
        let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        let today = days.iter().position(|day| *day == today).unwrap();
        let later = &days[(today + 3) % days.len()][..3];
        let all: Vec<&str> = days.iter().map(|day| &day[..3]).collect();
        let mut spec = json!({"nodePoolSelector": {}, "surge": {"readyTimeout": "20m"}});
        let window = |days: &[&str], end: &str| json!([{"timezone": "Europe/Berlin", "days": days, "start": "00:00", "end": end}]);
        match mood {
            Mood::Outside => spec["maintenanceWindows"] = window(&[later], "04:00"),
            Mood::Gated | Mood::Rotating => {
                spec["maintenanceWindows"] = window(&all, "24:00");
                spec["ageThreshold"] = json!("1s");
                spec["suspend"] = json!(mood == Mood::Gated);
            }
        }
        let policy = json!({"apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy", "metadata": {"name": "all"}, "spec": spec});
        self.plane.run_kubectl(&["delete", "rotationpolicy", "--all"], "").await.unwrap();
        self.plane.apply_objects(&[policy]).await.unwrap();
    }

    /// Takes back whatever passes have written.
    pub async fn reset(&self) {
        let client = self.plane.client();
        let placeholders: Api<Pod> = Api::namespaced(client.clone(), "node-rotation-system");
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        placeholders.delete_collection(&at_once, &ListParams::default()).await.unwrap();
        for plural in ["nodepools", "nodeclaims"] {
            let path = format!("/apis/karpenter.sh/v1/{plural}");
            restore(&client, &path).await;
        }
        restore(&client, "/api/v1/nodes").await;
    }

    /// The mean size of each kind's JSON in bytes, as the API server answers it.
    pub async fn sizes(&self) -> BTreeMap<&'static str, usize> {
        let mut sizes = BTreeMap::new();
        let paths =
            [("NodeClaim", "/apis/karpenter.sh/v1/nodeclaims"), ("Node", "/api/v1/nodes"), ("Pod", "/api/v1/namespaces/default/pods")];
        for (kind, path) in paths {
            let request = Request::new(path).list(&ListParams::default().limit(10)).unwrap();
            let text = self.plane.client().request_text(request).await.unwrap();
            let items = serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().map_or(0, Vec::len);
            sizes.insert(kind, text.len() / items.max(1));
        }
        sizes
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{POOLS} NodePools, {} NodeClaims and Nodes, {} Pods", self.claims, self.pods)
    }
}

fn pool(number: usize) -> String {
    format!("pool-{number}")
}

fn node_name(number: usize) -> String {
    format!("{}-{number:05}", pool(number % POOLS))
}

async fn make_claim(client: Client, pool: String, name: String) {
    let collection = Request::new("/apis/karpenter.sh/v1/nodeclaims");
    let create = collection.create(&PostParams::default(), objects::claim(&pool, &name).to_string().into_bytes()).unwrap();
    client.request::<Value>(create).await.unwrap();
    let status = Patch::Merge(json!({"status": objects::claim_status(&name)}));
    let patch = collection.patch_subresource("status", &name, &PatchParams::apply("karpenter"), &status).unwrap();
    client.request::<Value>(patch).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    nodes.create(&PostParams::default(), &serde_json::from_value(objects::node(&pool, &name)).unwrap()).await.unwrap();
}

/// How far windows have been judged is no part of a rotation.
fn is_of_rotation(key: &str) -> bool {
    key == DO_NOT_DISRUPT || (key.starts_with(PREFIX) && key != WINDOW_SETTLED_AT)
}

/// Removes our annotations and labels, and what we put on Nodes.
async fn restore(client: &Client, path: &str) {
    let list = Request::new(path).list_metadata(&ListParams::default()).unwrap();
    let list: Value = client.request(list).await.unwrap();
    for item in list["items"].as_array().unwrap() {
        let metadata = &item["metadata"];
        let ours = |field: &str| -> Value {
            let keys = metadata[field].as_object().into_iter().flatten().map(|(key, _)| key);
            keys.filter(|key| is_of_rotation(key)).map(|key| (key.clone(), Value::Null)).collect()
        };
        let (annotations, labels) = (ours("annotations"), ours("labels"));
        if annotations == json!({}) && labels == json!({}) {
            continue;
        }
        let mut patch = json!({"metadata": {"annotations": annotations, "labels": labels}});
        if path.ends_with("nodes") {
            patch["spec"] = json!({"unschedulable": null, "taints": null});
        }
        let name = metadata["name"].as_str().unwrap();
        let request = Request::new(path).patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        client.request::<Value>(request).await.unwrap();
    }
}
