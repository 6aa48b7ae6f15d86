//! Each gate alone closes the start, with its reason; the second look is where it has just opened.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn due() -> Fleet {
    fleet().claim("a", |claim| claim)
}

#[test]
fn a_closed_window() {
    assert_snapshot!(check(&due(), at("2026-12-02T06:00:00Z")), @r#"
    asks nodes of web
    web: gated: no start (window-closed): the next maintenance window opens at 2026-12-05T02:00:00Z
      aside: settle web from Some("2026-12-02T02:30:00Z uid-weekly/1") to 2026-12-02T06:00:00Z uid-weekly/1, 1 missed | gone is fine | says WindowMissed
      wakes 2026-12-05T02:00:00Z
    "#);
    assert_snapshot!(action(&due(), at("2026-12-02T01:59:59Z")), @"gated: no start (window-closed): the next maintenance window opens at 2026-12-02T02:00:00Z");
    assert_snapshot!(action(&due(), at("2026-12-02T02:00:00Z")), @"start: starts the rotation of NodeClaim a on Node node-a, age 143h, deadline 2026-12-10T03:00:00Z");
}

#[test]
fn a_freeze_until_it_ends() {
    let frozen = |until: &str| due().note(keys::FREEZE, until);
    assert_snapshot!(check(&frozen("2026-12-02T04:00:00Z"), now()), @r"
    asks nodes of web
    web: gated: no start (frozen): frozen by the operator, until 2026-12-02T04:00:00Z
      wakes 2026-12-02T04:00:00Z
    ");
    assert_snapshot!(action(&frozen("2026-12-02T03:00:00Z"), now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
}

#[test]
fn a_freeze_that_cannot_be_read_counts_as_frozen() {
    assert_snapshot!(check(&due().note(keys::FREEZE, "next week"), now()), @r#"
    asks nodes of web
    web: gated: no start (frozen): noderotation.io/freeze: "next week" is not an RFC 3339 time, and counts as frozen
      ! Warning FreezeUnreadable on NodePool web: noderotation.io/freeze: "next week" is not an RFC 3339 time such as 2027-01-04T06:00:00Z. The pool counts as frozen until it is mended or removed.
      wakes 2026-12-02T06:00:00Z
    "#);
}

#[test]
fn the_cooldown_after_a_success() {
    assert_snapshot!(check(&due().note(keys::LAST_ROTATION_AT, ago(mins(9))), now()), @r"
    asks nodes of web
    web: gated: no start (cooldown): cooldownAfter 10m after the last rotation, until 2026-12-02T03:01:00Z
      wakes 2026-12-02T03:01:00Z
    ");
    assert_snapshot!(action(&due().note(keys::LAST_ROTATION_AT, ago(mins(10))), now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
}

#[test]
fn the_pause_after_a_failure() {
    assert_snapshot!(check(&due().note(keys::LAST_FAILURE_AT, ago(mins(9))), now()), @r"
    asks nodes of web
    web: gated: no start (failure-pause): failurePause 10m after the last failure, until 2026-12-02T03:01:00Z
      wakes 2026-12-02T03:01:00Z
    ");
    assert_snapshot!(action(&due().note(keys::LAST_FAILURE_AT, ago(mins(10))), now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
    let short = due().surge("failurePause", json!("1m")).note(keys::LAST_FAILURE_AT, ago(mins(1)));
    assert_snapshot!(action(&short, now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
}

#[test]
fn a_static_pool() {
    let fleet = due().change(Kind::NodePool, "web", |pool| pool.spec("replicas", json!(3)));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    web: gated: no start (static-pool): StaticNodePool: spec.replicas is 3: a static pool has no room for a surge
      ! Warning StaticNodePool on NodePool web: spec.replicas is 3: a static pool has no room for the one node more that a surge needs, so nothing starts; exclude it in nodePoolSelector, or use a pool without spec.replicas
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn a_fatal_finding() {
    let fleet = due().policy("weekly", json!({"workload": "web"}), |spec| spec["minRotationChances"] = json!(9));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    web: gated: no start (finding): ANonPositive: A = expireAfter 336h - leadTime 865h19m = -529h19m, where leadTime = K 9 x P 96h (from the opening of 2026-11-28T02:00:00Z to that of 2026-12-02T02:00:00Z) + t_rot 1h19m: raise expireAfter above 865h19m, open windows more often, or lower minRotationChances, terminationGracePeriod or readyTimeout
      ! Warning ANonPositive on NodePool web: A = expireAfter 336h - leadTime 865h19m = -529h19m, where leadTime = K 9 x P 96h (from the opening of 2026-11-28T02:00:00Z to that of 2026-12-02T02:00:00Z) + t_rot 1h19m: raise expireAfter above 865h19m, open windows more often, or lower minRotationChances, terminationGracePeriod or readyTimeout
      ! Warning ShortLead on NodeClaim a: expireAfter 336h is not longer than the lead time 865h19m: the node is rotated at the first opportunity. Raise expireAfter, or add maintenance windows.
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn a_conflict_of_policies() {
    let fleet = due().policy("also", json!({"workload": "web"}), |_| ());
    assert_snapshot!(check(&fleet, now()), @r#"
    asks nodes of web
    web: gated: no start (conflict): the policies also, weekly match with equal specificity
      aside: settle web from Some("2026-12-02T02:30:00Z uid-weekly/1") to 2026-12-02T03:00:00Z uid-also/1, 0 missed | gone is fine
      ! Warning PolicyConflict on NodePool web: No rotation starts: the policies also, weekly match with equal specificity
      wakes 2026-12-02T06:00:00Z
    "#);
}

#[test]
fn an_invalid_policy() {
    assert_snapshot!(check(&due().surge("readyTimeout", json!("soon")), now()), @r#"
    asks nodes of web
    web: gated: no start (invalid-policy): RotationPolicy weekly: spec.surge.readyTimeout: "soon": whole hours, minutes and seconds, such as 1h30m (no days, no fractions)
      ! Warning PolicyInvalid on NodePool web: No rotation starts: RotationPolicy weekly: spec.surge.readyTimeout: "soon": whole hours, minutes and seconds, such as 1h30m (no days, no fractions)
      wakes 2026-12-02T06:00:00Z
    "#);
}

#[test]
fn a_pool_that_is_being_deleted() {
    assert_snapshot!(check(&due().change(Kind::NodePool, "web", |pool| pool.deleting(mins(1))), now()), @r"
    asks nodes of web
    web: gated: no start (deleting): the NodePool is being deleted
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn a_pool_that_had_something_swept() {
    assert_snapshot!(check(&due().placeholder("gone", |pod| pod), now()), @r"
    asks nodes of web
    sweep: delete the placeholder rotation/noderotation-surge-gone of gone | gone is fine | says log: deleted the placeholder noderotation-surge-gone of gone, whose rotation is not in flight
    web: gated: no start (swept): leftovers of an earlier rotation are cleaned up in this pass
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn all_reasons_are_told_none_hides_another() {
    let fleet = due()
        .note(keys::FREEZE, "2026-12-03T00:00:00Z")
        .note(keys::LAST_ROTATION_AT, ago(mins(-179)))
        .note(keys::LAST_FAILURE_AT, ago(mins(1)))
        .change(Kind::NodePool, "web", |pool| pool.spec("replicas", json!(3)));
    assert_snapshot!(action(&fleet, now()), @"gated: no start (static-pool): StaticNodePool: spec.replicas is 3: a static pool has no room for a surge; frozen by the operator, until 2026-12-03T00:00:00Z; failurePause 10m after the last failure, until 2026-12-02T03:09:00Z");
    assert_snapshot!(action(&fleet, at("2026-12-02T06:00:00Z")), @"gated: no start (static-pool): StaticNodePool: spec.replicas is 3: a static pool has no room for a surge; the next maintenance window opens at 2026-12-05T02:00:00Z; frozen by the operator, until 2026-12-03T00:00:00Z; cooldownAfter 10m after the last rotation, until 2026-12-02T06:09:00Z");
}

#[test]
fn a_pool_that_cannot_be_read_is_an_error_of_its_own() {
    let mut fleet = due();
    fleet.unreadable.push(crate::view::Unreadable { kind: "NodePool", name: "odd".into(), pool: None, why: "spec: a number".into() });
    assert_snapshot!(action(&fleet, now()), @r"
    start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z
    error: NodePool odd: spec: a number
    ");
}
