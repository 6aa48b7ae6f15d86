//! `apply` of each effect on every state its object can be found in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{check::words, fleet::*};
use crate::{
    api::keys,
    rotation::{
        effect::{Effect, End, Fresh, Kind, Owner, SurgePath, Verdict, apply},
        state::State,
    },
};

const PASS: &str = "this-pass";

pub fn fresh(kind: Kind, object: &Value) -> Fresh {
    match kind {
        Kind::NodePool => Fresh::NodePool(typed(object)),
        Kind::NodeClaim => Fresh::NodeClaim(typed(object)),
        Kind::Node => Fresh::Node(typed(object)),
        Kind::Pod => Fresh::Pod(typed(object)),
    }
}

/// The keys that a patch may name: ours, and what we own of the Node's.
fn is_ours(kind: Kind, patch: &Value) -> bool {
    let all = |value: &Value, allowed: &dyn Fn(&str) -> bool| value.as_object().is_none_or(|map| map.keys().all(|key| allowed(key)));
    let ours = |key: &str| key.starts_with(keys::PREFIX) || (kind == Kind::Node && key == keys::DO_NOT_DISRUPT);
    all(patch, &|key| key == "metadata" || (key == "spec" && kind == Kind::Node))
        && all(&patch["metadata"], &|key| ["annotations", "labels", "resourceVersion"].contains(&key))
        && all(&patch["metadata"]["annotations"], &ours)
        && all(&patch["metadata"]["labels"], &|key| kind == Kind::Node && key == keys::MARKED)
        && all(&patch["spec"], &|key| key == "unschedulable")
}

/// Judges, proves what must hold of every verdict, and answers it as text.
pub fn judged(effect: &Effect, object: Option<&Value>) -> String {
    let kind = effect.target().kind;
    let verdict = apply(effect, object.map(|object| fresh(kind, object)).as_ref(), PASS);
    let again = |object: &Value| match apply(effect, Some(&fresh(kind, object)), PASS) {
        Verdict::Already | Verdict::NotMine(_) => {}
        other => panic!("{}: after its own write it answers {other:?}", words(effect)),
    };
    match verdict {
        Verdict::Patch(patch) => {
            let patch = patch.to_value();
            let mut object = object.unwrap().clone();
            assert_eq!(patch["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"], "every patch is conditional");
            assert!(is_ours(kind, &patch), "{}: {patch} touches what isn't ours", words(effect));
            merge(&mut object, &patch);
            again(&object);
            let mut shown = patch;
            shown["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let part = |value: &Value| if value.is_null() { String::new() } else { format!(" {value}") };
            format!("patch{}{}{}", part(&shown["metadata"]["annotations"]), part(&shown["metadata"]["labels"]), part(&shown["spec"]))
        }
        Verdict::Delete { uid } => {
            let mut object = object.unwrap().clone();
            assert_eq!(object["metadata"]["uid"], uid, "every delete names the UID");
            object["metadata"]["deletionTimestamp"] = json!(ago(secs(0)));
            again(&object);
            "delete".into()
        }
        Verdict::Create(pod) => {
            again(&serde_json::to_value(pod).unwrap());
            "create".into()
        }
        Verdict::Already => "already".into(),
        Verdict::NotMine(why) => format!("not mine: {why}"),
        Verdict::Gone => "gone".into(),
    }
}

/// The table of some effects on some states: per effect, each verdict with the states that lead to it.
fn table(effects: &[Effect], states: &[(String, Option<Value>)]) -> String {
    let mut lines = Vec::new();
    for effect in effects {
        lines.push(words(effect));
        let mut verdicts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, object) in states {
            verdicts.entry(judged(effect, object.as_ref())).or_default().push(name);
        }
        lines.extend(verdicts.into_iter().map(|(verdict, states)| format!("    {verdict}\n        {}", states.join(" | "))));
    }
    lines.join("\n")
}

fn object(kind: Kind, name: &str, fleet: Fleet) -> Option<Value> {
    Some(fleet.objects[&(kind, name.to_owned())].0.clone())
}

