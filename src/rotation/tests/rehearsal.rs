//! Rehearsals: what the API server would refuse is never begun.

use insta::assert_snapshot;
use serde_json::json;

use super::{check::*, fleet::*};
use crate::{
    rotation::{decide::decide, effect::Fresh, scene::Config},
    view::{Answer, View},
};

fn rehearsing() -> Config {
    Config { rehearse: true, ..config() }
}

fn due() -> Fleet {
    ["a", "b", "c", "d"].iter().enumerate().fold(fleet(), |fleet, (younger, name)| {
        let age = days(7) - mins(i64::try_from(younger).unwrap());
        fleet.claim(name, |claim| claim.age(age))
    })
}

fn refused() -> Answer {
    Answer::Refused { status: 403, words: "no, says the policy".into() }
}

/// What the pool does, with what was asked, in words.
fn rehearsed(fleet: &Fleet) -> String {
    let (view, asked): (View, String) = read_with(fleet, now(), &rehearsing());
    let decision = decide(&view, now(), &rehearsing());
    let step = &decision.steps["web"];
    let told = step.conditions.iter().map(|notice| format!("! {} {}\n", notice.reason, notice.message));
    let census: Vec<String> = step.assessment.census.iter().map(|(bucket, count)| format!("{} {count}", bucket.as_str())).collect();
    format!(
        "{asked}{}: {}\n{}\n{}{} writes",
        step.action.code,
        step.action.detail,
        census.join(", "),
        told.collect::<String>(),
        step.effects.len()
    )
}

#[test]
fn a_start_is_asked_for_in_full_within_the_rounds() {
    assert_snapshot!(rehearsed(&due()), @r"
    asks nodes of web
    asks node-a, pods on node-a, rehearsal: begin a from [None, Failed] at 2026-12-02T03:00:00Z
    asks rehearsal: create the placeholder of a (cpu 1), rehearsal: delete claim a (uid-a), rehearsal: hold node-a for a
    start: starts the rotation of NodeClaim a on Node node-a, age 168h, deadline 2026-12-09T03:00:00Z
    eligible 4
    4 writes
    ");
}

#[test]
fn a_claim_whose_stamp_is_refused_gives_its_turn_to_the_next() {
    let mut fleet = due();
    fleet.answers.insert(("stamp", "a".into()), refused());
    assert!(rehearsed(&fleet).ends_with(
        "start: starts the rotation of NodeClaim b on Node node-b, age 167h59m, deadline 2026-12-09T03:01:00Z\nunwritable 1, eligible 3\n4 writes"
    ));
    for claim in ["b", "c"] {
        fleet.answers.insert(("stamp", claim.into()), refused());
    }
    assert!(rehearsed(&fleet).ends_with("idle: no eligible candidate\nunwritable 3, eligible 1\n0 writes"));
}

#[test]
fn a_refused_write_starts_nothing_and_is_told_with_the_servers_words() {
    for (kind, name, reason, write) in [
        ("hold", "node-a", "SurgeRefused", "Node node-a: protect from voluntary disruption, and cordon unless it is cordoned"),
        ("create", "noderotation-surge-a", "SurgeRefused", "Pod: create the placeholder for a"),
        ("delete", "a", "DeleteRefused", "NodeClaim a: delete, so that it drains"),
    ] {
        let mut fleet = due();
        fleet.answers.insert((kind, name.into()), refused());
        let words = format!("No rotation of NodeClaim a starts, since the API server would refuse it (403): {write}: no, says the policy");
        let told = rehearsed(&fleet);
        assert!(told.ends_with(&format!("gated: no start (refused): {words}\neligible 4\n! {reason} {words}\n0 writes")), "{told}");
    }
}

#[test]
fn what_cannot_be_told_goes_on() {
    let mut fleet = due();
    for (kind, name) in [("stamp", "a"), ("hold", "node-a"), ("create", "noderotation-surge-a"), ("delete", "a")] {
        fleet.answers.insert((kind, name.into()), Answer::Unknown("dry run is not supported".into()));
    }
    assert!(rehearsed(&fleet).ends_with("eligible 4\n4 writes"));
}

#[test]
fn a_placeholder_that_would_be_changed_is_told_with_both_numbers() {
    let mut fleet = due();
    let marks = json!({crate::api::keys::SURGE_FOR: "a"});
    let mut pod = json!({"metadata": {"name": "noderotation-surge-a", "labels": marks, "annotations": marks}, "spec": {
        "priorityClassName": crate::api::keys::SURGE_PRIORITY_CLASS, "containers": [
        {"name": "pause", "resources": {"requests": {"cpu": "1"}}}, {"name": "sidecar", "resources": {"requests": {"cpu": "100m"}}},
    ]}});
    let after = Answer::Agreed { after: Some(Box::new(Fresh::Pod(typed(&pod)))) };
    fleet.answers.insert(("create", "noderotation-surge-a".into()), after);
    let told = rehearsed(&fleet);
    assert!(
        told.contains("! SurgeMutated The placeholder for NodeClaim a would not be created as it was sent: cpu: 1 sent, 1100m returned"),
        "{told}"
    );
    assert!(told.ends_with("4 writes"));

    // Without its label no pass would ever find it again.
    pod["metadata"]["labels"] = json!({});
    let after = Answer::Agreed { after: Some(Box::new(Fresh::Pod(typed(&pod)))) };
    fleet.answers.insert(("create", "noderotation-surge-a".into()), after);
    let told = rehearsed(&fleet);
    assert!(told.contains("! SurgeRefused ") && told.contains("without its label noderotation.io/surge-for"), "{told}");
    assert!(told.ends_with("0 writes"), "{told}");
}

#[test]
fn a_fallback_rehearses_its_deletion_alone() {
    let near = || fleet().surge("forcefulFallback", json!({"enabled": true})).claim("a", |claim| claim.age(days(14) - mins(30)));
    assert!(rehearsed(&near()).contains("asks rehearsal: delete claim a (uid-a)\nforceful-fallback: "), "{}", rehearsed(&near()));
    let mut fleet = near();
    fleet.answers.insert(("delete", "a".into()), refused());
    assert!(rehearsed(&fleet).contains("! DeleteRefused "));
    assert!(rehearsed(&fleet).ends_with("0 writes"));
}
