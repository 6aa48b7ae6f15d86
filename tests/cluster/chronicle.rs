//! Everything that happened to the objects of a cluster, in order: what was true for a moment only is not missed.
//!
//! All kinds share one revision counter, so that versions of different kinds can be put in order.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::ControlPlane;
use futures::TryStreamExt;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};
use noderotation::{api::time::Time, clock::Clock};
use serde_json::Value;
use tokio::{task::JoinHandle, time::sleep};

use crate::passes::annotation;

/// Group, version, kind and plural of what is followed.
pub const KINDS: [(&str, &str, &str, &str); 6] = [
    ("karpenter.sh", "v1", "NodePool", "nodepools"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Pod", "pods"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("apps", "v1", "Deployment", "deployments"),
];
/// So long nothing may have happened when the history is read.
const QUIET: Duration = Duration::from_millis(700);
/// So often that is awaited: what is asked for has happened by then.
const QUIET_ATTEMPTS: usize = 20;

/// One version of an object.
#[derive(Clone, Debug)]
pub struct Version {
    pub kind: &'static str,
    pub revision: u64,
    /// When we saw it.
    pub at: Time,
    pub gone: bool,
    pub object: Value,
}

/// Follows a cluster until it is dropped.
pub struct Chronicle {
    versions: Arc<Mutex<Vec<Version>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What happened, in order.
pub struct History(Vec<Version>);

impl Chronicle {
    /// Begins.
    pub fn begin(plane: &ControlPlane) -> Self {
        let versions = Arc::new(Mutex::new(Vec::new()));
        let follow = |kind| tokio::spawn(follow(plane.client(), kind, Arc::clone(&versions)));
        let tasks = KINDS.map(follow).into();
        Self { versions, tasks }
    }

    /// What happened so far.
    pub async fn history(&self) -> History {
        let mut known = usize::MAX;
        for _ in 0..QUIET_ATTEMPTS {
            sleep(QUIET).await;
            let count = self.versions.lock().unwrap().len();
            if count == known {
                break;
            }
            known = count;
        }
        assert!(!self.tasks.iter().any(JoinHandle::is_finished), "the history has a gap");
        let mut versions = self.versions.lock().unwrap().clone();
        versions.sort_by_key(|version| version.revision);
        History(versions)
    }
}

impl Chronicle {
    /// What was seen after the first so many versions, in the order in which it was seen; the newest may be missing.
    pub fn since(&self, count: usize) -> Vec<Version> {
        self.versions.lock().unwrap()[count..].to_vec()
    }
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn follow(client: Client, (group, version, kind, plural): (&str, &str, &'static str, &str), versions: Arc<Mutex<Vec<Version>>>) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let list = api.list(&ListParams::default()).await.unwrap();
    let note = |gone: bool, object: DynamicObject| {
        let revision = object.metadata.resource_version.as_deref().unwrap().parse().unwrap();
        versions.lock().unwrap().push(Version {
            kind,
            revision,
            at: Clock::local().now(),
            gone,
            object: serde_json::to_value(object).unwrap(),
        });
        revision
    };
    let mut from: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    list.items.into_iter().for_each(|object| {
        note(false, object);
    });
    loop {
        let Ok(events) = api.watch(&WatchParams::default(), &from.to_string()).await else {
            sleep(QUIET).await;
            continue;
        };
        let mut events = pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            from = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => note(false, object),
                WatchEvent::Deleted(object) => note(true, object),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => panic!("the history of {kind} has a gap: {error:?}"),
            };
        }
    }
}

impl History {
    /// All versions.
    pub fn all(&self) -> impl Iterator<Item = &Version> {
        self.0.iter()
    }

    /// The versions of one kind.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl DoubleEndedIterator<Item = &'a Version> {
        self.0.iter().filter(move |version| version.kind == kind)
    }

    /// The versions of one object.
    pub fn named<'a>(&'a self, kind: &'a str, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Version> {
        self.of(kind).filter(move |version| version.name() == name)
    }

    /// What an object was right before a revision.
    pub fn before<'a>(&'a self, kind: &'a str, name: &'a str, revision: u64) -> Option<&'a Version> {
        self.named(kind, name).rfind(|version| version.revision < revision).filter(|version| !version.gone)
    }

    /// The sets that the objects of a kind went through of which this holds, in order, without repetition.
    pub fn sets(&self, kind: &str, holds: impl Fn(&Value) -> bool) -> Vec<BTreeSet<String>> {
        let (mut present, mut sets) = (BTreeSet::new(), Vec::new());
        for version in self.of(kind) {
            let name = version.name().to_owned();
            if !version.gone && holds(&version.object) {
                present.insert(name)
            } else {
                present.remove(&name)
            };
            if sets.last() != Some(&present) {
                sets.push(present.clone());
            }
        }
        sets
    }

    /// The values that an annotation of ours on an object went through, in order, without repetition.
    pub fn values(&self, kind: &str, name: &str, key: &str) -> Vec<Option<String>> {
        let mut values: Vec<_> = self.named(kind, name).map(|version| annotation(&version.object, key)).collect();
        values.dedup();
        values
    }

    /// The most claims that a pool had at once, those being deleted too.
    pub fn claims_max(&self, pool: &str) -> usize {
        let sets = self.sets("NodeClaim", |claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool);
        sets.iter().map(BTreeSet::len).max().unwrap_or_default()
    }

    /// The fewest Ready replicas that a Deployment told, from this revision on.
    pub fn ready_min(&self, deployment: &str) -> i64 {
        let ready = |version: &Version| version.object["status"]["readyReplicas"].as_i64().unwrap_or_default();
        self.named("Deployment", deployment).map(ready).min().unwrap()
    }

    /// When a claim was deleted: the revision from which on it carried a deletion timestamp.
    pub fn deleted_at(&self, claim: &str) -> u64 {
        let deleted = |version: &&Version| version.object["metadata"]["deletionTimestamp"].is_string();
        self.named("NodeClaim", claim).find(deleted).unwrap_or_else(|| panic!("{claim} was never deleted")).revision
    }

    /// The Node that stood ready for a claim's Pods at the moment the claim was deleted: its placeholder runs there, and the
    /// Node is Ready.
    pub fn surge_node(&self, pool: &str, claim: &str) -> String {
        let deleted_at = self.deleted_at(claim);
        let own = self.before("NodeClaim", claim, deleted_at).unwrap().object["status"]["nodeName"].as_str().unwrap().to_owned();
        let of_claim = |version: &&Version| annotation(&version.object, "surge-for").as_deref() == Some(claim);
        let names: BTreeSet<&str> = self.of("Pod").filter(of_claim).map(Version::name).collect();
        let placeholders: Vec<&Version> = names.into_iter().filter_map(|name| self.before("Pod", name, deleted_at)).collect();
        let [placeholder] = placeholders[..] else { panic!("{} placeholders of {claim} when it was deleted", placeholders.len()) };
        assert_eq!(placeholder.object["status"]["phase"], "Running", "{claim}");
        let host = placeholder.object["spec"]["nodeName"].as_str().unwrap().to_owned();
        let node = &self.before("Node", &host, deleted_at).unwrap().object;
        let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Ready");
        assert_eq!(ready.unwrap()["status"], "True", "{host} was not Ready when {claim} was deleted");
        assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], pool);
        assert_ne!(host, own);
        host
    }

    /// Where the surge of a pool's only rotation found its room, as told and as it was. Karpenter is quicker here than
    /// elsewhere: a claim of the very second in which the attempt began counts as there before.
    pub fn surge_path(&self, pool: &str) -> [String; 2] {
        let told = self.values("NodePool", pool, "surge-path").into_iter().flatten().next_back().unwrap();
        let old = self.rotations(pool).pop().unwrap();
        let started = self.values("NodeClaim", &old, "started-at").into_iter().flatten().next_back().unwrap();
        let of_pool = |claim: &&Version| claim.object["metadata"]["labels"]["karpenter.sh/nodepool"] == pool && claim.name() != old;
        let created = |claim: &Version| claim.object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        let newest = self.of("NodeClaim").filter(of_pool).map(created).max().unwrap();
        [told, if newest >= started { "provisioned" } else { "absorbed" }.to_owned()]
    }

    /// From which to which revision a pool was anchored, for each rotation.
    pub fn anchored(&self, pool: &str) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let mut anchored = None;
        for version in self.named("NodePool", pool) {
            let anchor = annotation(&version.object, "active-rotation");
            if anchor != anchored {
                match &anchor {
                    Some(_) => spans.push((version.revision, u64::MAX)),
                    None => spans.last_mut().unwrap().1 = version.revision,
                }
                anchored = anchor;
            }
        }
        spans
    }

    /// The claims of a pool in flight, in the order of their anchors.
    pub fn rotations(&self, pool: &str) -> Vec<String> {
        self.values("NodePool", pool, "active-rotation").into_iter().flatten().collect()
    }

    /// How many claims of each pool were in flight at once at most.
    pub fn in_flight_max(&self) -> BTreeMap<String, usize> {
        let pools: BTreeSet<&str> = self.of("NodePool").map(Version::name).collect();
        let of = |pool: &str| {
            let in_flight = |claim: &Value| {
                claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool
                    && matches!(annotation(claim, "state").as_deref(), Some("pending" | "draining"))
            };
            self.sets("NodeClaim", in_flight).iter().map(BTreeSet::len).max().unwrap_or_default()
        };
        pools.into_iter().map(|pool| (pool.to_owned(), of(pool))).collect()
    }
}

impl Version {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap()
    }
}
