//! The rollback at readyTimeout: what is reaped, and what never is.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};

fn timed_out() -> Fleet {
    fleet().awaiting(mins(15) + secs(1))
}

#[test]
fn ready_timeout_is_inclusive() {
    assert_snapshot!(action(&fleet().awaiting(mins(15)), now()), @"await-surge: its placeholder is created");
    assert_snapshot!(action(&timed_out(), now()), @"rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a");
}

#[test]
fn without_any_surge_the_node_is_restored_and_the_attempt_failed() {
    assert_snapshot!(check(&timed_out().placeholder("a", |pod| pod), now()), @r"
    asks nodes of web
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: the placeholder has no node yet
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn a_freeze_that_outlasts_the_timeout_ends_in_the_ordinary_rollback() {
    assert_snapshot!(action(&timed_out().note(keys::FREEZE, "2027-01-01T00:00:00Z"), now()), @"rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a");
}

#[test]
fn the_induced_claim_is_reaped_where_its_node_is_empty() {
    let fleet = timed_out().placeholder("a", |pod| pod.on("node-b")).host("b", |claim| claim);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-b
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      reap claim b (uid-b) | gone is fine | says log: reaped NodeClaim b, which the failed attempt on a brought up
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: the placeholder is bound to node node-b and doesn't run yet
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn an_induced_claim_whose_node_serves_others_is_left() {
    let fleet = timed_out().placeholder("a", |pod| pod.on("node-b")).host("b", |claim| claim).pod("shop", "node-b", |pod| pod);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-b
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: the placeholder is bound to node node-b and doesn't run yet
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn a_claim_older_than_the_attempt_is_left() {
    let fleet = timed_out().placeholder("a", |pod| pod.on("node-b")).host("b", |claim| claim.age(mins(16)));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: the placeholder is bound to node node-b and doesn't run yet
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn the_noted_claim_is_reaped_though_its_placeholder_is_gone() {
    let fleet = timed_out().change(Kind::NodeClaim, "a", |claim| claim.note(keys::SURGE_CLAIM, "b")).host("b", |claim| claim);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-b
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      reap claim b (uid-b) | gone is fine | says log: reaped NodeClaim b, which the failed attempt on a brought up
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: there is no placeholder
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn nodes_that_never_became_ready_are_reaped_or_told_and_their_pods_asked_for_at_once() {
    let unready = |claim: Object| claim.condition("Initialized", "Unknown").condition("Ready", "Unknown");
    let fleet = ["b", "c", "d", "e", "f"].into_iter().fold(timed_out(), |fleet, name| fleet.host(name, unready));
    let fleet = fleet.host("never", |claim| unready(claim).condition("Registered", "False")).pod("shop", "node-d", |pod| pod);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-b, pods on node-c, pods on node-d, pods on node-e, pods on node-f
    web: rollback: readyTimeout 15m has passed without a Ready surge for NodeClaim a
      begin a from [Pending] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      reap claim b (uid-b) | gone is fine | says log: reaped NodeClaim b, which the failed attempt on a brought up
      reap claim c (uid-c) | gone is fine | says log: reaped NodeClaim c, which the failed attempt on a brought up
      reap claim e (uid-e) | gone is fine | says log: reaped NodeClaim e, which the failed attempt on a brought up
      reap claim f (uid-f) | gone is fine | says log: reaped NodeClaim f, which the failed attempt on a brought up
      restore node-a from a | gone is fine
      mark a failed at 2026-12-02T03:00:00Z | says RotationFailed: no Ready surge within readyTimeout 15m: there is no placeholder
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T03:00:00Z | says the outcome
      unsign web | gone is fine
      ! Warning SurgeNodeNotReady on NodePool web (d): NodeClaim d (Node node-d) registered and never became Ready; other Pods than DaemonSets' are on it, so it is left alone. Karpenter does not end it by itself: look at the Node, and delete the NodeClaim if it is of no use.
    ");
}
