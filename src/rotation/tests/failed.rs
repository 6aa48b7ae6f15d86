//! An anchored `failed` claim: only a crash leaves one.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn failed(since: chrono::TimeDelta) -> Fleet {
    fleet().anchored("a").claim("a", |claim| claim.state("failed").note(keys::FAILED_AT, ago(since)).note(keys::RETRY_COUNT, "1"))
}

fn accounted(since: chrono::TimeDelta) -> Fleet {
    failed(since).note(keys::LAST_FAILURE_AT, ago(since))
}

#[test]
fn an_unaccounted_failure_is_counted_first_whatever_else_is_true() {
    assert_snapshot!(check(&failed(mins(45)), now()), @r"
    asks nodes of web
    web: account: counts the failed attempt on NodeClaim a
      release web from a at 2026-12-02T03:00:00Z: Failed at 2026-12-02T02:15:00Z | says the outcome
      unsign web | gone is fine
    ");
    assert_snapshot!(action(&failed(mins(45)).note(keys::LAST_FAILURE_AT, ago(mins(46))), now()), @r"account: counts the failed attempt on NodeClaim a");
    assert_snapshot!(action(&failed(mins(45)).change(Kind::NodeClaim, "a", |claim| claim.deleting(mins(1))), now()), @r"account: counts the failed attempt on NodeClaim a");
}

#[test]
fn an_accounted_failure_that_is_being_deleted_expires() {
    assert_snapshot!(check(&accounted(mins(45)).change(Kind::NodeClaim, "a", |claim| claim.deleting(mins(1))), now()), @r"
    asks nodes of web
    web: expire: NodeClaim a was deleted by someone else before its rotation could finish
      mark a expired from [Failed] | says RotationExpired
      release web from a at 2026-12-02T03:00:00Z: Expired | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn an_accounted_failure_past_its_backoff_is_tried_again() {
    assert_snapshot!(check(&accounted(mins(31)), now()), @r"
    asks nodes of web
    asks node-a, pods on node-a
    web: retry: tries NodeClaim a again
      begin a from [Failed] at 2026-12-02T03:00:00Z | instead: release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      hold node-a for a | gone is fine | refused: SurgeRefused | instead: restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
      create the placeholder of a (cpu 1) | refused: SurgeRefused | instead: delete the placeholder rotation/noderotation-surge-a of a, restore node-a from a, clear a, release web from a at 2026-12-02T03:00:00Z: WithoutOutcome, unsign web
    ");
}

#[test]
fn an_accounted_failure_within_its_backoff_is_released() {
    assert_snapshot!(check(&accounted(mins(29)), now()), @r"
    asks nodes of web
    web: release: releases the anchor on the failed NodeClaim a: no retry is due
      release web from a at 2026-12-02T03:00:00Z: NoRetry | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn a_retry_passes_every_gate_of_a_start() {
    let static_pool = accounted(mins(31)).change(Kind::NodePool, "web", |pool| pool.spec("replicas", json!(3)));
    assert_snapshot!(action(&static_pool, now()), @r"release: releases the anchor on the failed NodeClaim a: no retry is due");
    assert_snapshot!(action(&accounted(mins(31)), at("2026-12-02T06:30:00Z")), @r"release: releases the anchor on the failed NodeClaim a: no retry is due");
    assert_snapshot!(action(&accounted(mins(31)).note(keys::FREEZE, "2027-01-01T00:00:00Z"), now()), @r"release: releases the anchor on the failed NodeClaim a: no retry is due");
    assert_snapshot!(action(&accounted(mins(31)).note(keys::LAST_ROTATION_AT, ago(mins(1))), now()), @r"release: releases the anchor on the failed NodeClaim a: no retry is due");
    let full = accounted(mins(31)).change(Kind::NodePool, "web", |pool| pool.spec("limits", json!({"nodes": 1})));
    assert_snapshot!(action(&full, now()), @r"release: releases the anchor on the failed NodeClaim a: no retry is due");
}

#[test]
fn an_opening_window_ends_the_backoff() {
    assert_snapshot!(action(&accounted(mins(61)).change(Kind::NodeClaim, "a", |claim| claim.note(keys::RETRY_COUNT, "9")), now()), @r"retry: tries NodeClaim a again");
}
