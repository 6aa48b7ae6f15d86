//! Merge patches of single keys, conditional on the version that was read.

use serde_json::{Map, Value, json};

use crate::api::{keys, meta::Meta};

/// A merge patch in the making.
pub struct Patch {
    metadata: Map<String, Value>,
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    spec: Map<String, Value>,
}

impl Patch {
    /// Conditional on this version of the object.
    pub fn of(meta: &Meta) -> Self {
        let metadata = Map::from_iter([("resourceVersion".to_owned(), json!(meta.resource_version))]);
        Self { metadata, annotations: Map::new(), labels: Map::new(), spec: Map::new() }
    }

    /// Conditional, and signed by the pass.
    pub fn signed(meta: &Meta, pass: &str) -> Self {
        Self::of(meta).set(keys::WRITTEN_BY, pass)
    }

    /// Sets an annotation.
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), Value::String(value.into()));
        self
    }

    /// Removes an annotation.
    pub fn clear(mut self, key: &str) -> Self {
        self.annotations.insert(key.into(), Value::Null);
        self
    }

    /// Removes annotations.
    pub fn clear_all(self, keys: &[&str]) -> Self {
        keys.iter().fold(self, |patch, key| patch.clear(key))
    }

    /// Sets (`Some`) or removes (`None`) a label.
    pub fn label(mut self, key: &str, value: Option<&str>) -> Self {
        self.labels.insert(key.into(), value.map_or(Value::Null, |value| json!(value)));
        self
    }

    /// Sets a field of the spec; `null` removes it.
    pub fn spec(mut self, key: &str, value: Value) -> Self {
        self.spec.insert(key.into(), value);
        self
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.spec.is_empty()
    }

    /// The patch as JSON.
    pub fn build(mut self) -> Value {
        for (key, part) in [("annotations", self.annotations), ("labels", self.labels)] {
            if !part.is_empty() {
                self.metadata.insert(key.into(), Value::Object(part));
            }
        }
        let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(self.metadata))]);
        if !self.spec.is_empty() {
            patch.insert("spec".into(), Value::Object(self.spec));
        }
        Value::Object(patch)
    }
}
