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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::time::parse_annotation, policy::read};

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    /// A policy of generation 3 with this status.
    fn policy(windows: Value, status: Value) -> Policy {
        read::policy(&json!({
            "metadata": {"name": "api", "generation": 3},
            "spec": {"nodePoolSelector": {}, "maintenanceWindows": windows},
            "status": status,
        }))
    }

    fn valid(status: Value) -> Policy {
        policy(json!([{"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"}]), status)
    }

    fn ready(status: &str, reason: &str, message: &str, since: &str) -> Value {
        json!({
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "observedGeneration": 3, "lastTransitionTime": since,
        })
    }

    fn whole(matched: usize, rotating: usize, conditions: Value) -> Value {
        json!({"observedGeneration": 3, "matchedNodePools": matched, "rotatingNodePools": rotating, "conditions": conditions})
    }

    const ACCEPTED: &str = "Every field can be used, and no other policy is equally specific.";
    const INVALID: &str = "spec.maintenanceWindows: []: at least one window: without one, nothing may ever start";
    const THEN: &str = "2026-12-01T00:00:00Z";
    const NOW: &str = "2026-12-02T00:00:00Z";

    #[test]
    fn each_verdict_has_its_reason_and_invalid_comes_first() {
        let tied = ["web".to_owned(), "api".to_owned()];
        let conflict = "another policy is equally specific for web, api: give one of the policies another constraint in nodePoolSelector";
        let (valid, invalid) = (valid(json!(null)), policy(json!([]), json!(null)));
        for (policy, tied, expected) in [
            (&valid, &tied[..0], ready("True", "Accepted", ACCEPTED, NOW)),
            (&valid, &tied[..], ready("False", "Conflict", conflict, NOW)),
            (&invalid, &tied[..], ready("False", "Invalid", INVALID, NOW)),
        ] {
            assert_eq!(status(policy, 2, 1, tied, at(NOW)), whole(2, 1, json!([expected])));
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let stored = |condition: Value| whole(2, 0, json!([condition]));
        let accepted = || stored(ready("True", "Accepted", ACCEPTED, THEN));
        assert_eq!(status(&valid(accepted()), 3, 1, &[], at(NOW)), whole(3, 1, json!([ready("True", "Accepted", ACCEPTED, THEN)])));
        let invalid = |before: Value| status(&policy(json!([]), before), 2, 0, &[], at(NOW))["conditions"][0].clone();
        assert_eq!(invalid(accepted()), ready("False", "Invalid", INVALID, NOW));
        // Another reason for the same status is no transition.
        assert_eq!(invalid(stored(ready("False", "Conflict", "tied", THEN))), ready("False", "Invalid", INVALID, THEN));
    }

    #[test]
    fn only_a_difference_is_written_and_other_conditions_stay() {
        let foreign = json!({"type": "Reviewed", "status": "True"});
        let stored = whole(2, 0, json!([ready("True", "Accepted", ACCEPTED, THEN), foreign]));
        let policy = valid(stored.clone());
        let same = status(&policy, 2, 0, &[], at(NOW));
        assert_eq!(same, stored);
        assert!(!changed(&policy, &same));
        assert!(changed(&policy, &status(&policy, 2, 1, &[], at(NOW))));
        assert!(changed(&valid(json!(null)), &same));
    }

    #[test]
    fn a_stored_status_of_any_shape_is_replaced() {
        for stored in [json!(7), json!([]), json!({"conditions": "none"}), json!({"conditions": [{"type": "Ready", "status": "True"}]})] {
            let policy = valid(stored);
            let fresh = status(&policy, 0, 0, &[], at(NOW));
            assert_eq!(fresh, whole(0, 0, json!([ready("True", "Accepted", ACCEPTED, NOW)])));
            assert!(changed(&policy, &fresh));
        }
    }

    #[test]
    fn many_pools_are_counted_beyond_ten() {
        let tied: Vec<String> = (0..12).map(|number| format!("pool-{number}")).collect();
        let message = status(&valid(json!(null)), 0, 0, &tied, at(NOW))["conditions"][0]["message"].clone();
        assert!(message.as_str().unwrap().contains("pool-9, and 2 more: give"), "{message}");
    }
}
