//! A fleet as data, and what a pass decides about it.

use std::{collections::BTreeMap, sync::Arc};

use noderotation::api::pod::Pod;
use noderotation::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        shared::Shared,
        time::{Time, parse_annotation},
    },
    policy::read,
    rotation::{
        decide::{Decision, ROUNDS, decide, needs},
        effect::Effect,
        scene::Config,
        step::Step,
    },
    surge::PlaceholderSettings,
    view::{Need, View},
};
use serde_json::{Value, json};

/// What a cluster holds.
#[derive(Default, Clone)]
pub struct Fleet {
    pub view: View,
    nodes: BTreeMap<String, Shared<Node>>,
    pods: BTreeMap<String, Vec<Pod>>,
    /// What the scheduler and Karpenter say of a Pod, by its name.
    pub events: BTreeMap<String, BTreeMap<String, String>>,
}

pub fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

/// RFC 7386.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    for (field, value) in fields {
        match (value, into.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(field)),
            _ => merge(&mut into[field], value),
        }
    }
}

pub fn merged(mut base: Value, patch: &Value) -> Value {
    merge(&mut base, patch);
    base
}

/// A policy for every pool, Wed and Sat 02:00-06:00 in Tokyo, with these fields of its spec.
pub fn policy(spec: &Value) -> Value {
    let base = json!({
        "metadata": {"name": "all", "uid": "p", "generation": 1},
        "spec": {
            "nodePoolSelector": {},
            "maintenanceWindows": [{"timezone": "Asia/Tokyo", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"}],
        },
    });
    merged(base, &json!({"spec": spec}))
}

impl Fleet {
    /// Under this policy.
    pub fn under(policy: &Value) -> Self {
        let policy = read::policy(policy);
        assert_eq!(policy.problems, []);
        let mut fleet = Self::default();
        fleet.view.policies.insert(policy.name.clone(), policy);
        fleet
    }

    /// With a NodePool.
    pub fn pool(mut self, pool: Value) -> Self {
        let pool: NodePool = serde_json::from_value(pool).unwrap();
        self.view.pools.insert(pool.metadata.name.clone(), pool.into());
        self
    }

    /// With a Ready claim of a pool and its Node, named after it (`web-1`: claim `web-1`, Node `web-1.node`); the patches
    /// change either.
    pub fn claim(mut self, pool: &str, name: &str, created: &str, claim: &Value, node: &Value) -> Self {
        let node_name = format!("{name}.node");
        let labels = json!({"karpenter.sh/nodepool": pool});
        let base = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": created, "labels": labels},
            "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"},
            "status": {"nodeName": node_name, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let claim: NodeClaim = serde_json::from_value(merged(base, claim)).unwrap();
        let base = json!({"metadata": {"name": node_name, "uid": format!("uid-{node_name}"), "labels": merged(labels, &json!({
            "kubernetes.io/hostname": node_name, "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a",
            "karpenter.sh/capacity-type": "on-demand"}))}});
        let node: Node = serde_json::from_value(merged(base, node)).unwrap();
        self.pods.entry(node_name.clone()).or_default();
        self.nodes.insert(node_name, node.into());
        self.view.claims.insert(name.into(), claim.into());
        self
    }

    /// With a Pod on a claim's Node that requests this.
    pub fn running(mut self, claim: &str, requests: &Value) -> Self {
        let pods = self.pods.entry(format!("{claim}.node")).or_default();
        let name = format!("pod-{}", pods.len());
        pods.push(pod(&name, requests));
        self
    }

    pub fn decide(&self, now: &str) -> Decision {
        let (now, config) = (at(now), config());
        let mut view = self.view.clone();
        for _ in 0..ROUNDS {
            for need in needs(&view, now, &config) {
                self.answer(&mut view, need);
            }
        }
        decide(&view, now, &config)
    }

    /// The step of one pool.
    pub fn step(&self, pool: &str, now: &str) -> Step {
        let mut decision = self.decide(now);
        assert_eq!(decision.errors, BTreeMap::new());
        decision.steps.remove(pool).unwrap()
    }

    fn answer(&self, view: &mut View, need: Need) {
        let facts = &mut view.facts;
        match need {
            Need::NodesOfPool(pool) => {
                let of_pool = |node: &&Shared<Node>| node.metadata.label("karpenter.sh/nodepool") == Some(&pool);
                let nodes = self.nodes.values().filter(of_pool).map(|node| (node.metadata.name.clone(), node.clone()));
                let nodes = Arc::new(nodes.collect());
                facts.nodes_of_pool.insert(pool, nodes);
            }
            Need::Node(name) => {
                let node = self.nodes.get(&name).cloned();
                facts.nodes.insert(name, node);
            }
            Need::PodsOn(node) => {
                let pods = self.pods.get(&node).cloned().unwrap_or_default();
                facts.pods_on.insert(node, pods);
            }
            Need::BudgetsIn(namespace) => {
                facts.budgets.insert(namespace, Vec::new());
            }
            Need::EventsAbout(pod) => {
                let events = self.events.get(&pod).cloned().unwrap_or_default();
                facts.events.insert(pod, events);
            }
            Need::Rehearsal(rehearsal) => panic!("rehearsals are off: {rehearsal:?}"),
        }
    }
}

/// A running Pod with these requests.
pub fn pod(name: &str, requests: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "apps"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

pub fn config() -> Config {
    Config { cadence: chrono::TimeDelta::minutes(1), placeholder: placeholder_settings(), rehearse: false, max_in_flight: None }
}

pub fn placeholder_settings() -> PlaceholderSettings {
    PlaceholderSettings { namespace: "rotation".into(), image: "registry.example/pause:3.10".into(), pull_secrets: Vec::new() }
}

/// The conditions that a step tells, as `Reason: message`.
pub fn told(step: &Step) -> Vec<String> {
    step.conditions.iter().map(|notice| format!("{}: {}", notice.reason, notice.message)).collect()
}

/// Their reasons alone.
pub fn reasons(step: &Step) -> Vec<&'static str> {
    step.conditions.iter().map(|notice| notice.reason).collect()
}

/// The findings' names.
pub fn findings(step: &Step) -> Vec<&'static str> {
    step.assessment.findings.iter().map(|finding| finding.code.name()).collect()
}

/// The placeholder that a step creates.
pub fn placeholder(step: &Step) -> Option<&Pod> {
    step.effects.iter().find_map(|planned| match &planned.effect {
        Effect::CreatePlaceholder { pod, .. } => Some(&**pod),
        _ => None,
    })
}

/// The placeholder's required terms, as `key In [values]`.
pub fn required(pod: &Pod) -> Vec<String> {
    let affinity = pod.spec.as_ref().unwrap().affinity.as_ref().unwrap().node_affinity.as_ref().unwrap();
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref().unwrap().node_selector_terms;
    assert_eq!(terms.len(), 1);
    let expressions = terms[0].match_expressions.iter().flatten();
    expressions
        .map(|term| format!("{} {} [{}]", term.key, term.operator, term.values.iter().flatten().cloned().collect::<Vec<_>>().join(", ")))
        .collect()
}
