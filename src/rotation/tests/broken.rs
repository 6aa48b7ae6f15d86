//! Values that cannot be used: told, and never in the way for good.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::api::keys;

#[test]
fn every_broken_value_is_told_with_what_becomes_of_it() {
    let far = "2036-01-01T00:00:00Z";
    let fleet = fleet()
        .note(keys::LAST_FAILURE_AT, far)
        .note(keys::LAST_ROTATION_AT, "never")
        .note(keys::TOTALS, "{")
        .note(keys::SURGE_WAIT, "long")
        .note(keys::DRAINING_AT, far)
        .anchored("gone")
        .claim("a", |claim| claim.state("odd").note(keys::STARTED_AT, far).note(keys::FAILED_AT, "x").note(keys::RETRY_COUNT, "-1"));
    assert_snapshot!(check(&fleet, now()), @r#"
    asks nodes of web
    web: complete: NodeClaim gone is gone
      release web from gone at 2026-12-02T03:00:00Z: Gone | says the outcome, RotationExpired too
      unsign web | gone is fine
      ! Warning StateUnreadable on NodePool web (web/noderotation.io/draining-at): web: noderotation.io/draining-at: "2036-01-01T00:00:00Z" can't be used: it lies in the future
      ! Warning StateUnreadable on NodePool web (web/noderotation.io/last-failure-at): web: noderotation.io/last-failure-at: "2036-01-01T00:00:00Z" can't be used: it lies in the future
      ! Warning StateUnreadable on NodePool web (web/noderotation.io/last-rotation-at): web: noderotation.io/last-rotation-at: "never" can't be used: it is not an RFC 3339 time
      ! Warning StateUnreadable on NodePool web (web/noderotation.io/totals): web: noderotation.io/totals: "{" can't be used: the totals restart at zero
      ! Warning StateUnreadable on NodePool web (web/noderotation.io/surge-wait): web: noderotation.io/surge-wait: "long" can't be used: the histogram loses this sample
      ! Warning StateUnreadable on NodePool web (a/noderotation.io/started-at): a: noderotation.io/started-at: "2036-01-01T00:00:00Z" can't be used: it lies in the future
      ! Warning StateUnreadable on NodePool web (a/noderotation.io/failed-at): a: noderotation.io/failed-at: "x" can't be used: it is not an RFC 3339 time
      ! Warning StateUnreadable on NodePool web (a/noderotation.io/retry-count): a: noderotation.io/retry-count: "-1" can't be used: it counts as 0
      ! Warning StateUnreadable on NodePool web (a/noderotation.io/state): a: noderotation.io/state: "odd" can't be used: the claim counts as not in rotation
    "#);
}

#[test]
fn a_stamp_from_a_wrong_clock_holds_nothing_back() {
    let paused = |span: chrono::TimeDelta| action(&fleet().claim("a", |claim| claim).note(keys::LAST_FAILURE_AT, ago(-span)), now());
    assert_snapshot!(paused(mins(1)), @"gated: no start (failure-pause): failurePause 10m after the last failure, until 2026-12-02T03:11:00Z");
    assert_snapshot!(paused(mins(1) + secs(1)), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
    let failed =
        |span: chrono::TimeDelta| action(&fleet().claim("a", |claim| claim.state("failed").note(keys::FAILED_AT, ago(-span))), now());
    assert_snapshot!(failed(mins(1)), @"idle: no eligible candidate");
    assert_snapshot!(failed(mins(1) + secs(1)), @"start: starts the rotation of NodeClaim a on Node node-a, age 144h, deadline 2026-12-10T03:00:00Z");
}
