//! The observational status of a policy (§5.4): what it governs and whether it can be used. Nothing reads it back to
//! decide a rotation.

use serde_json::{Map, Value, json};

use super::{Policy, Problem};
use crate::api::time::{Time, to_annotation};

/// So many problems or pools are named in a message; the rest is counted.
const NAMED: usize = 10;

/// The status that a policy should have: `matched` pools that it governs, `rotating` of them with a rotation in flight,
/// and the pools for which it ties with another. `lastTransitionTime` stays as long as the condition's status does.
/// Conditions of others are kept as they are.
pub fn status(policy: &Policy, matched: usize, rotating: usize, tied_pools: &[String], now: Time) -> Value {
    let (ready, reason, message) = verdict(policy, tied_pools);
    let stored = policy.status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut condition = json!({
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": message,
        "observedGeneration": policy.generation,
        "lastTransitionTime": to_annotation(now),
    });
    let is_ready = |condition: &&Value| condition["type"] == "Ready";
    if let Some(before) = stored.iter().find(is_ready)
        && before["status"] == ready
        && before["lastTransitionTime"].is_string()
    {
        condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
    }
    let others = stored.iter().filter(|condition| !is_ready(condition)).cloned();
    let conditions: Vec<Value> = std::iter::once(condition).chain(others).collect();
    json!({
        "observedGeneration": policy.generation,
        "matchedNodePools": matched,
        "rotatingNodePools": rotating,
        "conditions": conditions,
    })
}

/// Whether a status must be written: some field of it differs from what is stored.
pub fn changed(policy: &Policy, status: &Value) -> bool {
    let empty = Map::new();
    status.as_object().unwrap_or(&empty).iter().any(|(field, value)| policy.status.get(field) != Some(value))
}

/// Status, reason and message of `Ready`. Invalid comes before Conflict.
fn verdict(policy: &Policy, tied_pools: &[String]) -> (&'static str, &'static str, String) {
    if !policy.is_valid() {
        return ("False", "Invalid", limited(policy.problems.iter().map(Problem::to_string), "; "));
    }
    if !tied_pools.is_empty() {
        let pools = limited(tied_pools.iter().cloned(), ", ");
        let advice = "give one of the policies another constraint in nodePoolSelector";
        return ("False", "Conflict", format!("another policy is equally specific for {pools}: {advice}"));
    }
    ("True", "Accepted", "Every field can be used, and no other policy is equally specific.".to_owned())
}

fn limited(items: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let all = items.len();
    let mut text = items.take(NAMED).collect::<Vec<_>>().join(separator);
    if all > NAMED {
        text.push_str(&format!("{separator}and {} more", all - NAMED));
    }
    text
}
