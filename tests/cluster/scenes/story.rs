//! What happened to pools, as transitions, told from nothing but the objects of the API: so the same words tell of the
//! world and of the real control plane.

use std::collections::{BTreeMap, BTreeSet};

use control_plane::has_condition;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use noderotation::api::time::{Time, parse_annotation};
use serde_json::Value;

use crate::passes::annotation;

/// An object's kind and name, and what it is now; `None` once it is gone.
pub type Seen = (&'static str, String, Option<Value>);

/// A transition.
#[derive(Clone, Debug)]
pub struct Row {
    /// What happened.
    pub what: &'static str,
    /// To whom: a claim by its name in the story (`a` is the one to be rotated), or `pool`.
    pub who: String,
    /// What was true then.
    pub detail: String,
    /// When it was seen.
    pub at: Time,
    /// When it happened, where the objects say so: then later times are measured from it.
    pub stamp: Option<Time>,
}

impl Row {
    pub fn head(&self) -> String {
        format!("{} {}", self.what, self.who)
    }
}

/// Follows pools.
pub struct Teller {
    objects: BTreeMap<(&'static str, String), Value>,
    pools: BTreeMap<String, Story>,
}

/// One pool's story.
#[derive(Clone, Default)]
pub struct Story {
    pub rows: Vec<Row>,
    /// The claims' names in the story.
    names: BTreeMap<String, String>,
    /// Claims whose Nodes were Ready once.
    ready: BTreeSet<String>,
    before: Picture,
}

/// What of a pool is told.
#[derive(Clone, Default)]
struct Picture {
    pool: Value,
    claims: BTreeMap<String, Claim>,
    /// The placeholder's UID.
    placeholder: Option<String>,
    /// The claim on whose Node the placeholder runs. kwok starts Pods on Nodes that are not Ready, too, as no kubelet does: that
    /// doesn't count.
    placed: Option<String>,
    marks: String,
    /// What the workload's PodDisruptionBudget lets be away, and how many Pods are.
    allowed: i64,
    away: i64,
}

#[derive(Clone, Default)]
struct Claim {
    state: Option<String>,
    attempt: u64,
    started: Option<Time>,
    deleted: Option<Time>,
    ready: bool,
    /// Pods of the workload that are there and stay.
    pods: usize,
}

/// All objects that a story is told from, as a client sees them now.
pub async fn look(client: &Client) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (group, version, kind, plural) in crate::chronicle::KINDS.into_iter().filter(|(_, _, kind, _)| *kind != "Deployment") {
        let kind_of = kube::core::GroupVersionKind::gvk(group, version, kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kube::core::ApiResource::from_gvk_with_plural(&kind_of, plural));
        let list = api.list(&ListParams::default()).await.unwrap();
        let named = |object: DynamicObject| (kind, object.metadata.name.clone().unwrap(), Some(serde_json::to_value(object).unwrap()));
        seen.extend(list.items.into_iter().map(named));
    }
    seen
}

impl Teller {
    /// Begins with what is there: the claim with the most Pods is `a`.
    pub fn new(pools: &[&str], present: Vec<Seen>) -> Self {
        let mut teller = Self { objects: BTreeMap::new(), pools: BTreeMap::new() };
        teller.objects.extend(present.into_iter().filter_map(|(kind, name, object)| Some(((kind, name), object?))));
        for pool in pools {
            let picture = teller.picture(pool);
            let mut claims: Vec<(&String, usize)> = picture.claims.iter().map(|(name, claim)| (name, claim.pods)).collect();
            claims.sort_by_key(|(_, pods)| std::cmp::Reverse(*pods));
            let mut story = Story::default();
            claims.into_iter().for_each(|(claim, _)| drop(story.name(claim)));
            story.ready.extend(picture.claims.iter().filter(|(_, claim)| claim.ready).map(|(name, _)| name.clone()));
            story.before = picture;
            teller.pools.insert((*pool).to_owned(), story);
        }
        teller
    }

    /// All that changed at this moment.
    pub fn see(&mut self, at: Time, seen: Vec<Seen>) {
        let mut touched = BTreeSet::new();
        for (kind, name, object) in seen {
            let key = (kind, name);
            touched.extend(object.as_ref().or(self.objects.get(&key)).and_then(|object| pool_of(kind, object)));
            match object {
                Some(object) => drop(self.objects.insert(key, object)),
                None => drop(self.objects.remove(&key)),
            }
        }
        for pool in touched {
            let after = self.picture(&pool);
            if let Some(story) = self.pools.get_mut(&pool) {
                story.go_on(at, after);
            }
        }
    }

    /// The same where all that is there was listed: what is missing is gone.
    pub fn see_all(&mut self, at: Time, mut seen: Vec<Seen>) {
        let there: BTreeSet<(&str, &String)> = seen.iter().map(|(kind, name, _)| (*kind, name)).collect();
        let gone: Vec<_> = self.objects.keys().filter(|(kind, name)| !there.contains(&(*kind, name))).cloned().collect();
        seen.extend(gone.into_iter().map(|(kind, name)| (kind, name, None)));
        self.see(at, seen);
    }

    pub fn rows(&self, pool: &str) -> &[Row] {
        &self.pools[pool].rows
    }

    /// The real name of a claim of the story.
    pub fn claim(&self, pool: &str, name: &str) -> String {
        let names = &self.pools[pool].names;
        names.iter().find(|(_, told)| *told == name).map(|(claim, _)| claim.clone()).unwrap()
    }

    /// The Node of a claim of the story.
    pub fn node(&self, pool: &str, name: &str) -> String {
        let claim = &self.objects[&("NodeClaim", self.claim(pool, name))];
        claim["status"]["nodeName"].as_str().unwrap().to_owned()
    }

    pub fn into_rows(self) -> BTreeMap<String, Vec<Row>> {
        self.pools.into_iter().map(|(pool, story)| (pool, story.rows)).collect()
    }

    fn of<'a>(&'a self, kind: &'static str, pool: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let objects = self.objects.iter().filter(move |((of_kind, _), _)| *of_kind == kind);
        objects.map(|((_, name), object)| (name, object)).filter(move |(_, object)| pool_of(kind, object).as_deref() == Some(pool))
    }

    fn picture(&self, pool: &str) -> Picture {
        let mut picture =
            Picture { pool: self.objects.get(&("NodePool", pool.to_owned())).cloned().unwrap_or_default(), ..Picture::default() };
        let mut nodes = BTreeMap::new();
        for (name, claim) in self.of("NodeClaim", pool) {
            let node = claim["status"]["nodeName"].as_str().unwrap_or_default();
            let time = |text: Option<&str>| text.and_then(parse_annotation);
            let known = self.objects.get(&("Node", node.to_owned()));
            let told = Claim {
                state: annotation(claim, "state"),
                attempt: 1 + annotation(claim, "retry-count").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0),
                started: time(annotation(claim, "started-at").as_deref()),
                deleted: time(claim["metadata"]["deletionTimestamp"].as_str()),
                ready: known.is_some_and(|node| has_condition(node, "Ready")),
                pods: 0,
            };
            nodes.insert(node, name);
            picture.claims.insert(name.clone(), told);
        }
        for (_, pod) in self.of("Pod", pool) {
            let Some(claim) = pod["spec"]["nodeName"].as_str().and_then(|node| nodes.get(node)) else { continue };
            if pod["metadata"]["labels"]["app"] == pool && pod["metadata"]["deletionTimestamp"].is_null() {
                picture.claims.get_mut(*claim).unwrap().pods += 1;
            }
        }
        let budget = self.objects.get(&("PodDisruptionBudget", pool.to_owned())).cloned().unwrap_or_default();
        let stays = |pod: &Value| pod["metadata"]["labels"]["app"] == pool && pod["metadata"]["deletionTimestamp"].is_null();
        let up = self.of("Pod", pool).filter(|(_, pod)| stays(pod) && has_condition(pod, "Ready")).count();
        picture.allowed = budget["spec"]["maxUnavailable"].as_i64().unwrap_or_default();
        picture.away = budget["status"]["expectedPods"].as_i64().unwrap_or_default() - i64::try_from(up).unwrap();
        for (_, pod) in self.of("Pod", pool).filter(|(_, pod)| pod["metadata"]["labels"]["app"] != pool) {
            picture.placeholder = pod["metadata"]["uid"].as_str().map(str::to_owned);
            let node = pod["spec"]["nodeName"].as_str().filter(|_| pod["status"]["phase"] == "Running");
            picture.placed =
                node.and_then(|node| nodes.get(node)).filter(|claim| picture.claims[**claim].ready).map(|claim| (*claim).clone());
        }
        let names = self.pools.get(pool).map(|story| &story.names);
        let marks = self.of("Node", pool).filter_map(|(name, node)| {
            let claim = nodes.get(name.as_str()).map_or("?", |claim| names.and_then(|names| names.get(*claim)).map_or("?", String::as_str));
            let marks = [
                (annotation(node, "do-not-disrupt-owned").is_some(), "frozen"),
                (node["spec"]["unschedulable"] == true && annotation(node, "cordoned").is_some(), "cordoned"),
            ];
            let marks: Vec<&str> = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
            (!marks.is_empty()).then(|| format!("{claim} {}", marks.join(" ")))
        });
        let mut marks: Vec<String> = marks.collect();
        marks.sort();
        picture.marks = if marks.is_empty() { "no Node is held".into() } else { marks.join(", ") };
        picture
    }
}

