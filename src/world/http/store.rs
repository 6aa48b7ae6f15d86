//! Objects, whether the models know them or not.

use serde_json::{Value, json};

use super::{
    State,
    answer::Answer,
    pages::partial,
    request::Call,
    resource::{CORE_EVENTS, EVENTS, Key, Kind, QUOTAS},
};
use crate::api::time::to_annotation;

impl State {
    /// One object, as it is read.
    pub fn one(&self, call: &Call) -> Result<Answer, Answer> {
        let object = self.get(call.kind, &call.key()).ok_or_else(|| Answer::not_found(call.kind, &call.name))?;
        Ok(Answer::ok(if call.is_partial { partial(&object) } else { object }))
    }

    /// An object of a kind.
    pub fn get(&self, kind: &Kind, key: &Key) -> Option<Value> {
        if kind == CORE_EVENTS {
            return self.get(EVENTS, &Key::of(EVENTS, &key.namespace, &key.name)).map(|event| of_core(&event));
        }
        let object = self.live(kind, key).map(|(_, object)| object).or_else(|| self.shelf.get(key).cloned());
        if kind == QUOTAS { object.map(|quota| self.with_usage(quota)) } else { object }
    }

    /// All objects of a kind, by namespace and name; of one namespace unless that is empty. Of Pods, those on this Node
    /// are enough, where one is named.
    pub fn all(&self, kind: &Kind, namespace: &str, node: Option<&str>) -> Vec<Value> {
        if kind == CORE_EVENTS {
            return self.all(EVENTS, namespace, None).iter().map(of_core).collect();
        }
        let mut items = self.all_live(kind, node);
        items.extend(self.shelf.iter().filter(|(key, _)| key.is(kind)).map(|(_, object)| object.clone()));
        if kind == QUOTAS {
            items = items.into_iter().map(|quota| self.with_usage(quota)).collect();
        }
        items.retain(|item| namespace.is_empty() || item["metadata"]["namespace"] == namespace);
        items.sort_by_cached_key(|item| {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        });
        items
    }

    /// Puts an object on the shelf, with a new version; one that is to go and that nothing holds is taken off it.
    pub fn put(&mut self, kind: &Kind, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_gone = !object["metadata"]["deletionTimestamp"].is_null() && !is_held(&object);
        if is_gone {
            self.shelf.remove(&key);
        } else {
            self.shelf.insert(key, object.clone());
        }
        if kind == super::POLICIES {
            self.share_policies();
        }
        object
    }

    /// Objects of the models that are gone: one that a finalizer still holds stays on the shelf.
    pub fn part_from_gone(&mut self) {
        let gone: Vec<Key> = self.whole.keys().filter(|key| self.is_gone(key)).cloned().collect();
        let now = to_annotation(self.now());
        for key in gone {
            let Some(mut object) = self.whole.remove(&key) else { continue };
            release(&mut object);
            if is_held(&object) {
                let metadata = &mut object["metadata"];
                if metadata["deletionTimestamp"].is_null() {
                    metadata["deletionTimestamp"] = json!(now);
                }
                self.shelf.insert(key, object);
            }
        }
    }
}

/// Karpenter's own finalizer.
pub(super) const TERMINATION: &str = "karpenter.sh/termination";

/// Karpenter is done with it.
fn release(object: &mut Value) {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != TERMINATION);
    }
}

/// Whether a finalizer holds it.
pub(super) fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// An Event as the older API shows it.
fn of_core(event: &Value) -> Value {
    let mut core = event.clone();
    core["apiVersion"] = json!("v1");
    let moves = [
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedCount", "count"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
    ];
    if let Some(fields) = core.as_object_mut() {
        for (new, old) in moves {
            if let Some(value) = fields.remove(new) {
                fields.insert(old.into(), value);
            }
        }
    }
    core
}
