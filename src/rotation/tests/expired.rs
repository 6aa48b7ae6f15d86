//! Force-expiry: someone else deleted the claim.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::rotation::effect::Kind;

fn deleted(state: &str) -> Fleet {
    let fleet = fleet().awaiting(mins(5)).placeholder("a", |pod| pod).host("b", |claim| claim);
    fleet.change(Kind::NodeClaim, "a", |claim| claim.state(state).deleting(mins(1)))
}

#[test]
fn a_pending_claim_that_is_deleted_expires_before_anything_else() {
    assert_snapshot!(check(&deleted("pending"), now()), @r"
    asks nodes of web
    web: expire: NodeClaim a was deleted by someone else before its rotation could finish
      mark a expired from [None, Pending] | says RotationExpired
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: Expired | says the outcome
      unsign web | gone is fine
    ");
}

#[test]
fn so_does_one_that_is_anchored_and_not_begun_and_one_past_its_timeout() {
    assert_snapshot!(action(&deleted(""), now()), @"expire: NodeClaim a was deleted by someone else before its rotation could finish");
    assert_snapshot!(action(&deleted("pending"), at("2026-12-02T05:00:00Z")), @"expire: NodeClaim a was deleted by someone else before its rotation could finish");
}

#[test]
fn an_expired_claim_is_cleaned_up_after_and_not_announced_again() {
    assert_snapshot!(check(&deleted("expired"), now()), @r"
    asks nodes of web
    web: expire: cleans up after NodeClaim a, which was deleted by someone else
      delete the placeholder rotation/noderotation-surge-a of a | gone is fine
      restore node-a from a | gone is fine
      release web from a at 2026-12-02T03:00:00Z: Expired | says the outcome
      unsign web | gone is fine
    ");
}
