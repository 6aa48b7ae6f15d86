//! Leaving governance in mid-rotation, and anchors that name nothing of the pool.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn left(state: &str, deleting: bool) -> Fleet {
    let fleet = fleet().awaiting(mins(5)).ungoverned().placeholder("a", |pod| pod);
    fleet.change(Kind::NodeClaim, "a", |claim| if deleting { claim.state(state).deleting(mins(1)) } else { claim.state(state) })
}

#[test]
fn a_pending_rotation_is_rolled_back() {
    assert_snapshot!(check(&left("pending", false), now()), @r"
    web: governance-lost: no RotationPolicy matches this pool any more: the rotation of NodeClaim a is rolled back
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      clear a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: WithoutOutcome | says GovernanceLost
      unsign web | gone is fine
    ");
}

#[test]
fn so_is_one_without_a_state_and_a_failed_one() {
    assert_eq!(check(&left("", false), now()), check(&left("pending", false), now()));
    assert_eq!(check(&left("failed", false), now()), check(&left("pending", false), now()));
    assert_eq!(check(&left("draining", false), now()), check(&left("pending", false), now()));
}

#[test]
fn a_drain_is_left_to_its_end() {
    assert_snapshot!(check(&left("draining", true), now()), @r"
    web: governance-lost: no RotationPolicy matches this pool any more: the rotation of NodeClaim a is rolled back
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: WithoutOutcome | says GovernanceLost
      unsign web | gone is fine
    ");
    assert_eq!(check(&left("expired", true), now()), check(&left("draining", true), now()));
}

#[test]
fn a_node_that_lost_its_owner_is_restored_with_its_claim() {
    let fleet = left("pending", false).change(Kind::Node, "node-a", |mut node| {
        node.0["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::SURGE_FOR);
        node
    });
    assert_snapshot!(check(&fleet, now()), @r"
    web: governance-lost: no RotationPolicy matches this pool any more: the rotation of NodeClaim a is rolled back
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      clear a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: WithoutOutcome | says GovernanceLost
      unsign web | gone is fine
    ");
}

#[test]
fn a_claim_that_is_gone_leaves_only_the_anchor() {
    let mut fleet = fleet().mirrored("a", mins(5)).ungoverned();
    fleet.objects.remove(&(Kind::NodeClaim, "a".into()));
    assert_snapshot!(check(&fleet, now()), @r"
    web: governance-lost: no RotationPolicy matches this pool any more: the rotation of NodeClaim a is rolled back
      release web from a at 2026-12-02T03:00:00Z: WithoutOutcome | says GovernanceLost
      unsign web | gone is fine
    ");
}

#[test]
fn an_anchor_on_another_pools_claim_is_released_and_nothing_of_that_pool_touched() {
    let fleet = || {
        let other = fleet().pool("other", |pool| pool.note(keys::ACTIVE_ROTATION, "a")).awaiting(mins(5)).placeholder("a", |pod| pod);
        other.change(Kind::NodeClaim, "a", |claim| claim.label(keys::NODEPOOL_LABEL, "other"))
    };
    assert_snapshot!(check(&fleet(), now()), @r"
    asks nodes of other
    asks events about noderotation-surge-a
    other: await-surge: the placeholder noderotation-surge-a has no Node yet
      begin a from [None, Pending] at 2026-12-02T03:00:00Z | instead: release other from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign other
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release other from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign other
      wakes 2026-12-02T03:10:01Z
    web: release: the anchor names NodeClaim a, which belongs to other: released without outcome
      release web from a at 2026-12-02T03:00:00Z: WithoutOutcome | says StateUnreadable
      unsign web | gone is fine
    ");
    assert_snapshot!(action(&fleet().ungoverned(), now()), @r"
    governance-lost: no RotationPolicy matches this pool any more: the rotation of NodeClaim a is rolled back
    release: the anchor names NodeClaim a, which belongs to other: released without outcome
    ");
    assert_snapshot!(action(&fleet().note(keys::ROTATION_MODE, "forceful-fallback"), now()), @r"
    await-surge: the placeholder noderotation-surge-a has no Node yet
    release: the anchor names NodeClaim a, which belongs to other: released without outcome
    ");
}

#[test]
fn a_tie_or_an_invalid_policy_lets_a_rotation_go_on() {
    let tied = fleet().awaiting(mins(5)).policy("also", json!({"workload": "web"}), |_| ());
    assert_snapshot!(action(&tied, now()), @r"await-surge: its placeholder is created");
    assert_snapshot!(action(&fleet().awaiting(mins(5)).surge("readyTimeout", json!("soon")), now()), @r"await-surge: its placeholder is created");
}

#[test]
fn when_it_comes_back_nothing_starts_beside_a_drain_that_was_left_to_its_end() {
    let back = |deleting: bool| {
        let drains = |claim: Object| if deleting { claim.state("draining").deleting(mins(1)) } else { claim };
        fleet().claim("a", drains).claim("b", |claim| claim)
    };
    assert_snapshot!(action(&back(true), now()), @r"gated: no start (still-draining): NodeClaim a still drains, from an earlier rotation that nothing refers to any more");
    assert!(action(&back(false), now()).starts_with("start:"));
}
