//! Starts: no anchor, every gate open.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

#[test]
fn a_due_claim_and_open_gates_start_a_rotation() {
    assert_snapshot!(check(&fleet().claim("a", |claim| claim), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z
      anchor web on a | refused: SurgeRefused | says RotationStarted
      begin a from [None, Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
    ");
}

#[test]
fn a_failed_claim_past_its_backoff_starts_again_and_keeps_its_pause() {
    let failed = |since| fleet().claim("a", |claim| claim.state("failed").note(keys::FAILED_AT, ago(since)).note(keys::RETRY_COUNT, "1"));
    assert_snapshot!(check(&failed(mins(31)), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z
      anchor web on a after the failure at 2026-12-02T02:29:00Z | refused: SurgeRefused | says RotationStarted
      begin a from [None, Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
    ");
    assert_snapshot!(action(&failed(mins(29)), now()), @r"idle: no eligible candidate");
}

#[test]
fn no_headroom_no_start_and_the_numbers_are_told() {
    let limited = |cpu: &str| {
        let limits = json!({"cpu": cpu});
        fleet().claim("a", |claim| claim).change(Kind::NodePool, "web", |mut pool| {
            pool.0["status"] = json!({"resources": {"cpu": "4"}});
            pool.spec("limits", limits)
        })
    };
    assert_snapshot!(check(&limited("4500m"), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: gated: no start (headroom): the surge for a does not fit spec.limits: cpu: 1 requested, 500m remaining of limit 4500m
      ! Warning InsufficientHeadroom on NodePool web: No rotation starts: the surge for a does not fit spec.limits: cpu: 1 requested, 500m remaining of limit 4500m. Raise the limits of NodePool web by at least one node.
      wakes 2026-12-02T06:00:00Z
    ");
    assert_snapshot!(action(&limited("5"), now()), @r"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
}

#[test]
fn the_clamp_is_told_with_the_start() {
    let fleet = fleet().claim("a", |mut claim| {
        claim.0["status"]["allocatable"] = json!({"cpu": "900m"});
        claim
    });
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z
      anchor web on a | refused: SurgeRefused | says RotationStarted
      begin a from [None, Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 900m) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      ! Normal SurgeClamped on NodeClaim a (cpu): cpu: the Pods request 1, Karpenter plans with 900m beside the DaemonSets: the placeholder requests that much
    ");
}

#[test]
fn a_quantity_that_cannot_be_read_fails_the_pool_and_no_other() {
    let fleet = fleet()
        .pool("other", |pool| pool)
        .claim("a", |claim| claim)
        .change(Kind::NodePool, "web", |pool| pool.spec("limits", json!({"cpu": "many"})));
    assert_snapshot!(check(&fleet, now()), @r#"
    asks nodes of web
    asks node-a, pods on node-a
    other: idle: no eligible candidate
      wakes 2026-12-02T06:00:00Z
    web: hold: pool web: NodePool web: spec.limits.cpu: "many" is no quantity
      error: pool web: NodePool web: spec.limits.cpu: "many" is no quantity
    "#);
}

#[test]
fn a_fact_that_cannot_be_read_fails_the_pool_alone() {
    let mut fleet = fleet().pool("other", |pool| pool).claim("a", |claim| claim);
    fleet.failing.insert(crate::view::Need::PodsOn("node-a".into()), "timeout".into());
    assert_snapshot!(check(&fleet, now()), @r#"
    asks nodes of web
    asks node-a, pods on node-a
    other: idle: no eligible candidate
      wakes 2026-12-02T06:00:00Z
    web: error: the Pods on Node node-a: timeout
    "#);
}

#[test]
fn a_claim_that_lives_no_longer_than_its_lead_is_told_and_due_at_once() {
    let fleet = fleet().claim("a", |claim| claim.age(hours(1)).spec("expireAfter", json!("192h")));
    assert_snapshot!(check(&fleet, now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: start: starts the rotation of NodeClaim a on Node node-a, age 1h, deadline 2026-12-10T02:00:00Z
      anchor web on a | refused: SurgeRefused | says RotationStarted
      begin a from [None, Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      ! Warning ShortLead on NodeClaim a: expireAfter 192h is not longer than the lead time 193h19m: the node is rotated at the first opportunity. Raise expireAfter, or add maintenance windows.
    ");
}

#[test]
fn an_idle_pool_wakes_when_the_next_claim_is_due_or_the_window_ends() {
    let due_in = |span| fleet().claim("a", |claim| claim.age(days(5) + hours(22) + mins(41) - span));
    assert_snapshot!(check(&due_in(mins(5)), now()), @r"
    web: idle: no eligible candidate
      wakes 2026-12-02T03:05:01Z
    ");
    assert_snapshot!(action(&due_in(secs(0)), now()), @r"idle: no eligible candidate");
    assert_snapshot!(action(&due_in(secs(-1)), now()), @r"start: starts the rotation of NodeClaim a on Node node-a, age 142h41m1s, deadline 2026-12-10T04:18:59Z");
    assert_snapshot!(check(&fleet(), now()), @r"
    web: idle: no eligible candidate
      wakes 2026-12-02T06:00:00Z
    ");
}

#[test]
fn an_ungoverned_pool_has_nothing_to_do() {
    assert_snapshot!(check(&fleet().ungoverned().claim("a", |claim| claim), now()), @r"web: ungoverned: no RotationPolicy matches this pool");
}
