//! What surrounds a policy's spec: `apiVersion`, `kind` and `metadata`, as the API server checks them under
//! `fieldValidation: Strict`.

use serde_json::{Map, Value};

use crate::policy::Problem;

/// The policies' `apiVersion`.
pub const API_VERSION: &str = "noderotation.io/v1alpha1";
/// Their kind.
pub const KIND: &str = "RotationPolicy";

const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// All that is wrong with it.
pub fn problems(object: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, value: Option<&Value>, expected: &str| {
        let value = value.map(Value::to_string).unwrap_or_default();
        problems.push(Problem { path: path.into(), value, expected: expected.into() });
    };
    for (name, value) in object.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&name.as_str()) {
            problem(name, Some(value), "no such field: those are apiVersion, kind, metadata, spec");
        }
    }
    if object["apiVersion"] != API_VERSION {
        problem("apiVersion", object.get("apiVersion"), API_VERSION);
    }
    let empty = Map::new();
    let metadata = match &object["metadata"] {
        Value::Object(metadata) => metadata,
        Value::Null => &empty,
        other => {
            problem("metadata", Some(other), "an object with a name");
            return problems;
        }
    };
    for (name, value) in metadata {
        if !METADATA.contains(&name.as_str()) {
            problem(&format!("metadata.{name}"), Some(value), "no such field: those to set are name, labels and annotations");
        }
    }
    let expected = "a name of lower-case letters, digits, - and ., that begins and ends with a letter or digit";
    match (metadata.get("name"), metadata.get("generateName")) {
        (None | Some(Value::Null), Some(Value::String(prefix))) if is_subdomain(&format!("{prefix}x")) => {}
        (Some(Value::String(name)), _) if is_subdomain(name) => {}
        (name, _) => problem("metadata.name", name.filter(|name| !name.is_null()), expected),
    }
    for (field, is_right, expected) in
        [("labels", is_label_value as fn(&str) -> bool, "a label's value, in quotes"), ("annotations", |_| true, "text, in quotes")]
    {
        entries(&mut problem, metadata, field, is_right, expected);
    }
    problems
}

fn entries(
    problem: &mut impl FnMut(&str, Option<&Value>, &str),
    metadata: &Map<String, Value>,
    field: &str,
    is_right: fn(&str) -> bool,
    expected: &str,
) {
    let path = format!("metadata.{field}");
    let fields = match metadata.get(field) {
        None | Some(Value::Null) => return,
        Some(Value::Object(fields)) => fields,
        Some(other) => return problem(&path, Some(other), "an object of keys and texts"),
    };
    for (key, value) in fields {
        let path = format!("{path}.{key}");
        if !is_key(key) {
            problem(&path, Some(value), "a key such as team or example.com/team");
        } else if !value.is_null() && !value.as_str().is_some_and(is_right) {
            // The API server reads null as an empty text here.
            problem(&path, Some(value), expected);
        }
    }
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Empty, or up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at either end.
fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A DNS subdomain (RFC 1123), as names of objects are.
fn is_subdomain(text: &str) -> bool {
    let is_alphanumeric = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        is_alphanumeric(bytes.first())
            && is_alphanumeric(bytes.last())
            && bytes.iter().all(|byte| is_alphanumeric(Some(byte)) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}
