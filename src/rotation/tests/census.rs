//! The census: every claim in exactly one bucket, and the order of candidates.

use insta::assert_snapshot;

use super::{check::*, fleet::*};
use crate::{api::keys, rotation::effect::Kind};
use serde_json::json;

fn census(fleet: &Fleet, now: crate::api::time::Time) -> String {
    let step = only_step(fleet, now);
    let buckets = step.assessment.census.iter().map(|(bucket, count)| format!("{} {count}", bucket.as_str()));
    let candidates: Vec<&str> = step.assessment.candidates.iter().map(|candidate| candidate.claim.as_str()).collect();
    format!("{}; candidates {}", buckets.collect::<Vec<_>>().join(", "), candidates.join(" "))
}

/// Adds what puts a claim into each bucket, from the last in order to the first: the bucket follows every time.
#[test]
fn the_first_bucket_that_fits_is_the_one() {
    let opted_out = |node: Object| node.note(keys::DO_NOT_DISRUPT, "true");
    // A second claim keeps the pool triggered, so that its Nodes are known throughout.
    let mut fleet = fleet().claim("z", |claim| claim).claim("a", |claim| claim);
    let mut told = vec![census(&fleet, now())];
    let mut next = |change: &dyn Fn(Fleet) -> Fleet| {
        fleet = change(fleet.clone());
        told.push(census(&fleet, now()));
    };
    next(&|fleet| fleet.change(Kind::NodeClaim, "a", |claim| claim.state("failed").note(keys::FAILED_AT, ago(mins(1)))));
    next(&|fleet| fleet.change(Kind::NodeClaim, "a", |claim| claim.age(days(1))));
    next(&|fleet| fleet.change(Kind::NodeClaim, "a", |claim| claim.condition("Ready", "False")));
    next(&|fleet| fleet.change(Kind::Node, "node-a", opted_out));
    next(&|fleet| fleet.change(Kind::NodeClaim, "a", |claim| claim.state("expired")));
    next(&|fleet| fleet.change(Kind::NodeClaim, "a", |claim| claim.deleting(mins(1))));
    next(&|fleet| fleet.anchored("a"));
    assert_snapshot!(told.join("\n"), @r"
    eligible 2; candidates a z
    in-backoff 1, eligible 1; candidates z
    not-triggered 1, eligible 1; candidates z
    not-ready 1, eligible 1; candidates z
    opted-out 1, eligible 1; candidates z
    terminal 1, eligible 1; candidates z
    deleting 1, eligible 1; candidates z
    in-flight 1, eligible 1; candidates z
    ");
}

#[test]
fn a_claim_without_a_node_or_whose_node_is_gone_is_not_ready() {
    let mut fleet = fleet().claim("a", |claim| claim).claim("b", |mut claim| {
        claim.0["status"].as_object_mut().unwrap().remove("nodeName");
        claim
    });
    fleet.objects.remove(&(Kind::Node, "node-a".into()));
    assert_snapshot!(census(&fleet, now()), @"not-ready 2; candidates");
}

#[test]
fn only_the_operators_exact_true_opts_out() {
    let node = |change: &dyn Fn(Object) -> Object| census(&fleet().claim("a", |claim| claim).change(Kind::Node, "node-a", change), now());
    assert_snapshot!(node(&|node| node.note(keys::DO_NOT_DISRUPT, "true")), @"opted-out 1; candidates");
    assert_snapshot!(node(&|node| node.note(keys::DO_NOT_DISRUPT, "30m")), @"eligible 1; candidates a");
    assert_snapshot!(node(&|node| node.note(keys::DO_NOT_DISRUPT, "true").note(keys::DO_NOT_DISRUPT_OWNED, "true")), @"eligible 1; candidates a");
}

#[test]
fn a_claim_that_this_pass_sweeps_is_in_backoff() {
    assert_snapshot!(census(&fleet().claim("a", |claim| claim.state("pending")).claim("b", |claim| claim.state("draining")), now()), @"in-backoff 2; candidates");
}

#[test]
fn nodes_are_not_asked_for_where_nothing_is_due() {
    let fleet = fleet().claim("a", |claim| claim.age(days(1))).change(Kind::Node, "node-a", |node| node.note(keys::DO_NOT_DISRUPT, "true"));
    assert_snapshot!(census(&fleet, now()), @"not-triggered 1; candidates");
}

#[test]
fn the_earliest_deadline_goes_first_then_the_oldest_then_the_name() {
    let fleet = fleet()
        .policy("weekly", json!({"workload": "web"}), |spec| spec["ageThreshold"] = json!("24h"))
        .claim("never", |claim| claim.age(days(300)).spec("expireAfter", json!("Never")))
        .claim("d", |claim| claim.age(days(6)))
        .claim("c", |claim| claim.age(days(6)))
        .claim("b", |claim| claim.age(days(7)).spec("expireAfter", json!("360h")))
        .claim("a", |claim| claim.age(days(2)).spec("expireAfter", json!("72h")));
    assert_snapshot!(census(&fleet, now()), @"eligible 5; candidates a b c d never");
}

#[test]
fn the_backoff_doubles_up_to_eight_times_and_ends_when_a_window_opens() {
    let waits = |retries: &str, failed_at: &str| {
        let claim = fleet().claim("a", |claim| claim.state("failed").note(keys::FAILED_AT, failed_at).note(keys::RETRY_COUNT, retries));
        let step = only_step(&claim, at("2026-12-02T02:00:00Z"));
        step.assessment.next_change.map_or("no longer".to_owned(), crate::api::time::to_annotation)
    };
    let inside = "2026-12-02T02:00:00Z";
    let told: Vec<String> =
        ["0", "1", "2", "3", "4", "5", "99999999999999999999", "x"].map(|retries| format!("{retries}: {}", waits(retries, inside))).into();
    assert_snapshot!(told.join("\n"), @r"
    0: 2026-12-02T02:30:00Z
    1: 2026-12-02T02:30:00Z
    2: 2026-12-02T03:00:00Z
    3: 2026-12-02T04:00:00Z
    4: 2026-12-02T06:00:00Z
    5: 2026-12-02T06:00:00Z
    99999999999999999999: 2026-12-02T06:00:00Z
    x: 2026-12-02T02:30:00Z
    ");
    assert_snapshot!(waits("9", "2026-12-02T01:59:59Z"), @"no longer");
}

#[test]
fn the_next_deadline_is_that_of_a_claim_that_stays() {
    let fleet = fleet()
        .awaiting(mins(1))
        .change(Kind::NodeClaim, "a", |claim| claim.deleting(secs(5)))
        .claim("b", |claim| claim.age(days(5)).note(keys::RETRY_COUNT, "3"))
        .claim("c", |claim| claim.age(days(13)).deleting(mins(1)).note(keys::RETRY_COUNT, "4"));
    let assessment = only_step(&fleet, now()).assessment;
    assert_eq!((assessment.next_deadline, assessment.retry_count), (Some(at("2026-12-11T03:00:00Z")), 4));
}

#[test]
fn a_rotation_counts_from_its_start_also_while_it_drains() {
    let begun = |fleet: Fleet| only_step(&fleet, now()).assessment.in_flight.unwrap().begun;
    let pending = fleet().awaiting(mins(4));
    assert_eq!(begun(pending), Some(now() - mins(4)));
    let drains = |change: fn(Object) -> Object| {
        let claim = |claim: Object| change(claim.state("draining").deleting(mins(3)));
        fleet().mirrored("a", mins(3)).claim("a", claim).change(Kind::Node, "node-a", |node| node.held("a"))
    };
    assert_eq!(begun(drains(|claim| claim.note(keys::STARTED_AT, ago(mins(9))))), Some(now() - mins(9)));
    // Without a surge there was no attempt.
    assert_eq!(begun(drains(|claim| claim)), Some(now() - mins(3)));
}
