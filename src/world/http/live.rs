//! What the models know, as the API shows it, and what a write to it means to them.

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Actor, State,
    answer::Answer,
    merge::overlay,
    pods,
    request::Call,
    resource::{BUDGETS, DEPLOYMENTS, Key, Kind, NODECLAIMS, NODEPOOLS, NODES, PODS, REPLICASETS, STATEFULSETS, VOLUME_CLAIMS, VOLUMES},
    store::TERMINATION,
    volumes,
    workloads::controllers,
};
use crate::{
    api::{
        self,
        karpenter::{Node, NodeClaim, NodePool},
        keys,
    },
    rotation::effect::{self, Patch, Target},
    world::{history::Event, pods::NAMESPACE, pool::PoolWorld},
};

impl State {
    /// An object of the models, and the pool that it is in.
    pub fn live(&self, kind: &Kind, key: &Key) -> Option<(usize, Value)> {
        let (index, known) = self.pools.iter().enumerate().find_map(|(index, pool)| Some((index, known(pool, kind, key)?)))?;
        Some((index, self.shown(kind, known)))
    }

    /// All objects of the models of a kind.
    pub fn all_live(&self, kind: &Kind, node: Option<&str>) -> Vec<Value> {
        let of = |pool: &PoolWorld| -> Vec<Value> {
            match kind {
                kind if kind == NODEPOOLS => pool.view.pools.values().map(json).collect(),
                kind if kind == NODECLAIMS => pool.view.claims.values().map(json).collect(),
                kind if kind == NODES => pool.nodes.values().map(json).collect(),
                kind if kind == PODS => pods::pods(pool, node),
                kind if kind == BUDGETS => pool.budgets(NAMESPACE).iter().map(json).collect(),
                kind if kind == VOLUME_CLAIMS => volumes::claims(pool).collect(),
                kind if kind == VOLUMES => volumes::volumes(pool).collect(),
                kind => controllers(pool, kind).collect(),
            }
        };
        self.pools.iter().flat_map(of).map(|known| self.shown(kind, known)).collect()
    }

    /// Whether the models no longer know it.
    pub fn is_gone(&self, key: &Key) -> bool {
        let kinds = [NODEPOOLS, NODECLAIMS, NODES, PODS, BUDGETS, DEPLOYMENTS, STATEFULSETS];
        kinds.into_iter().filter(|kind| key.is(kind)).all(|kind| self.pools.iter().all(|pool| known(pool, kind, key).is_none()))
    }

