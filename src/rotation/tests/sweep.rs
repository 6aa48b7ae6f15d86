//! The sweep: only what no anchor refers to.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

#[test]
fn nothing_of_a_rotation_in_flight_is_swept() {
    let fleet = fleet().awaiting(mins(5)).placeholder("a", |pod| pod);
    assert!(!check(&fleet, now()).contains("sweep:"));
}

#[test]
fn placeholders_of_no_rotation_are_deleted() {
    let fleet = fleet().placeholder("gone", |pod| pod).placeholder("bare", |mut pod| {
        pod.0["metadata"]["annotations"] = json!({});
        pod
    });
    assert_snapshot!(check(&fleet, now()), @r"
    sweep: delete the placeholder rotation/noderotation-surge-bare of bare | gone is fine | says log: deleted the placeholder noderotation-surge-bare of bare, whose rotation is not in flight
    sweep: delete the placeholder rotation/noderotation-surge-gone of gone | gone is fine | says log: deleted the placeholder noderotation-surge-gone of gone, whose rotation is not in flight
    web: gated: no start (swept): leftovers of an earlier rotation are cleaned up in this pass
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn marked_nodes_of_no_rotation_are_restored_and_named_by_what_was_done() {
    let fleet = fleet().host("b", |claim| claim).change(Kind::Node, "node-b", |node| node.held("gone")).host("c", |claim| claim).change(
        Kind::Node,
        "node-c",
        |node| node.label(keys::MARKED, "true").note(keys::CORDONED, "true").spec("unschedulable", json!(true)),
    );
    assert_snapshot!(check(&fleet, now()), @r"
    sweep: restore node-b from any but {} | gone is fine | says log: unfroze the Node node-b of gone, whose rotation is not in flight
    sweep: restore node-c from any but {} | gone is fine | says log: uncordoned the Node node-c, which no rotation in flight cordoned
    web: idle: no eligible candidate
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn claims_in_flight_without_an_anchor_fail() {
    let fleet = fleet().claim("a", |claim| claim.state("pending")).claim("b", |claim| claim.state("draining"));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    sweep: sweep a at 2026-12-02T03:00:00Z | gone is fine | says RotationSwept
    sweep: sweep b at 2026-12-02T03:00:00Z | gone is fine | says RotationSwept
    web: gated: no start (swept): leftovers of an earlier rotation are cleaned up in this pass
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn claims_that_are_deleting_failed_expired_or_of_no_pool_are_left() {
    let fleet = fleet()
        .claim("a", |claim| claim.state("draining").deleting(mins(1)))
        .claim("b", |claim| claim.state("failed").note(keys::FAILED_AT, ago(mins(1))))
        .claim("c", |claim| claim.state("expired").deleting(mins(1)))
        .claim("d", |claim| claim.state("pending").label(keys::NODEPOOL_LABEL, "gone"));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    web: gated: no start (still-draining): NodeClaim a still drains, from an earlier rotation that nothing refers to any more
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn bookkeeping_without_a_state_is_cleared_and_does_not_hold_a_start() {
    let fleet = fleet().claim("a", |claim| claim.note(keys::STARTED_AT, ago(mins(1))).note(keys::WRITTEN_BY, "p1"));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    sweep: clear a | gone is fine
    web: start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z
      anchor web on a | refused: SurgeRefused | says RotationStarted
      begin a from [None, Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
    ");
}

#[test]
fn rotation_scoped_keys_without_an_anchor_are_dropped() {
    let fleet = fleet().note(keys::ACTIVE_ROTATION_STATE, "draining").note(keys::WRITTEN_BY, "p1");
    assert_snapshot!(check(&fleet, now()), @r"
    sweep: drop orphans of web | gone is fine
    sweep: unsign web | gone is fine
    web: idle: no eligible candidate
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn what_belongs_to_a_pool_that_cannot_be_read_is_left() {
    let mut fleet = fleet().awaiting(mins(5)).placeholder("a", |pod| pod);
    fleet.objects.remove(&(Kind::NodePool, "web".into()));
    fleet.unreadable.push(crate::view::Unreadable { kind: "NodePool", name: "web".into(), pool: None, why: "spec: a number".into() });
    assert_snapshot!(check(&fleet, now()), @r"web: error: NodePool web: spec: a number");
}