#[test]
fn effects_on_a_pool() {
    let pool = |change: &dyn Fn(Fleet) -> Fleet| object(Kind::NodePool, "web", change(fleet()));
    let totals = r#"{"success":7,"failure":1}"#;
    let states: Vec<(&str, Option<Value>)> = vec![
        ("absent", None),
        ("free", pool(&|fleet| fleet)),
        ("free, deleting", pool(&|fleet| fleet.change(Kind::NodePool, "web", |pool| pool.deleting(mins(1))))),
        ("free, signed by us", pool(&|fleet| fleet.note(keys::WRITTEN_BY, PASS))),
        ("free, signed by another", pool(&|fleet| fleet.note(keys::WRITTEN_BY, "other-pass"))),
        ("free, with leftovers", pool(&|fleet| fleet.note(keys::ACTIVE_ROTATION_STATE, "draining").note(keys::DRAINING_AT, "x"))),
        ("free, failed later", pool(&|fleet| fleet.note(keys::LAST_FAILURE_AT, ago(mins(5))))),
        ("on a", pool(&|fleet| fleet.anchored("a"))),
        ("on a, signed by us", pool(&|fleet| fleet.anchored("a").note(keys::WRITTEN_BY, PASS))),
        ("on a, with totals", pool(&|fleet| fleet.anchored("a").note(keys::TOTALS, totals).note(keys::LAST_FAILURE_AT, ago(mins(5))))),
        ("on a, draining", pool(&|fleet| fleet.mirrored("a", mins(3)))),
        ("on a, draining since the future", pool(&|fleet| fleet.mirrored("a", mins(-3)))),
        (
            "on a, draining, broken times",
            pool(&|fleet| fleet.mirrored("a", mins(3)).note(keys::SURGE_WAIT, "x").note(keys::DRAINING_AT, "x")),
        ),
        ("on a, fallback", pool(&|fleet| fleet.mirrored("a", mins(3)).note(keys::ROTATION_MODE, "forceful-fallback"))),
        ("on b", pool(&|fleet| fleet.anchored("b"))),
        ("on b, signed by us", pool(&|fleet| fleet.anchored("b").note(keys::WRITTEN_BY, PASS))),
    ];
    let (pool, claim, at) = ("web".to_owned(), "a".to_owned(), now());
    let release = |end| Effect::Release { pool: pool.clone(), claim: claim.clone(), end, at };
    let failed_at = super::fleet::at(&ago(mins(40)));
    let effects = [
        Effect::Anchor { pool: pool.clone(), claim: claim.clone(), at, failed_at: None },
        Effect::Anchor { pool: pool.clone(), claim: claim.clone(), at, failed_at: Some(failed_at) },
        Effect::StartFallback { pool: pool.clone(), claim: claim.clone(), at, failed_at: None },
        Effect::MirrorDraining { pool: pool.clone(), claim: claim.clone(), at, surge: Some((secs(90), SurgePath::Provisioned)) },
        Effect::MirrorDraining { pool: pool.clone(), claim: claim.clone(), at, surge: None },
        release(End::Gone),
        release(End::Expired),
        release(End::Failed { failed_at }),
        release(End::NoRetry),
        release(End::WithoutOutcome),
        Effect::DropOrphans { pool: pool.clone() },
        Effect::ForgetPoolWriter { pool },
    ];
    insta::assert_snapshot!(table(&effects, &named(states)));
}

fn named(states: Vec<(&str, Option<Value>)>) -> Vec<(String, Option<Value>)> {
    states.into_iter().map(|(name, object)| (name.to_owned(), object)).collect()
}

/// Every effect on a claim, and the states that it can be found in.
pub fn on_a_claim() -> ([Effect; 11], Vec<(String, Option<Value>)>) {
    let mut states = vec![("absent".to_owned(), None)];
    for state in ["none", "pending", "draining", "failed", "expired", "odd"] {
        for deleting in [false, true] {
            for signed in [false, true] {
                let claim = fleet().claim("a", |claim| {
                    let claim = if state == "none" { claim } else { claim.state(state) };
                    let claim = if deleting { claim.deleting(mins(1)) } else { claim };
                    if signed { claim.note(keys::WRITTEN_BY, PASS) } else { claim }
                });
                let words = [(deleting, " deleting"), (signed, " signed")].map(|(is, word)| if is { word } else { "" });
                states.push((format!("{state}{}{}", words[0], words[1]), object(Kind::NodeClaim, "a", claim)));
            }
        }
    }
    let claim = |change: &dyn Fn(Object) -> Object| object(Kind::NodeClaim, "a", fleet().claim("a", change));
    let begun = |claim: Object| claim.state("pending").note(keys::SURGE_CLAIM, "b").note(keys::RETRY_COUNT, "2");
    states.extend(named(vec![
        ("pending for long", claim(&|claim| begun(claim).note(keys::STARTED_AT, ago(mins(5))))),
        ("pending since the future", claim(&|claim| begun(claim).note(keys::STARTED_AT, ago(mins(-5))))),
        ("pending since nonsense", claim(&|claim| begun(claim).note(keys::STARTED_AT, "x").note(keys::RETRY_COUNT, "x"))),
        ("failed with an old start", claim(&|claim| begun(claim).state("failed").note(keys::STARTED_AT, ago(mins(5))))),
        (
            "another of the name",
            claim(&|mut claim| {
                claim.0["metadata"]["uid"] = json!("uid-new");
                claim.state("draining")
            }),
        ),
    ]));
    let (name, uid, at) = ("a".to_owned(), "uid-a".to_owned(), now());
    let effects = [
        Effect::BeginAttempt { claim: name.clone(), from: &[State::None, State::Pending], at },
        Effect::BeginAttempt { claim: name.clone(), from: &[State::None, State::Failed], at },
        Effect::NoteSurgeClaim { claim: name.clone(), induced: "b".into() },
        Effect::MarkDraining { claim: name.clone(), from: &[State::Pending] },
        Effect::MarkFailed { claim: name.clone(), at },
        Effect::MarkExpired { claim: name.clone(), from: &[State::None, State::Pending] },
        Effect::MarkExpired { claim: name.clone(), from: &[State::Failed] },
        Effect::ClearClaim { claim: name.clone() },
        Effect::SweepClaim { claim: name.clone(), at },
        Effect::DeleteClaim { claim: name.clone(), uid: uid.clone() },
        Effect::ReapClaim { claim: name, uid },
    ];
    (effects, states)
}

