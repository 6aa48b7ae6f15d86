//! Merging of JSON objects.

use serde_json::{Map, Value};

/// A merge patch (RFC 7396).
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(into) = into else { return };
    for (key, value) in patch {
        if value.is_null() {
            into.remove(key);
        } else {
            merge(into.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// Lays what the world knows of an object over what was written to it. The world is right about everything it knows; of
/// labels, annotations and the deletion it knows all.
pub(super) fn overlay(whole: &Value, known: Value) -> Value {
    let mut object = whole.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["annotations", "labels", "deletionTimestamp"] {
            metadata.remove(field);
        }
    }
    lay(&mut object, known);
    object
}

fn lay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                match under.get_mut(&key) {
                    Some(known) => lay(known, value),
                    None => drop(under.insert(key, value)),
                }
            }
        }
        // Items of a list have no names here: they are the same ones only where their number is.
        (Value::Array(under), Value::Array(over)) if under.len() == over.len() => {
            under.iter_mut().zip(over).for_each(|(under, over)| lay(under, over));
        }
        (under, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_removes_by_null_and_replaces_lists() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        merge(&mut object, &json!({"a": {"b": null, "e": {"f": null, "g": 3}}, "d": [3]}));
        assert_eq!(object, json!({"a": {"c": 2, "e": {"g": 3}}, "d": [3]}));
    }

    #[test]
    fn unknown_fields_survive_below_what_the_world_knows() {
        let whole = json!({
            "metadata": {"annotations": {"gone": "1"}, "finalizers": ["f"]},
            "spec": {"requirements": [{"key": "a", "minValues": 3}], "weight": 7},
        });
        let known = json!({"metadata": {"annotations": {"kept": "2"}, "labels": {"x": "y"}}, "spec": {"requirements": [{"key": "a", "values": []}]}});
        let expected = json!({
            "metadata": {"annotations": {"kept": "2"}, "finalizers": ["f"], "labels": {"x": "y"}},
            "spec": {"requirements": [{"key": "a", "minValues": 3, "values": []}], "weight": 7},
        });
        assert_eq!(overlay(&whole, known), expected);
    }
}
