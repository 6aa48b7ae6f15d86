//! The forceful fallback: a deletion without a surge.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn near(left: chrono::TimeDelta) -> Fleet {
    fleet().surge("forcefulFallback", json!({"enabled": true})).claim("a", |claim| claim.age(days(14) - left))
}

fn begun(change: impl FnOnce(Object) -> Object) -> Fleet {
    fleet().mirrored("a", mins(2)).note(keys::ROTATION_MODE, "forceful-fallback").claim("a", change)
}

#[test]
fn less_than_t_rot_before_the_deadline_it_starts() {
    assert_snapshot!(check(&near(mins(79) - secs(1)), now()), @r"
    asks nodes of web
    web: forceful-fallback: deletes NodeClaim a on Node node-a, age 334h41m1s, deadline 2026-12-02T04:18:59Z: less than t_rot 1h19m is left, and forcefulFallback is enabled
      anchor web on a as fallback at 2026-12-02T03:00:00Z | refused: SurgeRefused | says ForcefulFallback
      mark a draining from [None, Pending, Failed, Expired]
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
    ");
    assert_snapshot!(action(&near(mins(79)), now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 334h41m, deadline 2026-12-02T04:19:00Z");
    assert_snapshot!(action(&near(mins(-1)), now()), @"forceful-fallback: deletes NodeClaim a on Node node-a, age 336h1m, deadline 2026-12-02T02:59:00Z: less than t_rot 1h19m is left, and forcefulFallback is enabled");
}

#[test]
fn it_is_off_by_default_gated_like_any_start_and_never_without_a_deadline() {
    assert_snapshot!(action(&near(mins(5)).surge("forcefulFallback", json!({})), now()), @"start: starts the rotation of NodeClaim a on Node node-a, age 335h55m, deadline 2026-12-02T03:05:00Z");
    assert_snapshot!(action(&near(mins(5)).note(keys::FREEZE, "2027-01-01T00:00:00Z"), now()), @"gated: no start (frozen): frozen by the operator, until 2027-01-01T00:00:00Z");
    let never = near(mins(5)).change(Kind::NodeClaim, "a", |claim| claim.spec("expireAfter", json!("Never")));
    assert_snapshot!(action(&never, now()), @"idle: no eligible candidate");
}

#[test]
fn once_begun_it_is_resumed_whatever_the_state() {
    assert_snapshot!(check(&begun(|claim| claim), now()), @r"
    asks nodes of web
    web: forceful-fallback: deletes NodeClaim a without a surge
      mirror draining of a on web at 2026-12-02T03:00:00Z
      mark a draining from [None, Pending, Failed, Expired]
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
    ");
    for state in ["pending", "draining", "failed", "expired", "garbage"] {
        assert_eq!(action(&begun(|claim| claim.state(state)), now()), "forceful-fallback: deletes NodeClaim a without a surge", "{state}");
    }
}

#[test]
fn windows_freezes_and_policies_do_not_stop_it() {
    assert_snapshot!(action(&begun(|claim| claim).note(keys::FREEZE, "2027-01-01T00:00:00Z"), at("2026-12-03T00:00:00Z")), @"forceful-fallback: deletes NodeClaim a without a surge");
    assert_snapshot!(check(&begun(|claim| claim).ungoverned(), now()), @r"
    web: forceful-fallback: deletes NodeClaim a without a surge
      mirror draining of a on web at 2026-12-02T03:00:00Z
      mark a draining from [None, Pending, Failed, Expired]
      delete claim a (uid-a) | gone is fine | refused: DeleteRefused
    ");
    assert_snapshot!(check(&begun(|claim| claim.state("draining").deleting(hours(3))).ungoverned(), now()), @r"
    web: await-drain: NodeClaim a drains
      mirror draining of a on web at 2026-12-02T03:00:00Z
    ");
}

#[test]
fn its_drain_is_watched_like_any_other() {
    assert_snapshot!(check(&begun(|claim| claim.state("draining").deleting(mins(1))), now()), @r"
    asks nodes of web
    web: await-drain: NodeClaim a drains since 2026-12-02T02:59:00Z
      mirror draining of a on web at 2026-12-02T03:00:00Z
      wakes 2026-12-02T03:09:01Z
    ");
}

#[test]
fn it_completes_when_the_claim_is_gone() {
    let mut fleet = begun(|claim| claim);
    fleet.objects.remove(&(Kind::NodeClaim, "a".into()));
    assert_snapshot!(check(&fleet, now()), @r"
    web: complete: NodeClaim a is gone
      release web from a at 2026-12-02T03:00:00Z: Gone | says the outcome, RotationExpired too
      unsign web | gone is fine
    ");
}
