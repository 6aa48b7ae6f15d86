//! Trouble with the surge: what becomes of the Node that the placeholder runs on, what Karpenter brings beside it, what other
//! controllers' Pods count as.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use noderotation::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        keys,
        pod::Pod,
    },
    rotation::{effect::Effect, step::Step},
    surge::{self, Reservation, blockers},
};
use serde_json::{Value, json};

use crate::{
    c08::{attempt, on_pods},
    fleet::{Fleet, at, placeholder, policy, reasons, told},
};

const STARTED: &str = "2026-12-04T18:00:00Z";
const LATER: &str = "2026-12-04T18:03:00Z";
const TOO_LATE: &str = "2026-12-04T18:15:01Z";
/// The host is Ready.
const READY: &str = r#"{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;

/// An attempt on `web-1` whose placeholder runs on the Node of `web-2`, with these patches.
fn surged(claim: &Value, node: &Value) -> Fleet {
    let (fleet, _) = attempt(&json!({"status": {"phase": "Running"}}));
    let node = crate::fleet::merged(serde_json::from_str(READY).unwrap(), node);
    fleet.claim("web", "web-2", "2026-12-04T18:00:40Z", claim, &node)
}

fn deletes(step: &Step) -> Vec<&str> {
    let deleted = step.effects.iter().filter_map(|planned| match &planned.effect {
        Effect::DeleteClaim { claim, .. } | Effect::ReapClaim { claim, .. } => Some(claim.as_str()),
        _ => None,
    });
    deleted.collect()
}

/// T01: an operator (or a node problem detector) cordons the fresh Node between the placeholder's start and the pass: what is
/// drained could not go there, and Karpenter would bring a third node.
#[test]
fn t01_a_host_that_is_cordoned_is_no_surge() {
    let ready = surged(&json!({}), &json!({}));
    assert_eq!((ready.step("web", LATER).action.code, deletes(&ready.step("web", LATER))), ("drain", vec!["web-1"]));
    let cordoned = surged(&json!({}), &json!({"spec": {"unschedulable": true}}));
    let step = cordoned.step("web", LATER);
    assert_eq!((step.action.code, deletes(&step)), ("await-surge", vec![]));
    assert_eq!(step.action.detail, "the placeholder's node web-2.node takes no other Pods: it is cordoned");
}

