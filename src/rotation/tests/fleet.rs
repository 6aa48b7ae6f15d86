//! A small cluster as JSON objects, in the words of the field: `fleet().claim("a", |claim| claim.age(days(6)))`.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::{
    api::{
        karpenter::Node,
        keys,
        shared::Shared,
        time::{Time, later, parse_annotation, to_annotation},
    },
    policy::read,
    rotation::{effect::Kind, scene::Config},
    surge::{placeholder::PlaceholderSettings, placeholder_name, surge_for_label},
    view::{Answer, Need, Unreadable, View},
};

/// A Wednesday, an hour into the window.
pub fn now() -> Time {
    at("2026-12-02T03:00:00Z")
}

pub fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

pub fn days(count: i64) -> TimeDelta {
    TimeDelta::days(count)
}

pub fn hours(count: i64) -> TimeDelta {
    TimeDelta::hours(count)
}

pub fn mins(count: i64) -> TimeDelta {
    TimeDelta::minutes(count)
}

pub fn secs(count: i64) -> TimeDelta {
    TimeDelta::seconds(count)
}

/// A stamp that long before [`now`].
pub fn ago(span: TimeDelta) -> String {
    to_annotation(later(now(), -span))
}

pub fn config() -> Config {
    let placeholder = PlaceholderSettings { namespace: "rotation".into(), image: "pause".into(), pull_secrets: Vec::new() };
    Config { cadence: mins(1), placeholder, rehearse: false, max_in_flight: None }
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub Value);

impl Object {
    pub fn note(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value.into());
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub fn unlabel(mut self, key: &str) -> Self {
        self.0["metadata"]["labels"].as_object_mut().unwrap().remove(key);
        self
    }

    /// The state of its rotation; empty for none.
    pub fn state(mut self, state: &str) -> Self {
        if state.is_empty() {
            self.0["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::STATE);
            return self;
        }
        self.note(keys::STATE, state)
    }

    pub fn age(mut self, age: TimeDelta) -> Self {
        self.0["metadata"]["creationTimestamp"] = json!(ago(age));
        self
    }

    /// Its deletion was asked for that long ago.
    pub fn deleting(mut self, since: TimeDelta) -> Self {
        self.0["metadata"]["deletionTimestamp"] = json!(ago(since));
        self
    }

    /// Sets a field of the spec.
    pub fn spec(mut self, key: &str, value: Value) -> Self {
        self.0["spec"][key] = value;
        self
    }

    /// Sets a condition of the status.
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        let conditions = self.0["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != kind);
        conditions.push(json!({"type": kind, "status": status}));
        self
    }

    pub fn phase(mut self, phase: &str) -> Self {
        self.0["status"]["phase"] = json!(phase);
        self
    }

    /// Binds a Pod.
    pub fn on(self, node: &str) -> Self {
        self.spec("nodeName", json!(node))
    }

    /// Frozen and cordoned by us for a rotation, as the effects leave it.
    pub fn held(self, claim: &str) -> Self {
        self.frozen(claim).note(keys::CORDONED, "true").spec("unschedulable", json!(true))
    }

    /// Frozen by us for a rotation.
    pub fn frozen(self, claim: &str) -> Self {
        self.label(keys::MARKED, "true")
            .note(keys::SURGE_FOR, claim)
            .note(keys::DO_NOT_DISRUPT, "true")
            .note(keys::DO_NOT_DISRUPT_OWNED, "true")
    }
}

/// The cluster.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    pub policies: BTreeMap<String, Value>,
    pub objects: BTreeMap<(Kind, String), Object>,
    pub budgets: Vec<Value>,
    pub said: BTreeMap<String, BTreeMap<String, String>>,
    pub unreadable: Vec<Unreadable>,
    pub failing: BTreeMap<Need, String>,
    /// Rehearsals with another answer than that the API server agrees, by kind of write and name.
    pub answers: BTreeMap<(&'static str, String), Answer>,
}

/// A pool `web` (Wednesday and Saturday 02:00 to 06:00, 14 days, a grace of an hour), and nothing in it.
pub fn fleet() -> Fleet {
    Fleet::default().policy("weekly", json!({"workload": "web"}), |_| ()).pool("web", |pool| pool)
}

impl Fleet {
    /// Adds a policy for the pools with these labels.
    pub fn policy(mut self, name: &str, labels: Value, change: impl FnOnce(&mut Value)) -> Self {
        let window = json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"});
        let mut spec = json!({"nodePoolSelector": {"matchLabels": labels}, "maintenanceWindows": [window], "surge": {}});
        change(&mut spec);
        let object =
            json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1"}, "spec": spec});
        self.policies.insert(name.into(), object);
        self
    }

