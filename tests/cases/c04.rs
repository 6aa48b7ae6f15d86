//! C04 · The request fits the limit, no instance does.

use noderotation::api::keys;
use serde_json::{Value, json};

use crate::fleet::{Fleet, at, placeholder, policy, reasons, told};

const OPEN: &str = "2026-12-04T18:00:00Z";

/// 45 of 48 cpu in use; every node has this much cpu; the candidate's Pods ask for 2.
fn pool_at_its_limit(cpu: &str, request: &str) -> Fleet {
    let capacity = json!({"status": {"capacity": {"cpu": cpu, "memory": "16Gi"}}});
    Fleet::under(&policy(&json!({})))
        .pool(json!({
            "metadata": {"name": "web"},
            "spec": {
                "limits": {"cpu": "48", "memory": "192Gi"},
                "template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}},
            },
            "status": {"resources": {"cpu": "45", "memory": "90Gi", "nodes": "12"}},
        }))
        .claim("web", "web-1", "2026-11-25T00:00:00Z", &capacity, &json!({}))
        .claim("web", "web-2", "2026-12-04T00:00:00Z", &capacity, &json!({}))
        .running("web-1", &json!({"cpu": request}))
}

#[test]
fn a_doubtful_start_is_tried_and_says_why_it_may_fail() {
    let step = pool_at_its_limit("4", "2").step("web", OPEN);
    assert_eq!(step.action.code, "start");
    assert_eq!(
        told(&step),
        [
            "HeadroomDoubtful: cpu: 2 requested, 3 remaining of limit 48, but the pool's smallest node that would hold it has 4 (NodeClaim web-1). \
          Karpenter charges whole instances, so it may bring none; tried all the same, since the pool may know a smaller one or have room. \
          Raise the limits of NodePool web by at least one node."
        ]
    );
    assert_eq!(reasons(&pool_at_its_limit("3", "2").step("web", OPEN)), [""; 0]);
}

#[test]
fn what_cannot_fit_at_all_starts_nothing() {
    let step = pool_at_its_limit("4", "3001m").step("web", OPEN);
    assert_eq!((step.action.code, step.effects.len(), reasons(&step)), ("gated", 0, vec!["InsufficientHeadroom"]));
    assert!(told(&step)[0].contains("cpu: 3001m requested, 3 remaining of limit 48"), "{:?}", told(&step));
}

/// The attempt under way: its placeholder finds no node, and Karpenter says why.
#[test]
fn the_attempt_tells_karpenters_own_words_and_ends_by_rollback() {
    let mut fleet = pool_at_its_limit("4", "2");
    let pod = placeholder(&fleet.step("web", OPEN)).unwrap().clone();
    let name = pod.metadata.name.clone().unwrap();
    fleet.view.placeholders.insert(name.clone(), pod.into());
    let annotate = |annotations: &mut std::collections::BTreeMap<String, String>, key: &str, value: &str| {
        annotations.insert(key.into(), value.into());
    };
    annotate(&mut fleet.view.pools.get_mut("web").unwrap().metadata.annotations, keys::ACTIVE_ROTATION, "web-1");
    let claim = &mut fleet.view.claims.get_mut("web-1").unwrap().metadata.annotations;
    annotate(claim, keys::STATE, "pending");
    annotate(claim, keys::STARTED_AT, OPEN);
    let words = "all available instance types exceed limits for nodepool: \"web\"";
    fleet.events.insert(
        name,
        [("default-scheduler", "0/2 nodes are available: 2 Insufficient cpu."), ("karpenter", words)]
            .map(|(reporter, message)| (reporter.to_owned(), message.to_owned()))
            .into(),
    );
    let waiting = fleet.step("web", "2026-12-04T18:05:00Z");
    let unschedulable: Vec<String> = told(&waiting).into_iter().filter(|text| text.starts_with("SurgeUnschedulable")).collect();
    assert!(matches!(unschedulable.as_slice(), [text] if text.contains(&format!("karpenter: {words}"))), "{:?}", told(&waiting));
    let late = fleet.step("web", "2026-12-04T18:15:01Z");
    assert_eq!(late.action.code, "rollback", "{:?}", (late.action.detail.as_str(), at(OPEN)));
    let effects: Value = late.effects.iter().map(|planned| planned.effect.to_string()).collect();
    assert!(effects.as_array().unwrap().len() > 2, "{effects}");
}