/// T02: the kubelet reports disk pressure, or a CNI puts its taint back. A taint that only prefers keeps nothing out, and what
/// the pool's own Pods tolerate isn't in the way.
#[test]
fn t02_a_host_that_got_a_taint_is_no_surge() {
    let with = |taint: Value| surged(&json!({}), &json!({"spec": {"taints": [taint]}})).step("web", LATER);
    for (taint, told) in [
        (json!({"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}), "node.kubernetes.io/disk-pressure:NoSchedule"),
        (
            json!({"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}),
            "node.cilium.io/agent-not-ready:NoExecute",
        ),
    ] {
        let step = with(taint);
        assert_eq!((step.action.code, deletes(&step)), ("await-surge", vec![]));
        assert_eq!(step.action.detail, format!("the placeholder's node web-2.node takes no other Pods: it has the taint {told}"));
    }
    assert_eq!(with(json!({"key": "example.com/old", "effect": "PreferNoSchedule"})).action.code, "drain");
}

/// T03: Karpenter (an interruption, a drift, a person) deletes the fresh claim before its Node carries the `disrupted` taint. The
/// placeholder would wait there until readyTimeout, and hold that Node's drain; another Node can still come in time.
#[test]
fn t03_a_placeholder_whose_host_is_being_deleted_is_created_anew() {
    for phase in ["Pending", "Running"] {
        let (fleet, _) = attempt(&json!({"status": {"phase": phase}}));
        let leaving = json!({"metadata": {"deletionTimestamp": LATER}});
        let step = fleet.claim("web", "web-2", "2026-12-04T18:00:40Z", &leaving, &serde_json::from_str(READY).unwrap()).step("web", LATER);
        assert_eq!((step.action.code, deletes(&step)), ("await-surge", vec![]));
        assert_eq!(step.action.detail, "the placeholder's node web-2.node is being removed itself, so it is created anew");
        assert_eq!(on_pods(&step), ["delete", "create"], "{phase}");
    }
}

/// T04: Karpenter now and then launches two claims for one Pod. The one that the placeholder isn't on may be somebody's: it is
/// never reaped once it is Initialized; Karpenter's consolidation ends an empty one.
#[test]
fn t04_a_second_claim_for_one_placeholder_is_left_to_karpenter() {
    let (fleet, _) = attempt(&json!({"status": {"phase": "Pending"}}));
    let initialized = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Registered", "status": "True"},
        {"type": "Initialized", "status": "True"}]}});
    let step = fleet.claim("web", "web-3", "2026-12-04T18:00:41Z", &initialized, &json!({})).step("web", TOO_LATE);
    assert_eq!((step.action.code, deletes(&step)), ("rollback", vec!["web-2"]));
}

/// T05: a pool that is scaled by hand: the placeholder lands on a node that was there. The rollback must not take it.
#[test]
fn t05_a_node_that_was_there_is_never_reaped() {
    let (fleet, _) = attempt(&json!({"status": {"phase": "Pending"}}));
    for created in ["2026-12-04T17:59:59Z", "2026-12-04T18:00:00Z", "2020-01-01T00:00:00Z"] {
        let step = fleet.clone().claim("web", "web-2", created, &json!({}), &json!({})).step("web", TOO_LATE);
        assert_eq!((step.action.code, deletes(&step)), ("rollback", vec![]), "{created}");
    }
}

fn due() -> Fleet {
    Fleet::under(&policy(&json!({})))
        .pool(json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}}}))
}

/// T06: a broken quantity in one Pod (a CRD-made Pod, an old API server) must not stop the pool: the next claim has its turn,
/// and the pool tells what it could not read.
#[test]
fn t06_a_candidate_that_cannot_be_read_lets_the_next_one_go() {
    let fleet = due()
        .claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({}))
        .claim("web", "web-2", "2026-11-25T01:00:00Z", &json!({"status": {"allocatable": {"cpu": "1 k"}}}), &json!({}))
        .claim("web", "web-3", "2026-11-25T02:00:00Z", &json!({}), &json!({}))
        .running("web-1", &json!({"cpu": "1 Gi"}))
        .running("web-3", &json!({"cpu": "2"}));
    let step = fleet.step("web", STARTED);
    assert_eq!(step.action.code, "start");
    assert_eq!(step.starts.as_ref().map(|candidate| candidate.claim.as_str()), Some("web-3"));
    assert_eq!(
        step.error.as_deref(),
        Some(r#"pool web: Pod apps/pod-0: spec.containers[0].resources.requests.cpu: "1 Gi" is no quantity"#)
    );
    let alone = due().claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({})).running("web-1", &json!({"cpu": "1 Gi"}));
    let step = alone.step("web", STARTED);
    assert_eq!((step.action.code, step.effects.len()), ("hold", 0));
}

/// T07: a kubelet that has not reported its allocatable yet (a Node that was re-registered): the clamp still holds, and no
/// band is told of numbers that nobody knows.
#[test]
fn t07_a_node_without_allocatable_is_clamped_and_judged_by_nothing() {
    let planned = json!({"status": {"allocatable": {"cpu": "1930m"}}});
    let step = due()
        .claim("web", "web-1", "2026-11-25T00:00:00Z", &planned, &json!({}))
        .running("web-1", &json!({"cpu": "2"}))
        .step("web", STARTED);
    assert_eq!(reasons(&step), ["SurgeClamped"]);
    assert_eq!(
        placeholder(&step).unwrap().spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0,
        "1930m"
    );
}