/// The pool that an object belongs to: a workload is named after its pool.
fn pool_of(kind: &str, object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    let name = match kind {
        "NodePool" | "PodDisruptionBudget" => &metadata["name"],
        "Pod" if metadata["labels"]["app"].is_string() => &metadata["labels"]["app"],
        _ => &metadata["labels"]["karpenter.sh/nodepool"],
    };
    name.as_str().map(str::to_owned)
}

impl Story {
    fn name(&mut self, claim: &str) -> String {
        let next = char::from(b'a' + u8::try_from(self.names.len()).unwrap());
        self.names.entry(claim.to_owned()).or_insert_with(|| next.into()).clone()
    }

    fn go_on(&mut self, at: Time, after: Picture) {
        let before = std::mem::replace(&mut self.before, after.clone());
        let mut rows = Vec::new();
        let mut tell = |what, who: &str, detail: String, stamp| rows.push(Row { what, who: who.to_owned(), detail, at, stamp });
        for (claim, now) in &after.claims {
            let is_new = !before.claims.contains_key(claim) && !self.names.contains_key(claim);
            let who = self.name(claim);
            let was = before.claims.get(claim).cloned().unwrap_or_default();
            let became = |state: &str| now.state.as_deref() == Some(state) && was.state.as_deref() != Some(state);
            if is_new {
                tell("launched", &who, String::new(), None);
            }
            if became("pending") {
                tell("started", &who, format!("attempt {}", now.attempt), now.started);
            }
            if now.ready && self.ready.insert(claim.clone()) {
                tell("ready", &who, String::new(), None);
            }
            if now.deleted.is_some() && was.deleted.is_none() {
                // What a failed attempt brought is none of the rotation's own; the rest of its rollback is told by `failure`.
                let told = now.state.as_ref().map(|state| format!("{state}, {}, {}", after.phase(), after.marks));
                tell("deleted", &who, told.unwrap_or_default(), now.deleted);
            }
            if now.deleted.is_some() {
                (now.pods..was.pods).rev().for_each(|left| tell("left", &who, after.left(left), None));
            }
            if became("expired") {
                tell("expired", &who, String::new(), None);
            }
        }
        if after.allowed != before.allowed {
            tell("budget", "pool", after.allowed.to_string(), None);
        }
        if after.placeholder.is_some() && after.placeholder != before.placeholder {
            tell("asked", "surge", String::new(), None);
        }
        if let Some(claim) = after.placed.as_ref().filter(|_| before.placed.is_none()) {
            tell("placed", "surge", format!("on {}", self.names[claim]), None);
        }
        for (claim, was) in before.claims.iter().filter(|(claim, _)| !after.claims.contains_key(*claim)) {
            // What left it in the very moment of its end.
            (0..was.pods).rev().for_each(|left| tell("left", &self.names[claim], after.left(left), None));
            if self.ready.contains(claim) {
                tell("gone", &self.names[claim], String::new(), None);
            }
        }
        for what in ["fallback", "success", "failure", "expired"] {
            let count = after.total(what);
            if count > before.total(what) {
                let ended = || format!(", {}, {}", after.states(&self.names), after.marks);
                let ended = if what == "fallback" { String::new() } else { ended() };
                tell(what, "pool", format!("{count}, {}{ended}", after.phase()), after.stamp(what));
            }
        }
        self.rows.extend(rows);
    }
}

