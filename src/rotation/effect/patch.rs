//! Merge patches of single keys, conditional on the version that was read.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::api::{karpenter::NodeSpec, keys, meta::Meta};

/// A key, and what it is set to; `None` removes it.
type Change = (Cow<'static, str>, Option<String>);

/// A merge patch of annotations, labels and a Node's `spec.unschedulable`: nothing else is ever changed. It is sent as JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patch {
    version: Option<String>,
    annotations: Vec<Change>,
    labels: Vec<Change>,
    unschedulable: Option<bool>,
}

impl Patch {
    /// Conditional on this version of the object.
    pub fn of(meta: &Meta) -> Self {
        Self { version: Some(meta.resource_version.clone()), ..Self::default() }
    }

    /// Conditional, and signed by the pass.
    pub fn signed(meta: &Meta, pass: &str) -> Self {
        Self::of(meta).set(keys::WRITTEN_BY, pass)
    }

    /// What a merge patch in JSON says of these fields.
    pub fn read(patch: &Value) -> Self {
        let metadata = &patch["metadata"];
        let changes = |field: &str| {
            let changes = metadata[field].as_object().into_iter().flatten();
            changes.map(|(key, value)| (Cow::Owned(key.clone()), value.as_str().map(str::to_owned))).collect()
        };
        let version = metadata["resourceVersion"].as_str().map(str::to_owned);
        let unschedulable = patch.pointer("/spec/unschedulable").map(|value| value.as_bool().unwrap_or_default());
        Self { version, annotations: changes("annotations"), labels: changes("labels"), unschedulable }
    }

    /// Sets an annotation.
    pub fn set(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        put(&mut self.annotations, key.into(), Some(value.into()));
        self
    }

    /// Removes an annotation.
    pub fn clear(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        put(&mut self.annotations, key.into(), None);
        self
    }

    /// Removes annotations.
    pub fn clear_all(self, keys: &[&'static str]) -> Self {
        keys.iter().fold(self, |patch, key| patch.clear(*key))
    }

    /// Sets (`Some`) or removes (`None`) a label.
    pub fn label(mut self, key: &'static str, value: Option<&str>) -> Self {
        put(&mut self.labels, key.into(), value.map(str::to_owned));
        self
    }

    /// Cordons the Node, or takes the cordon away.
    pub fn cordon(mut self, cordoned: bool) -> Self {
        self.unschedulable = Some(cordoned);
        self
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.unschedulable.is_none()
    }

    /// Does it to the metadata of an object, whatever its version.
    pub fn merge(self, meta: &mut Meta) {
        for (changes, list) in [(self.annotations, &mut meta.annotations), (self.labels, &mut meta.labels)] {
            if changes.is_empty() {
                continue;
            }
            let list = &mut **list;
            for (key, value) in changes {
                match (value, list.get_mut(key.as_ref())) {
                    (Some(value), Some(there)) => *there = value,
                    (Some(value), None) => drop(list.insert(key.into_owned(), value)),
                    (None, Some(_)) => drop(list.remove(key.as_ref())),
                    (None, None) => {}
                }
            }
        }
    }

    /// Does it to the spec of a Node.
    pub fn merge_spec(&self, spec: &mut NodeSpec) {
        spec.unschedulable = self.unschedulable.unwrap_or(spec.unschedulable);
    }

    /// The patch as JSON.
    pub fn to_value(&self) -> Value {
        let mut metadata: Map<String, Value> = self.version.iter().map(|version| ("resourceVersion".to_owned(), json!(version))).collect();
        for (field, changes) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            if !changes.is_empty() {
                let changes = changes.iter().map(|(key, value)| (key.clone().into_owned(), json!(value)));
                metadata.insert(field.into(), Value::Object(changes.collect()));
            }
        }
        let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        if let Some(cordoned) = self.unschedulable {
            // As kubectl does, which leaves no `false` behind.
            patch.insert("spec".into(), json!({"unschedulable": cordoned.then_some(true)}));
        }
        Value::Object(patch)
    }
}

impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

fn put(changes: &mut Vec<Change>, key: Cow<'static, str>, value: Option<String>) {
    match changes.iter_mut().find(|(changed, _)| *changed == key) {
        Some((_, earlier)) => *earlier = value,
        None => changes.push((key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_read_as_it_is_sent_and_the_last_word_on_a_key_counts() {
        let meta = Meta { resource_version: "7".into(), ..Meta::default() };
        let patch = Patch::signed(&meta, "p").clear(keys::STATE).set(keys::STATE, "pending").label(keys::MARKED, None);
        let expected = json!({"metadata": {
            "resourceVersion": "7", "annotations": {keys::WRITTEN_BY: "p", keys::STATE: "pending"}, "labels": {keys::MARKED: null},
        }});
        assert_eq!(patch.to_value(), expected);
        for (cordoned, sent) in [(true, json!(true)), (false, Value::Null)] {
            let patch = patch.clone().cordon(cordoned);
            assert_eq!(patch.to_value()["spec"], json!({"unschedulable": sent}));
            assert_eq!(Patch::read(&patch.to_value()).to_value(), patch.to_value());
        }
    }
}