/// T08: a claim that never became a Node, and one whose Node was deleted by hand: neither is a candidate, whatever its age,
/// and neither stops the others.
#[test]
fn t08_claims_without_a_node_are_never_chosen() {
    let without = json!({"status": {"nodeName": null}});
    let empty = json!({"status": {"nodeName": ""}});
    let gone = json!({"status": {"nodeName": "gone.node"}});
    let fleet = due()
        .claim("web", "web-1", "2026-11-21T00:00:00Z", &without, &json!({}))
        .claim("web", "web-2", "2026-11-21T00:00:00Z", &empty, &json!({}))
        .claim("web", "web-3", "2026-11-21T00:00:00Z", &gone, &json!({}))
        .claim("web", "web-4", "2026-11-25T00:00:00Z", &json!({}), &json!({}));
    let step = fleet.step("web", STARTED);
    assert_eq!(step.starts.map(|candidate| candidate.claim), Some("web-4".into()));
    let census: Vec<(&str, usize)> = step.assessment.census.iter().map(|(bucket, count)| (bucket.as_str(), *count)).collect();
    assert_eq!(census, [("not-ready", 3), ("eligible", 1)]);
}

/// T09: two claims that name one Node (an instance that was adopted twice). One rotation at a time holds it, for one of them.
#[test]
fn t09_two_claims_of_one_node_are_rotated_one_after_the_other() {
    let shared = json!({"status": {"nodeName": "web-1.node"}});
    let mut fleet = due().claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({})).claim(
        "web",
        "web-9",
        "2026-11-25T00:00:00Z",
        &shared,
        &json!({}),
    );
    let step = fleet.step("web", STARTED);
    assert_eq!(step.starts.as_ref().map(|candidate| candidate.claim.as_str()), Some("web-1"));
    fleet.view.pools.get_mut("web").unwrap().metadata.annotations.insert(keys::ACTIVE_ROTATION.into(), "web-1".into());
    let step = fleet.step("web", STARTED);
    let others = step.effects.iter().filter(|planned| planned.effect.to_string().contains("web-9")).count();
    assert_eq!((step.starts, others), (None, 0));
}

/// T10: OpenKruise's DaemonSet is no `apps/v1` DaemonSet to Karpenter: its Pods count as Pods that move, and keep a Node from
/// being reaped. The scheduler's own DaemonSets don't.
#[test]
fn t10_another_projects_daemonset_counts_as_karpenter_counts_it() {
    let pool: NodePool = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
    let claim: NodeClaim = serde_json::from_value(json!({"metadata": {"name": "web-1", "labels": {keys::NODEPOOL_LABEL: "web"},
        "creationTimestamp": LATER}, "status": {"nodeName": "n", "allocatable": {"cpu": "4"}}}))
    .unwrap();
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let owned = |api_version: &str| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "agent", "namespace": "kube-system", "ownerReferences": [
            {"apiVersion": api_version, "kind": "DaemonSet", "name": "agent", "uid": "u"}]},
            "spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "100m"}}}]}}))
        .unwrap()
    };
    let request = |pod: Pod| surge::request_for(Reservation::Pods, &pool, &claim, &node, &[pod]).unwrap().request.to_string();
    assert_eq!((request(owned("apps/v1")), request(owned("apps.kruise.io/v1alpha1"))), ("nothing".into(), "cpu 100m".into()));
    let reapable = |pod: Pod| surge::reapable(&claim, at(STARTED), "web-0", &[pod]);
    assert_eq!((reapable(owned("apps/v1")), reapable(owned("apps.kruise.io/v1alpha1"))), (true, false));
}

