//! `pending`: every pass re-asserts, then looks at the placeholder.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn placed(change: impl FnOnce(Object) -> Object) -> Fleet {
    fleet().awaiting(mins(5)).placeholder("a", change)
}

fn surged(change: impl FnOnce(Object) -> Object) -> Fleet {
    placed(|pod| pod.on("node-b").phase("Running")).host("b", change)
}

#[test]
fn an_anchor_alone_begins_the_attempt() {
    assert_snapshot!(check(&fleet().anchored("a").claim("a", |claim| claim), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: await-surge: its placeholder is created
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:15:01Z
    ");
}

#[test]
fn a_missing_placeholder_is_created_and_everything_re_asserted() {
    assert_snapshot!(check(&fleet().awaiting(mins(5)), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: await-surge: its placeholder is created
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn a_freeze_holds_what_escalates_and_nothing_else() {
    let until = "2026-12-02T04:00:00Z";
    assert_snapshot!(check(&fleet().awaiting(mins(5)).note(keys::FREEZE, until), now()), @r"
    asks nodes of web
    web: await-surge: the surge for a is held until 2026-12-02T04:00:00Z (frozen); the attempt times out at 2026-12-02T03:10:00Z
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:10:01Z
    ");
    assert_snapshot!(action(&surged(|claim| claim).note(keys::FREEZE, "some day"), now()), @r"await-surge: the surge for a is held until the freeze is mended or removed; the attempt times out at 2026-12-02T03:10:00Z");
    assert_snapshot!(action(&surged(|claim| claim).note(keys::FREEZE, ago(secs(0))), now()), @r"drain: Node node-b (provisioned) is Ready after 5m: NodeClaim a is deleted and drains");
}

#[test]
fn gates_hold_no_rotation_that_is_in_flight() {
    let fleet = surged(|claim| claim)
        .note(keys::LAST_FAILURE_AT, ago(mins(1)))
        .note(keys::LAST_ROTATION_AT, ago(mins(1)))
        .policy("also", json!({"workload": "web"}), |_| ())
        .surge("drainEstimate", json!("soon"))
        .change(Kind::NodePool, "web", |pool| pool.spec("replicas", json!(3)).deleting(mins(1)));
    assert_snapshot!(action(&fleet, at("2026-12-02T03:09:00Z")), @r"drain: Node node-b (provisioned) is Ready after 14m: NodeClaim a is deleted and drains");
}

#[test]
fn an_ended_placeholder_is_replaced_in_the_same_attempt() {
    let fleet = placed(|mut pod| {
        pod.0["status"] = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        pod.on("node-b")
    });
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: await-surge: its placeholder ended (Failed: Evicted: low on memory) and is created anew
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn a_terminating_placeholder_holds_the_name() {
    assert_snapshot!(check(&placed(|pod| pod.deleting(secs(5))), now()), @r"
    asks nodes of web
    web: await-surge: the earlier placeholder noderotation-surge-a is terminating
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn an_unbound_placeholder_is_told_with_what_the_scheduler_says() {
    assert_snapshot!(check(&placed(|pod| pod), now()), @r"
    asks nodes of web
    asks events about noderotation-surge-a
    web: await-surge: the placeholder noderotation-surge-a has no Node yet
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      wakes 2026-12-02T03:10:01Z
    ");
    let mut fleet = placed(|pod| pod);
    let mut told = |said: &[(&str, &str)]| {
        let said = said.iter().map(|(reporter, message)| ((*reporter).to_owned(), (*message).to_owned()));
        fleet.said.insert("noderotation-surge-a".into(), said.collect());
        let text = check(&fleet, now());
        text.lines().find(|line| line.contains("SurgeUnschedulable on")).map(str::to_owned).unwrap_or_default()
    };
    // A subject for each who has spoken: Karpenter's words come later, and say why.
    assert_snapshot!(
        told(&[("default-scheduler", "0/4 nodes are available.")]),
        @"  ! Warning SurgeUnschedulable on NodeClaim a (default-scheduler): The placeholder noderotation-surge-a has no Node yet. default-scheduler: 0/4 nodes are available."
    );
    assert_snapshot!(
        told(&[("default-scheduler", "0/5 nodes are available."), ("karpenter", "no instance type fits")]),
        @"  ! Warning SurgeUnschedulable on NodeClaim a (default-scheduler karpenter): The placeholder noderotation-surge-a has no Node yet. default-scheduler: 0/5 nodes are available.; karpenter: no instance type fits"
    );
    told(&[("karpenter", "no instance type fits")]);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks events about noderotation-surge-a
    web: await-surge: The placeholder noderotation-surge-a has no Node yet. karpenter: no instance type fits
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      ! Warning SurgeUnschedulable on NodeClaim a (karpenter): The placeholder noderotation-surge-a has no Node yet. karpenter: no instance type fits
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn a_bound_placeholder_that_does_not_run_is_told_with_the_reason_and_its_claim_noted() {
    let fleet = placed(|mut pod| {
        pod.0["status"]["containerStatuses"] = json!([{"name": "pause", "image": "pause", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]);
        pod.on("node-b")
    });
    assert_snapshot!(check(&fleet.host("b", |claim| claim), now()), @r"
    asks nodes of web
    web: await-surge: the placeholder is bound to Node node-b and not Running: image pause: ErrImagePull: no such host
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      note that b came for a
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn a_running_placeholder_on_a_node_that_is_not_ready_waits() {
    let fleet = surged(|claim| claim).change(Kind::Node, "node-b", |node| node.condition("Ready", "False"));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-b
    web: await-surge: the placeholder's node node-b is not Ready
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      note that b came for a
      wakes 2026-12-02T03:10:01Z
    ");
    let gone = placed(|pod| pod.on("node-x").phase("Running"));
    assert_snapshot!(action(&gone, now()), @r"await-surge: the placeholder's node node-x does not exist");
    let own = placed(|pod| pod.on("node-a").phase("Running"));
    assert_snapshot!(action(&own, now()), @r"await-surge: the placeholder runs on the old node node-a itself");
}

#[test]
fn a_ready_surge_drains_the_old_node() {
    assert_snapshot!(check(&surged(|claim| claim), now()), @r"
    asks nodes of web
    asks node-b
    web: drain: Node node-b (provisioned) is Ready after 5m: NodeClaim a is deleted and drains
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      note that b came for a
      freeze node-b for a
      mirror draining of a on web at 2026-12-02T03:00:00Z, surge provisioned 5m
      mark a draining from [Pending] | says log: the surge for NodeClaim a is Ready on Node node-b after 5m: draining
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
    ");
}

#[test]
fn a_node_that_was_there_before_may_take_the_placeholder_too() {
    assert_snapshot!(check(&surged(|claim| claim.age(days(2))), now()), @r"
    asks nodes of web
    asks node-b
    web: drain: Node node-b (absorbed) is Ready after 5m: NodeClaim a is deleted and drains
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      note that b came for a
      freeze node-b for a
      mirror draining of a on web at 2026-12-02T03:00:00Z, surge absorbed 5m
      mark a draining from [Pending] | says log: the surge for NodeClaim a is Ready on Node node-b after 5m: draining
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
    ");
}

#[test]
fn a_start_that_cannot_be_used_is_stamped_anew() {
    for stamp in ["yesterday", "2026-12-02T03:00:01Z", ""] {
        let fleet = fleet().awaiting(mins(5)).change(Kind::NodeClaim, "a", |claim| claim.note(keys::STARTED_AT, stamp));
        assert!(check(&fleet, now()).contains("web: await-surge: its placeholder is created"), "{stamp:?}");
    }
}

#[test]
fn the_start_of_an_earlier_attempt_does_not_end_this_one() {
    let old = |state: &'static str| fleet().anchored("a").claim("a", move |claim| claim.state(state).note(keys::STARTED_AT, ago(days(2))));
    assert_snapshot!(action(&old(""), now()), @r"await-surge: its placeholder is created");
    assert_snapshot!(action(&old("unheard-of"), now()), @r"await-surge: its placeholder is created");
    assert_snapshot!(action(&old("pending"), now()), @r"rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a");
}

#[test]
fn a_node_that_is_gone_waits_for_the_timeout_and_is_told() {
    let mut fleet = fleet().awaiting(mins(5));
    fleet.objects.remove(&(Kind::Node, "node-a".into()));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: await-surge: Node node-a of NodeClaim a is gone
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      error: Node node-a of NodeClaim a is gone
      wakes 2026-12-02T03:10:01Z
    ");
}

#[test]
fn a_surge_whose_claim_does_not_name_its_node_yet_is_told_by_the_nodes_age() {
    let path = |age: chrono::TimeDelta| {
        let unnamed = |mut claim: Object| {
            claim.0["status"].as_object_mut().unwrap().remove("nodeName");
            claim
        };
        let fleet = surged(|claim| claim).change(Kind::NodeClaim, "b", unnamed).change(Kind::Node, "node-b", |node| node.age(age));
        action(&fleet, now())
    };
    assert_snapshot!(path(mins(4)), @r"drain: Node node-b (provisioned) is Ready after 5m: NodeClaim a is deleted and drains");
    assert_snapshot!(path(mins(6)), @r"drain: Node node-b (absorbed) is Ready after 5m: NodeClaim a is deleted and drains");
}