    /// Changes the surge settings of the policy `weekly`.
    pub fn surge(mut self, key: &str, value: Value) -> Self {
        self.policies.get_mut("weekly").unwrap()["spec"]["surge"][key] = value;
        self
    }

    pub fn ungoverned(mut self) -> Self {
        self.policies.clear();
        self
    }

    fn add(mut self, kind: Kind, name: &str, object: Value, change: impl FnOnce(Object) -> Object) -> Self {
        let mut object = object;
        let defaults = json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "creationTimestamp": ago(days(1)),
            "labels": {}, "annotations": {}});
        for (key, value) in defaults.as_object().unwrap() {
            if object["metadata"].get(key).is_none() {
                object["metadata"][key] = value.clone();
            }
        }
        self.objects.insert((kind, name.into()), change(Object(object)));
        self
    }

    /// Adds a pool whose windows are settled.
    pub fn pool(self, name: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let template = json!({"metadata": {}, "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}});
        let object = json!({"metadata": {"labels": {"workload": "web"}}, "spec": {"template": template}, "status": {}});
        let settled = format!("{} uid-weekly/1", ago(mins(30)));
        self.add(Kind::NodePool, name, object, |pool| change(pool.note(keys::WINDOW_SETTLED_AT, settled)))
    }

    /// Annotates the pool `web`.
    pub fn note(self, key: &str, value: impl Into<String>) -> Self {
        self.change(Kind::NodePool, "web", |pool| pool.note(key, value))
    }

    pub fn anchored(self, claim: &str) -> Self {
        self.note(keys::ACTIVE_ROTATION, claim)
    }

    /// Anchored, and mirrored as draining for that long.
    pub fn mirrored(self, claim: &str, since: TimeDelta) -> Self {
        self.anchored(claim).note(keys::ACTIVE_ROTATION_STATE, "draining").note(keys::DRAINING_AT, ago(since)).note(keys::SURGE_WAIT, "90s")
    }

    /// Changes an object.
    pub fn change(mut self, kind: Kind, name: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let key = (kind, name.to_owned());
        let object = self.objects.remove(&key).unwrap();
        self.objects.insert(key, change(object));
        self
    }

    /// Adds a claim of `web`, six days old and so due, Ready, with its Node `node-<name>` and a Pod of 1 cpu on it.
    pub fn claim(self, name: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let node = format!("node-{name}");
        let requests = json!({"requests": {"cpu": "1"}});
        self.host(name, |claim| change(claim.age(days(6)))).pod(&format!("app-{name}"), &node, |mut pod| {
            pod.0["spec"]["containers"] = json!([{"name": "app", "resources": requests}]);
            pod
        })
    }

    /// Adds a claim of `web`, a minute old, with an empty Node.
    pub fn host(self, name: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let node = format!("node-{name}");
        let conditions: Vec<Value> =
            ["Launched", "Registered", "Initialized", "Ready"].map(|kind| json!({"type": kind, "status": "True"})).into();
        let object = json!({
            "metadata": {"labels": {keys::NODEPOOL_LABEL: "web"}},
            "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"},
            "status": {"nodeName": node, "conditions": conditions, "allocatable": {"cpu": "4"}},
        });
        let labels = json!({
            keys::NODEPOOL_LABEL: "web", keys::HOSTNAME_LABEL: node, keys::ZONE_LABEL: "a", "kubernetes.io/arch": "arm64",
            "karpenter.sh/capacity-type": "spot",
        });
        let node_object = json!({
            "metadata": {"labels": labels}, "spec": {},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.add(Kind::NodeClaim, name, object, |claim| change(claim.age(mins(1)))).add(Kind::Node, &node, node_object, |node| node)
    }

    /// Adds a running Pod.
    pub fn pod(self, name: &str, node: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let object = json!({"metadata": {"namespace": "shop"}, "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        self.add(Kind::Pod, name, object, change)
    }

    /// Adds the placeholder of a rotation of `web`, not bound yet.
    pub fn placeholder(self, claim: &str, change: impl FnOnce(Object) -> Object) -> Self {
        let labels = json!({keys::SURGE_FOR: surge_for_label(claim), keys::NODEPOOL_LABEL: "web"});
        let metadata = json!({"namespace": "rotation", "labels": labels, "annotations": {keys::SURGE_FOR: claim}});
        let object = json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Pending"}});
        self.add(Kind::Pod, &placeholder_name(claim), object, change)
    }

    /// A rotation of `a` that began that long ago and waits for its placeholder.
    pub fn awaiting(self, since: TimeDelta) -> Self {
        self.anchored("a").claim("a", |claim| claim.state("pending").note(keys::STARTED_AT, ago(since))).change(
            Kind::Node,
            "node-a",
            |node| node.held("a"),
        )
    }

    /// What the lists say.
    pub fn load(&self) -> View {
        let of = |kind| self.objects.iter().filter(move |((of, _), _)| *of == kind).map(|((_, name), object)| (name.clone(), object));
        let has = |object: &Object, key: &str| object.0["metadata"]["labels"].get(key).is_some();
        View {
            policies: self.policies.iter().map(|(name, policy)| (name.clone(), read::policy(policy))).collect(),
            pools: of(Kind::NodePool).map(|(name, object)| (name, typed(&object.0))).collect(),
            claims: of(Kind::NodeClaim).map(|(name, object)| (name, typed(&object.0))).collect(),
            placeholders: of(Kind::Pod)
                .filter(|(_, pod)| has(pod, keys::SURGE_FOR))
                .map(|(name, object)| (name, typed(&object.0)))
                .collect(),
            marked: of(Kind::Node).filter(|(_, node)| has(node, keys::MARKED)).map(|(name, node)| (name, metadata(node).into())).collect(),
            unreadable: self.unreadable.clone(),
            ..View::default()
        }
    }

    /// Answers what is asked.
    pub fn answer(&self, view: &mut View, needs: &BTreeSet<Need>) {
        let facts = &mut view.facts;
        let of = |kind| self.objects.iter().filter(move |((of, _), _)| *of == kind).map(|((_, name), object)| (name.clone(), object));
        for need in needs {
            if let Some(why) = self.failing.get(need) {
                facts.failed.insert(need.clone(), why.clone());
                continue;
            }
            match need {
                Need::NodesOfPool(pool) => {
                    let nodes = of(Kind::Node).filter(|(_, node)| node.0["metadata"]["labels"][keys::NODEPOOL_LABEL] == *pool);
                    let nodes: BTreeMap<String, Shared<Node>> = nodes.map(|(name, node)| (name, metadata(node).into())).collect();
                    facts.nodes_of_pool.insert(pool.clone(), nodes.into());
                }
                Need::Node(name) => {
                    let node = self.objects.get(&(Kind::Node, name.clone())).map(|node| typed(&node.0));
                    facts.nodes.insert(name.clone(), node);
                }
                Need::PodsOn(node) => {
                    let pods = of(Kind::Pod).filter(|(_, pod)| pod.0["spec"]["nodeName"] == *node).map(|(_, pod)| typed(&pod.0));
                    facts.pods_on.insert(node.clone(), pods.collect());
                }
                Need::BudgetsIn(namespace) => {
                    let budgets = self.budgets.iter().filter(|budget| budget["metadata"]["namespace"] == *namespace).map(typed);
                    facts.budgets.insert(namespace.clone(), budgets.collect());
                }
                Need::EventsAbout(pod) => {
                    facts.events.insert(pod.clone(), self.said.get(pod).cloned().unwrap_or_default());
                }
                Need::Rehearsal(rehearsal) => {
                    let (kind, target) = rehearsal.key();
                    let refusal = self.answers.get(&(kind, target.name)).cloned();
                    facts.rehearsals.insert(rehearsal.clone(), refusal.unwrap_or(Answer::Agreed { after: None }));
                }
            }
        }
    }
}

pub fn typed<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

/// A Node as a metadata list has it.
fn metadata(node: &Object) -> Node {
    Node { metadata: typed(&node.0["metadata"]), ..Node::default() }
}

/// A JSON merge patch (RFC 7396).
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key.as_str()], value);
        }
    }
}
