//! Reads `spec.nodePoolSelector`. One unreadable constraint makes the whole selector unreadable: without it, the rest
//! would select more than was meant.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::{Reader, present};
use crate::policy::{Expression, Operator, Selector};

const OPERATORS: [(&str, Operator); 4] =
    [("In", Operator::In), ("NotIn", Operator::NotIn), ("Exists", Operator::Exists), ("DoesNotExist", Operator::DoesNotExist)];

/// The selector; `None` where any part of it can't be read.
pub(super) fn read(reader: &mut Reader, spec: &Map<String, Value>) -> Option<Selector> {
    let path = "spec.nodePoolSelector";
    let before = reader.problems.len();
    if present(spec, "nodePoolSelector").is_none() {
        reader.missing(path, "a label selector; {} selects every NodePool");
    }
    let fields = reader.child(spec, "spec", "nodePoolSelector", &["matchLabels", "matchExpressions"])?;
    let match_labels = labels(reader, fields, path);
    let expected = "a list of constraints, each with key, operator and values";
    let expressions = reader.array(fields, path, "matchExpressions", expected).unwrap_or_default();
    reader.at_most(32, expressions, &format!("{path}.matchExpressions"));
    let match_expressions = expressions
        .iter()
        .enumerate()
        .filter_map(|(index, item)| expression(reader, item, &format!("{path}.matchExpressions[{index}]")))
        .collect();
    (reader.problems.len() == before).then_some(Selector { match_labels, match_expressions })
}

fn labels(reader: &mut Reader, fields: &Map<String, Value>, path: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let path = format!("{path}.matchLabels");
    match present(fields, "matchLabels") {
        None => {}
        Some(Value::Object(wanted)) => {
            for (key, value) in wanted {
                let at = format!("{path}.{key}");
                match value.as_str() {
                    _ if !is_label_key(key) => reader.problem(&at, Some(value), "a label key, such as workload or example.com/team"),
                    None => reader.problem(&at, Some(value), "a label's value, in quotes"),
                    Some(value) => {
                        labels.insert(key.clone(), value.to_owned());
                    }
                }
            }
        }
        Some(other) => reader.problem(&path, Some(other), "an object of labels and their values"),
    }
    labels
}

fn expression(reader: &mut Reader, item: &Value, path: &str) -> Option<Expression> {
    let fields = reader.object(item, path, &["key", "operator", "values"])?;
    let Some(key) = fields.get("key").and_then(Value::as_str).filter(|key| is_label_key(key)) else {
        reader.problem(&format!("{path}.key"), fields.get("key"), "a label key, such as workload or example.com/team");
        return None;
    };
    let named = fields.get("operator").and_then(Value::as_str);
    let Some((_, operator)) = OPERATORS.iter().find(|(name, _)| Some(*name) == named) else {
        reader.problem(&format!("{path}.operator"), fields.get("operator"), "In, NotIn, Exists or DoesNotExist");
        return None;
    };
    let mut values = BTreeSet::new();
    let listed = reader.array(fields, path, "values", "a list of label values").unwrap_or_default();
    reader.at_most(64, listed, &format!("{path}.values"));
    for (index, value) in listed.iter().enumerate() {
        match value.as_str() {
            Some(text) if text.chars().count() > 63 => {
                reader.problem(&format!("{path}.values[{index}]"), Some(value), "a label's value, of at most 63 characters");
                values.insert(text.to_owned());
            }
            Some(value) => {
                values.insert(value.to_owned());
            }
            None => reader.problem(&format!("{path}.values[{index}]"), Some(value), "a label's value, in quotes"),
        }
    }
    let wants_values = matches!(operator, Operator::In | Operator::NotIn);
    if wants_values == values.is_empty() {
        let expected = if wants_values { "at least one value for In and NotIn" } else { "no values for Exists and DoesNotExist" };
        reader.problem(&format!("{path}.values"), fields.get("values"), expected);
    }
    Some(Expression { key: key.to_owned(), operator: *operator, values })
}

/// Whether this can be the key of a label: `name` or `prefix/name`, as Kubernetes checks it.
pub(super) fn is_label_key(key: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let plain = |text: &str, longest: usize, inner: &[u8]| {
        let bytes = text.as_bytes();
        bytes.len() <= longest
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || inner.contains(byte))
    };
    match key.split_once('/') {
        None => plain(key, 63, b"-_."),
        Some((prefix, name)) => plain(prefix, 253, b"-.") && plain(name, 63, b"-_."),
    }
}
