//! C08 · A placeholder that is bound but never Running.

use noderotation::api::pod::Pod;
use noderotation::{
    api::keys,
    rotation::{
        effect::{Effect, Fresh, Verdict, apply},
        step::{Say, Step},
    },
};
use serde_json::{Value, json};

use crate::fleet::{Fleet, merge, placeholder, policy, reasons};

const STARTED: &str = "2026-12-04T18:00:00Z";
const LATER: &str = "2026-12-04T18:03:00Z";
const AFTER_READY_TIMEOUT: &str = "2026-12-04T18:15:01Z";

/// An attempt on `web-1` that began at 18:00, whose placeholder carries this patch; `web-2` came for it.
pub fn attempt(patch: &Value) -> (Fleet, Pod) {
    let mut fleet = Fleet::under(&policy(&json!({})))
        .pool(json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}}}))
        .claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({}))
        .running("web-1", &json!({"cpu": "2"}));
    let mut pod = serde_json::to_value(placeholder(&fleet.step("web", STARTED)).unwrap()).unwrap();
    merge(&mut pod, &json!({"metadata": {"uid": "uid-placeholder"}, "spec": {"nodeName": "web-2.node"}}));
    merge(&mut pod, patch);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    fleet.view.placeholders.insert(pod.metadata.name.clone().unwrap(), pod.clone().into());
    fleet.view.pools.get_mut("web").unwrap().metadata.annotations.insert(keys::ACTIVE_ROTATION.into(), "web-1".into());
    let claim = &mut fleet.view.claims.get_mut("web-1").unwrap().metadata.annotations;
    claim.extend([(keys::STATE.into(), "pending".into()), (keys::STARTED_AT.into(), STARTED.into())]);
    (fleet.claim("web", "web-2", "2026-12-04T18:00:40Z", &json!({}), &json!({})), pod)
}

/// What a step does to Pods.
pub fn on_pods(step: &Step) -> Vec<&'static str> {
    let words = step.effects.iter().filter_map(|planned| match &planned.effect {
        Effect::DeletePlaceholder { .. } => Some("delete"),
        Effect::CreatePlaceholder { .. } => Some("create"),
        _ => None,
    });
    words.collect()
}

#[test]
fn one_that_ended_is_deleted_and_created_anew_in_the_same_attempt() {
    for status in [
        json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}),
        json!({"phase": "Failed", "reason": "Evicted"}),
        json!({"phase": "Succeeded"}),
    ] {
        let (fleet, pod) = attempt(&json!({"status": status}));
        let step = fleet.step("web", LATER);
        assert_eq!((step.action.code, on_pods(&step)), ("await-surge", vec!["delete", "create"]), "{status}");
        assert!(status["reason"].as_str().is_none_or(|reason| step.action.detail.contains(reason)), "{}", step.action.detail);
        // The deadline is the first one's.
        assert_eq!(fleet.step("web", AFTER_READY_TIMEOUT).action.code, "rollback");
        // Until it is gone the name is taken: the create waits a pass instead of failing.
        let create = step.effects.iter().find(|planned| matches!(planned.effect, Effect::CreatePlaceholder { .. })).unwrap();
        let verdict = apply(&create.effect, Some(&Fresh::Pod(pod.into())), "pass");
        assert!(matches!(verdict, Verdict::NotMine(_)), "{verdict:?}");
    }
}

#[test]
fn a_terminating_one_holds_the_name_and_is_waited_for() {
    let (fleet, _) = attempt(&json!({"metadata": {"deletionTimestamp": LATER}, "status": {"phase": "Running"}}));
    let step = fleet.step("web", "2026-12-04T18:04:30Z");
    assert_eq!((step.action.code, on_pods(&step)), ("await-surge", vec![]));
    assert!(step.action.detail.contains("terminating"), "{}", step.action.detail);
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_with_node_image_and_reason() {
    let waiting = json!({"reason": "ErrImagePull", "message": "registry says 403 Forbidden"});
    let image = "registry.example/pause:3.10";
    let containers =
        json!([{"name": "pause", "image": image, "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": waiting}}]);
    let (fleet, _) = attempt(&json!({"status": {"phase": "Pending", "containerStatuses": containers}}));
    let step = fleet.step("web", LATER);
    let told = step.assessment.in_flight.as_ref().unwrap().waiting_for.clone();
    for part in ["web-2.node", image, "ErrImagePull", "403 Forbidden"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!reasons(&step).contains(&"SurgeUnschedulable"), "{:?}", reasons(&step));

    let late = fleet.step("web", AFTER_READY_TIMEOUT);
    assert_eq!(late.action.code, "rollback");
    assert!(late.effects.iter().any(|planned| matches!(&planned.effect, Effect::ReapClaim { claim, .. } if claim == "web-2")));
    let failed = late.effects.iter().find_map(|planned| match planned.say.as_deref() {
        Some(Say::Failed { why, .. }) => Some(why.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    for part in ["web-2.node", image, "ErrImagePull"] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
}