impl Picture {
    /// What the NodePool says of its rotation.
    fn phase(&self) -> String {
        let keys = ["active-rotation-state", "surge-path", "rotation-mode"];
        let said: Vec<String> = keys.into_iter().filter_map(|key| annotation(&self.pool, key)).collect();
        let anchored = if annotation(&self.pool, "active-rotation").is_some() { "anchored" } else { "free" };
        [anchored.to_owned()].into_iter().chain(said).collect::<Vec<_>>().join(" ")
    }

    /// How many Pods are left on a Node, and whether as many are up as their budget demands.
    fn left(&self, count: usize) -> String {
        let kept = if self.away <= self.allowed { "kept" } else { "broken" };
        format!("{count}, with the budget {kept}")
    }

    /// The states of the claims that have one.
    fn states(&self, names: &BTreeMap<String, String>) -> String {
        let state = |(claim, told): (&String, &Claim)| {
            let state = told.state.as_ref()?;
            let retries = if told.attempt > 1 { format!(" {}", told.attempt - 1) } else { String::new() };
            Some(format!("{} {state}{retries}", names[claim]))
        };
        let states: Vec<String> = self.claims.iter().filter_map(state).collect();
        if states.is_empty() { "no claim has a state".into() } else { states.join(", ") }
    }

    fn total(&self, what: &str) -> u64 {
        let totals = annotation(&self.pool, "totals").and_then(|text| serde_json::from_str::<Value>(&text).ok()).unwrap_or_default();
        totals[what].as_u64().unwrap_or(0)
    }

    fn stamp(&self, what: &str) -> Option<Time> {
        let key = match what {
            "success" => "last-rotation-at",
            "failure" => "last-failure-at",
            _ => return None,
        };
        parse_annotation(&annotation(&self.pool, key)?)
    }
}
