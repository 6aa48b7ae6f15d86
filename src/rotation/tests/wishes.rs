//! What operators ask for: a claim by name, a limit for the cluster, a policy that waits, windows that are counted.

use insta::assert_snapshot;
use serde_json::json;

use super::{check::*, fleet::*};
use crate::{
    api::keys,
    rotation::{
        decide::decide,
        effect::{Effect, Kind},
        scene::Config,
    },
};

#[test]
fn an_asked_for_claim_goes_first_whatever_its_age_and_lifetime() {
    let asked = |at: String| {
        fleet().claim("old", |claim| claim).claim("young", |claim| {
            let mut claim = claim.age(mins(5)).note(keys::ROTATE_REQUESTED, at);
            claim.0["spec"]["expireAfter"] = json!("Never");
            claim
        })
    };
    assert!(action(&asked(ago(mins(0))), now()).starts_with("start: starts the rotation of NodeClaim young"));
    assert!(action(&asked(ago(-mins(1))), now()).starts_with("start: starts the rotation of NodeClaim old"));
    let unreadable = check(&asked("soon".into()), now());
    assert!(unreadable.contains("starts the rotation of NodeClaim old"));
    assert_eq!(unreadable.matches("StateUnreadable").count(), 1, "{unreadable}");
}

#[test]
fn asking_opens_no_gate() {
    let fleet = fleet().claim("a", |claim| claim.age(mins(5)).note(keys::ROTATE_REQUESTED, ago(days(1))));
    assert!(action(&fleet, at("2026-12-02T01:59:59Z")).starts_with("gated: no start (window-closed)"));
}

/// Three pools with a due claim each: `b`'s deadline is nearest, then `c`'s, then `a`'s.
fn three() -> Fleet {
    [("a", 6), ("b", 8), ("c", 7)].into_iter().fold(
        Fleet::default().policy("weekly", json!({"workload": "web"}), |_| ()),
        |fleet, (name, age)| {
            let fleet = fleet.pool(name, |pool| pool).claim(&format!("claim-{name}"), |claim| claim.age(days(age)));
            let owned = |mut object: Object| {
                object.0["metadata"]["labels"][keys::NODEPOOL_LABEL] = json!(name);
                object
            };
            fleet.change(Kind::NodeClaim, &format!("claim-{name}"), owned).change(Kind::Node, &format!("node-claim-{name}"), owned)
        },
    )
}

fn starts(fleet: &Fleet, max_in_flight: Option<usize>) -> Vec<String> {
    let config = Config { max_in_flight, ..config() };
    let (view, _) = read_with(fleet, now(), &config);
    let decision = decide(&view, now(), &config);
    let steps = decision.steps.iter().map(|(pool, step)| {
        let anchors = step.effects.iter().any(|planned| matches!(planned.effect, Effect::Anchor { .. }));
        format!("{pool} {}{}", step.action.code, if anchors { ", anchors" } else { "" })
    });
    steps.collect()
}

#[test]
fn starts_are_granted_across_pools_by_deadline() {
    assert_eq!(starts(&three(), None), ["a start, anchors", "b start, anchors", "c start, anchors"]);
    assert_eq!(starts(&three(), Some(2)), ["a gated", "b start, anchors", "c start, anchors"]);
    assert_eq!(starts(&three(), Some(1)), ["a gated", "b start, anchors", "c gated"]);
}

#[test]
fn what_is_in_flight_takes_its_place_and_is_never_held() {
    let busy = three().change(Kind::NodePool, "a", |pool| pool.note(keys::ACTIVE_ROTATION, "claim-a"));
    assert_eq!(starts(&busy, Some(2)), ["a await-surge", "b start, anchors", "c gated"]);
    assert_eq!(starts(&busy, Some(1)), ["a await-surge", "b gated", "c gated"]);
    // So does one in a pool that is decided elsewhere.
    let config = Config { max_in_flight: Some(1), ..config() };
    let (mut view, _) = read_with(&three(), now(), &config);
    view.in_flight_elsewhere = 1;
    let decision = decide(&view, now(), &config);
    assert!(decision.steps.values().all(|step| step.action.code == "gated" && step.wake_at.is_some()), "{decision:?}");
}

#[test]
fn a_suspended_policy_starts_nothing_and_finishes_what_is_in_flight() {
    let suspended = |fleet: Fleet| {
        let mut fleet = fleet;
        fleet.policies.get_mut("weekly").unwrap()["spec"]["suspend"] = json!(true);
        fleet
    };
    assert_snapshot!(action(&suspended(fleet().claim("a", |claim| claim)), now()), @"gated: no start (suspended): suspended: spec.suspend of RotationPolicy weekly is true");
    assert!(action(&suspended(fleet().awaiting(mins(5))), now()).starts_with("await-surge"));
}

/// The windows that a pass at this time counts as missed.
fn missed(fleet: &Fleet, time: &str) -> Vec<(String, u64)> {
    let (view, _) = read_with(fleet, at(time), &config());
    let decision = decide(&view, at(time), &config());
    let aside = decision.steps["web"].aside.iter();
    aside
        .filter_map(
            |planned| if let Effect::SettleWindows { to, missed, .. } = &planned.effect { Some((to.clone(), *missed)) } else { None },
        )
        .collect()
}

#[test]
fn windows_that_closed_while_no_pass_ran_count_once_each() {
    let due = fleet().claim("a", |claim| claim);
    let settled = |stamp: &str| due.clone().note(keys::WINDOW_SETTLED_AT, stamp);
    // Wednesday's and Saturday's window both closed before this pass, on Sunday.
    let sunday = "2026-12-06T12:00:00Z";
    assert_eq!(missed(&due, sunday), [(format!("{sunday} uid-weekly/1"), 2)]);
    // Once noted, they are never counted again.
    assert_eq!(missed(&settled(&format!("{sunday} uid-weekly/1")), sunday), []);
    // A first install and an edited policy begin to count now.
    assert_eq!(missed(&settled(""), sunday), [(format!("{sunday} uid-weekly/1"), 0)]);
    assert_eq!(missed(&settled("2026-12-02T03:00:00Z uid-weekly/7"), sunday), [(format!("{sunday} uid-weekly/1"), 0)]);
    // A rotation in flight defers it; a rotation in that window settles it.
    assert_eq!(missed(&due.clone().anchored("a"), sunday), []);
    assert_eq!(missed(&due.clone().note(keys::LAST_ROTATION_AT, "2026-12-02T03:00:00Z"), sunday), [(format!("{sunday} uid-weekly/1"), 1)]);
    // A freeze that outlasted the close silences it, also once it is over.
    assert_eq!(missed(&due.clone().note(keys::FREEZE, "2026-12-06T00:00:00Z"), sunday), [(format!("{sunday} uid-weekly/1"), 0)]);
    assert_eq!(missed(&due.clone().note(keys::FREEZE, "2026-12-05T00:00:00Z"), sunday), [(format!("{sunday} uid-weekly/1"), 1)]);
    // Nothing was due.
    assert_eq!(
        missed(&fleet().claim("a", |claim| claim.age(mins(5))), "2026-12-02T06:00:00Z"),
        [("2026-12-02T06:00:00Z uid-weekly/1".into(), 0)]
    );
}
