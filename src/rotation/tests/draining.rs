//! `draining`: the delete re-issued, the drain watched, the completion.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::rotation::effect::Kind;
use serde_json::json;

fn drains(since: chrono::TimeDelta) -> Fleet {
    fleet()
        .mirrored("a", since)
        .claim("a", |claim| claim.state("draining").deleting(since))
        .change(Kind::Node, "node-a", |node| node.held("a"))
        .host("b", |claim| claim)
        .change(Kind::Node, "node-b", |node| node.frozen("a"))
}

#[test]
fn a_delete_that_was_lost_is_issued_again() {
    let fleet = fleet().anchored("a").claim("a", |claim| claim.state("draining")).placeholder("a", |pod| pod);
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    web: drain: deletes NodeClaim a, whose surge was Ready
      mirror draining of a on web at 2026-12-02T03:00:00Z
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
    ");
}

#[test]
fn a_drain_within_its_estimate_is_awaited_without_a_placeholder() {
    assert_snapshot!(check(&drains(mins(10)).placeholder("a", |pod| pod), now()), @r"
    asks nodes of web
    web: await-drain: NodeClaim a drains since 2026-12-02T02:50:00Z
      mirror draining of a on web at 2026-12-02T03:00:00Z
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      wakes 2026-12-02T03:00:01Z
    ");
}

#[test]
fn a_drain_over_its_estimate_names_what_blocks() {
    let mut fleet = drains(mins(10) + secs(1));
    fleet.budgets.push(json!({"metadata": {"name": "app", "namespace": "shop"}, "spec": {"selector": {}},
        "status": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}}));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-a
    asks budgets in shop
    web: await-drain: NodeClaim a drains for 10m1s (estimate 10m): Pod shop/app-a: PodDisruptionBudget app allows no disruption (1 healthy, 1 wanted). Karpenter ends it by force at 2026-12-02T03:49:59Z.
      mirror draining of a on web at 2026-12-02T03:00:00Z
      ! Warning DrainBlocked on NodePool web (a): NodeClaim a drains for 10m1s (estimate 10m): Pod shop/app-a: PodDisruptionBudget app allows no disruption (1 healthy, 1 wanted). Karpenter ends it by force at 2026-12-02T03:49:59Z.
      wakes 2026-12-02T03:54:00Z
    ");
}

#[test]
fn a_drain_over_its_bound_is_stuck_and_the_gate_stays_held() {
    assert_snapshot!(action(&drains(mins(64)), now()), @"await-drain: NodeClaim a drains for 1h4m (estimate 10m): Pod shop/app-a: waits for its eviction. Karpenter ends it by force at 2026-12-02T02:56:00Z.");
    assert_snapshot!(check(&drains(mins(64) + secs(1)), now()), @r"
    asks nodes of web
    asks pods on node-a
    asks budgets in shop
    web: await-drain: NodeClaim a drains for 1h4m1s (estimate 10m): Pod shop/app-a: waits for its eviction. Karpenter ends it by force at 2026-12-02T02:55:59Z.
      mirror draining of a on web at 2026-12-02T03:00:00Z
      ! Warning DrainBlocked on NodePool web (a): NodeClaim a drains for 1h4m1s (estimate 10m): Pod shop/app-a: waits for its eviction. Karpenter ends it by force at 2026-12-02T02:55:59Z.
      ! Warning DrainStuck on NodePool web (a): NodeClaim a drains for 1h4m1s, past its bound 1h4m: Pod shop/app-a: waits for its eviction. The gate stays held; nothing is forced.
    ");
}

#[test]
fn without_a_grace_period_the_drain_timeout_bounds() {
    let fleet = drains(mins(64) + secs(1)).change(Kind::NodeClaim, "a", |mut claim| {
        claim.0["spec"].as_object_mut().unwrap().remove("terminationGracePeriod");
        claim
    });
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks pods on node-a
    asks budgets in shop
    web: await-drain: NodeClaim a drains for 1h4m1s (estimate 10m): Pod shop/app-a: waits for its eviction. Karpenter never ends it by force, since terminationGracePeriod is unset.
      mirror draining of a on web at 2026-12-02T03:00:00Z
      ! Warning DrainBlocked on NodePool web (a): NodeClaim a drains for 1h4m1s (estimate 10m): Pod shop/app-a: waits for its eviction. Karpenter never ends it by force, since terminationGracePeriod is unset.
      ! Warning DrainStuck on NodePool web (a): NodeClaim a drains for 1h4m1s, past its bound 1h4m: Pod shop/app-a: waits for its eviction. The gate stays held; nothing is forced.
    ");
}

fn gone(fleet: Fleet) -> Fleet {
    let mut fleet = fleet;
    fleet.objects.retain(|(kind, name), _| !(*kind == Kind::NodeClaim && name == "a") && name != "node-a" && name != "app-a");
    fleet
}

#[test]
fn a_drained_claim_completes_and_the_surge_node_is_restored() {
    assert_snapshot!(check(&gone(drains(mins(3))), now()), @r"
    web: complete: NodeClaim a is gone
      restore node-b from a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: Gone | says the outcome, RotationExpired too
      unsign web | gone is fine
    ");
}

#[test]
fn a_claim_that_is_gone_without_the_mirror_ends_the_same_way() {
    assert_snapshot!(check(&gone(fleet().awaiting(mins(3)).placeholder("a", |pod| pod)), now()), @r"
    web: complete: NodeClaim a is gone
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: Gone | says the outcome, RotationExpired too
      unsign web | gone is fine
    ");
}

#[test]
fn a_claim_that_cannot_be_read_holds_the_rotation() {
    let mut fleet = gone(drains(mins(3)));
    fleet.unreadable.push(crate::view::Unreadable {
        kind: "NodeClaim",
        name: "a".into(),
        pool: Some("web".into()),
        why: "spec: a number".into(),
    });
    assert_snapshot!(check(&fleet, now()), @r"
    web: hold: NodeClaim a can't be read
      error: NodeClaim a: spec: a number
    ");
}