#[test]
fn effects_on_a_claim() {
    let (effects, states) = on_a_claim();
    insta::assert_snapshot!(table(&effects, &states));
}

#[test]
fn effects_on_a_node() {
    let node = |change: &dyn Fn(Object) -> Object| {
        object(Kind::Node, "node-a", fleet().claim("a", |claim| claim).change(Kind::Node, "node-a", change))
    };
    let cordoned = |node: Object| node.spec("unschedulable", json!(true));
    let states = vec![
        ("absent", None),
        ("plain", node(&|node| node)),
        ("the operator's true", node(&|node| node.note(keys::DO_NOT_DISRUPT, "true"))),
        ("cordoned by the operator", node(&cordoned)),
        ("frozen by us", node(&|node| node.frozen("a"))),
        ("held by us", node(&|node| node.held("a"))),
        (
            "held by us over the operator's true",
            node(&|node| {
                cordoned(
                    node.label(keys::MARKED, "true")
                        .note(keys::SURGE_FOR, "a")
                        .note(keys::DO_NOT_DISRUPT, "true")
                        .note(keys::CORDONED, "true"),
                )
            }),
        ),
        (
            "held by us, then uncordoned and unfrozen by the operator",
            node(&|node| node.held("a").spec("unschedulable", json!(false)).note(keys::DO_NOT_DISRUPT, "false")),
        ),
        ("held by us, the label gone", node(&|node| node.held("a").unlabel(keys::MARKED))),
        ("held for b", node(&|node| node.held("b"))),
        ("marked, and nothing else", node(&|node| node.label(keys::MARKED, "true"))),
    ];
    let (node, claim) = ("node-a".to_owned(), "a".to_owned());
    let effects = [
        Effect::Freeze { node: node.clone(), claim: claim.clone() },
        Effect::Hold { node: node.clone(), claim: claim.clone() },
        Effect::Restore { node: node.clone(), owner: Owner::Claim(claim.clone()) },
        Effect::Restore { node: node.clone(), owner: Owner::NoneOf(BTreeSet::new()) },
        Effect::Restore { node, owner: Owner::NoneOf(BTreeSet::from([claim])) },
    ];
    insta::assert_snapshot!(table(&effects, &named(states)));
}

#[test]
fn effects_on_a_placeholder() {
    let name = "noderotation-surge-a";
    let pod = |change: &dyn Fn(Object) -> Object| object(Kind::Pod, name, fleet().placeholder("a", change));
    let states = vec![
        ("absent", None),
        ("pending", pod(&|pod| pod)),
        ("running", pod(&|pod| pod.on("node-b").phase("Running"))),
        ("failed", pod(&|pod| pod.phase("Failed"))),
        ("succeeded", pod(&|pod| pod.phase("Succeeded"))),
        ("terminating", pod(&|pod| pod.deleting(secs(1)))),
        ("of another rotation", pod(&|pod| pod.note(keys::SURGE_FOR, "b"))),
        ("without our label", pod(&|pod| pod.unlabel(keys::SURGE_FOR))),
        (
            "without the annotation",
            pod(&|mut pod| {
                pod.0["metadata"]["annotations"] = json!({});
                pod
            }),
        ),
    ];
    let created = typed(&fleet().placeholder("a", |pod| pod).objects[&(Kind::Pod, name.to_owned())].0);
    let effects = [
        Effect::CreatePlaceholder { pod: created, claim: "a".into() },
        Effect::DeletePlaceholder { namespace: "rotation".into(), name: name.into(), claim: "a".into() },
    ];
    insta::assert_snapshot!(table(&effects, &named(states)));
}

#[test]
fn an_effect_on_an_object_of_another_kind_does_nothing() {
    let claim = fleet().claim("a", |claim| claim);
    let verdict = apply(
        &Effect::ForgetPoolWriter { pool: "a".into() },
        Some(&fresh(Kind::NodeClaim, &claim.objects[&(Kind::NodeClaim, "a".into())].0)),
        PASS,
    );
    assert_eq!(verdict, Verdict::NotMine("NodePool a: remove the signature of the last pass: not a write on a NodeClaim".into()));
}