/// T11: budgets as they are found: one that no controller has judged (the status is empty), one of 100 %, one without a
/// selector, and one whose scale target is missing. Karpenter's eviction waits for the first and the last.
#[test]
fn t11_budgets_are_judged_by_their_status_as_eviction_does() {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "db-0", "namespace": "shop", "labels": {"app": "db"}},
        "spec": {"containers": []}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}))
    .unwrap();
    let held = |spec: Value, status: Value| {
        let budget = json!({"metadata": {"name": "db", "namespace": "shop", "generation": 2}, "spec": spec, "status": status});
        let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
        let claim = NodeClaim::default();
        blockers(std::slice::from_ref(&pod), &[("shop".to_owned(), vec![budget])].into(), &claim, at(LATER)).summary
    };
    let selector = json!({"matchLabels": {"app": "db"}});
    let all = json!({"selector": selector, "maxUnavailable": "100%"});
    let judged = |allowed: i32| json!({"observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3 - allowed, "expectedPods": 3});
    assert_eq!(held(all.clone(), Value::Null), "Pod shop/db-0: PodDisruptionBudget db has not been judged since its last change");
    assert_eq!(held(all.clone(), judged(3)), "Pod shop/db-0: waits for its eviction");
    assert_eq!(held(json!({"maxUnavailable": 0}), judged(0)), "Pod shop/db-0: waits for its eviction");
    let mut failed = judged(0);
    failed["conditions"] = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "jobs.batch does not implement the scale subresource",
        "lastTransitionTime": LATER}]);
    let told = "Pod shop/db-0: PodDisruptionBudget db allows no disruption, since it failed to sync: jobs.batch does not implement the scale subresource";
    assert_eq!(held(all, failed), told);
}

/// T12: names of pools. Dots are fine everywhere; one that is longer than a label's value can have no claims at all, so nothing
/// is asked for by that value.
#[test]
fn t12_names_of_pools_are_label_values() {
    let template = json!({"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}});
    let long = "p".repeat(64);
    let fleet = Fleet::under(&policy(&json!({})))
        .pool(json!({"metadata": {"name": "team.a.web"}, "spec": {"template": template}}))
        .pool(json!({"metadata": {"name": long}, "spec": {"template": template}}))
        .claim("team.a.web", "team.a.web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({}));
    let step = fleet.step("team.a.web", STARTED);
    let pod = placeholder(&step).unwrap();
    assert_eq!(pod.metadata.labels.as_ref().unwrap()[keys::NODEPOOL_LABEL], "team.a.web");
    assert_eq!(pod.metadata.name.as_deref(), Some("noderotation-surge-team.a.web-1"));
    let step = fleet.step(&long, STARTED);
    assert_eq!((step.action.code, told(&step)), ("idle", vec![]));
}

/// T13: a webhook for all Pods (Kyverno, a spot mutator) gives the placeholder a node selector or another priority, or takes
/// its label away. The first two are told; without the label no pass would ever find it again, so nothing starts.
#[test]
fn t13_what_admission_does_to_the_placeholder_is_known_before_the_start() {
    let step = due().claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({}), &json!({})).step("web", STARTED);
    let sent = placeholder(&step).unwrap().clone();
    let returned =
        |patch: &Value| -> Pod { serde_json::from_value(crate::fleet::merged(serde_json::to_value(&sent).unwrap(), patch)).unwrap() };
    let spot = returned(&json!({"spec": {"nodeSelector": {"scheduling.cast.ai/spot": "true"}}}));
    assert_eq!(surge::mutated(&sent, &spot).as_deref(), Some("nodeSelector scheduling.cast.ai/spot=true added"));
    let raised = returned(&json!({"spec": {"priorityClassName": "default-high"}}));
    assert_eq!(surge::mutated(&sent, &raised).as_deref(), Some(r#"priorityClassName: "noderotation-surge" sent, "default-high" returned"#));
    assert_eq!(surge::disowned(&sent, &spot), None);
    let bare = returned(&json!({"metadata": {"labels": {keys::SURGE_FOR: null}}}));
    assert_eq!(surge::disowned(&sent, &bare), Some("label noderotation.io/surge-for"));
    let renamed = returned(&json!({"metadata": {"annotations": {keys::SURGE_FOR: "web-2"}}}));
    assert_eq!(surge::disowned(&sent, &renamed), Some("annotation noderotation.io/surge-for"));
}