    /// As it is read: with what was written to it beside, and with what every object of the API has.
    fn shown(&self, kind: &Kind, mut known: Value) -> Value {
        let text = |field: &str| known["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = Key::of(kind, &text("namespace"), &text("name"));
        if known["metadata"]["resourceVersion"].is_null() {
            known["metadata"]["resourceVersion"] = json!(version_of(&known));
        }
        known["apiVersion"] = json!(kind.api_version());
        known["kind"] = json!(kind.kind);
        let whole = self.whole.get(&key);
        let mut object = whole.map_or_else(|| known.clone(), |whole| overlay(whole, known.clone()));
        if [DEPLOYMENTS, REPLICASETS, STATEFULSETS].contains(&kind) && object["metadata"]["generation"].is_null() {
            object["metadata"]["generation"] = json!(1);
        }
        let held = [NODECLAIMS, NODES].contains(&kind) && object["metadata"]["finalizers"].is_null() && whole.is_none();
        if held {
            object["metadata"]["finalizers"] = json!([TERMINATION]);
        }
        object
    }

    /// Stores an object of the models that was patched.
    pub fn patch_live(&mut self, index: usize, call: &Call, patch: &Value, before: &Value, after: Value) -> Result<Value, Answer> {
        let pool = &mut self.pools[index];
        let pod = if call.kind == PODS { pool.pod_named(&call.name) } else { None };
        if let Some(id) = pod {
            pool.write_pod(id, pods::written(before, &after)?);
            return Ok(self.live(call.kind, &call.key()).map(|(_, object)| object).unwrap_or_default());
        }
        let target = |kind| Target { kind, namespace: call.namespace.clone(), name: call.name.clone() };
        let (name, merged) = (call.name.as_str(), Patch::read(patch));
        match call.kind {
            kind if kind == NODEPOOLS => {
                let typed: NodePool = typed(&after)?;
                pool.patch(&target(effect::Kind::NodePool), merged);
                if let Some(stored) = pool.view.pools.get_mut(name) {
                    (stored.spec, stored.status) = (typed.spec.clone(), typed.status);
                }
                pool.spec.pool.spec = typed.spec;
            }
            kind if kind == NODECLAIMS => {
                let typed: NodeClaim = typed(&after)?;
                pool.patch(&target(effect::Kind::NodeClaim), merged);
                if let Some(stored) = pool.view.claims.get_mut(name) {
                    (stored.spec, stored.status) = (typed.spec, typed.status);
                }
            }
            kind if kind == NODES => {
                let typed: Node = typed(&after)?;
                pool.patch(&target(effect::Kind::Node), merged);
                if pool.nodes.get(name).is_some_and(|stored| (&stored.spec, &stored.status) != (&typed.spec, &typed.status)) {
                    pool.with_node(name, |stored| (stored.spec, stored.status) = (typed.spec, typed.status));
                }
            }
            kind if kind == PODS && pool.view.placeholders.contains_key(name) => {
                let typed = typed(&after)?;
                pool.with_placeholder(name, |stored| *stored = typed);
                if let Some(id) = pool.placeholders.get(name).copied() {
                    pool.look_again_at(id);
                }
            }
            kind if kind == BUDGETS => {
                let typed: PodDisruptionBudget = typed(&after)?;
                let Some(IntOrString::Int(away)) = typed.spec.and_then(|spec| spec.max_unavailable) else {
                    return Err(Answer::not_allowed("of a budget, the embedded world knows a whole number as spec.maxUnavailable only"));
                };
                pool.allow(name, u32::try_from(away).unwrap_or_default());
            }
            // The models know nothing else of a controller that could change.
            kind if [DEPLOYMENTS, STATEFULSETS].contains(&kind) && patch["spec"]["replicas"].is_number() => {
                let replicas = after["spec"]["replicas"].as_u64().and_then(|replicas| u32::try_from(replicas).ok());
                pool.scale(name, replicas.unwrap_or_default());
            }
            kind => {
                return Err(Answer::not_allowed(&format!(
                    "the embedded world makes {} anew when they are read: it can't keep this",
                    kind.plural
                )));
            }
        }
        self.whole.insert(call.key(), after);
        Ok(self.live(call.kind, &call.key()).map(|(_, object)| object).unwrap_or_default())
    }

    /// Gives a placeholder to the pool that it names; `false` where that is none of the models'.
    pub fn create_live(&mut self, kind: &Kind, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        if kind != PODS || labels[keys::SURGE_FOR].is_null() {
            return false;
        }
        let Some(pool) = self.pools.iter_mut().find(|pool| labels[keys::NODEPOOL_LABEL] == pool.name.as_str()) else { return false };
        let Ok(mut pod) = typed::<crate::api::pod::Pod>(object) else { return false };
        // The models give it theirs.
        (pod.metadata.uid, pod.metadata.resource_version) = (None, None);
        pool.add_placeholder(pod.into());
        true
    }

    /// Lets the models delete an object; they may take their time.
    pub fn delete_live(&mut self, index: usize, call: &Call, actor: Actor, object: &Value) -> Result<(), Answer> {
        let is_going = !object["metadata"]["deletionTimestamp"].is_null();
        let pool = &mut self.pools[index];
        match call.kind {
            _ if is_going => {}
            kind if kind == NODECLAIMS => delete_claim(pool, &call.name, actor, object),
            kind if kind == NODES => {
                let id = pool.host_of.get(&call.name).copied();
                if let Some(claim) = id.and_then(|id| pool.hosts.get(id)).map(|host| host.claim.clone()) {
                    pool.delete_claim(&claim);
                }
            }
            kind if kind == PODS && pool.view.placeholders.contains_key(&call.name) => {
                pool.remove_placeholder(&call.name);
            }
            kind if kind == PODS => {
                let why = "in the embedded world, a DaemonSet's Pods end with their Nodes";
                let Some(id) = pool.pod_named(&call.name) else { return Err(Answer::not_allowed(why)) };
                pool.end_pod(id, call.body["gracePeriodSeconds"] == 0);
            }
            kind => return Err(Answer::not_allowed(&format!("the embedded world has no {} deleted that its models know", kind.plural))),
        }
        Ok(())
    }

    /// Hears an Event of the program: the models' history tells of transitions.
    pub fn hear(&mut self, event: &Value) {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/regarding/kind"), text("/regarding/name"));
        let is_of = |pool: &PoolWorld| match kind {
            "NodePool" => pool.name == name,
            // One that is gone is still in the history.
            _ => pool.view.claims.contains_key(name) || pool.history.iter().any(|happening| happening.claim == name),
        };
        if let Some(pool) = self.pools.iter_mut().find(|pool| is_of(pool)) {
            pool.hear_event(text("/reason"), kind, name, text("/note"));
        }
    }
}

/// The program's own delete begins a drain, or takes back what a failed attempt brought; only the first is told.
fn delete_claim(pool: &mut PoolWorld, claim: &str, actor: Actor, object: &Value) {
    let is_draining = object["metadata"]["annotations"][keys::STATE] == "draining";
    match actor {
        Actor::Operator => pool.delete_claim(claim),
        Actor::Program => {
            if let Some(id) = pool.host_of.get(claim).copied() {
                pool.delete(id);
            }
            if is_draining {
                pool.tell(claim, Event::Draining, String::new());
            }
        }
    }
}

pub(super) fn json(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn typed<T: DeserializeOwned>(object: &Value) -> Result<T, Answer> {
    api::json::from_value(object).map_err(|error| Answer::bad_request(error.to_string()))
}

/// What the models know of one object.
fn known(pool: &PoolWorld, kind: &Kind, key: &Key) -> Option<Value> {
    let name = key.name.as_str();
    match kind {
        kind if kind == NODEPOOLS => pool.view.pools.get(name).map(json),
        kind if kind == NODECLAIMS => pool.view.claims.get(name).map(json),
        kind if kind == NODES => pool.nodes.get(name).map(json),
        kind if kind == PODS => pods::pod(pool, key),
        kind if kind == BUDGETS => {
            pool.budgets(&key.namespace).iter().find(|budget| budget.metadata.name.as_deref() == Some(name)).map(json)
        }
        kind if kind == VOLUMES => volumes::volumes(pool).find(|volume| volume["metadata"]["name"] == name),
        kind if key.namespace == NAMESPACE => {
            let is_it = |object: &Value| object["metadata"]["name"] == name;
            if kind == VOLUME_CLAIMS { volumes::claims(pool).find(is_it) } else { controllers(pool, kind).find(is_it) }
        }
        _ => None,
    }
}

/// A version for what the models make anew whenever it is read: another one whenever it is different.
fn version_of(object: &Value) -> String {
    let digest = Sha256::digest(object.to_string());
    let number = digest.iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number.to_string()
}
