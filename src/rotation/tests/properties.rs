//! Random states, garbage included: nothing panics, and every effect is one that §5 allows.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::{
    check::{read, words},
    fleet::*,
    judge::judged,
};
use crate::{
    api::{keys, time::Time},
    rotation::{
        decide::{Decision, decide},
        effect::{Effect, Kind},
        step::Planned,
    },
};

const VALUES: [&str; 16] = [
    "",
    "a",
    "b",
    "gone",
    "draining",
    "pending",
    "failed",
    "expired",
    "true",
    "forceful-fallback",
    "2026-12-02T02:50:00Z",
    "2026-12-02T02:10:00Z",
    "2036-01-01T00:00:00Z",
    "90s",
    "3",
    "{\"success\": -1, \u{1F980}",
];
const POOL_KEYS: [&str; 10] = [
    keys::ACTIVE_ROTATION,
    keys::ACTIVE_ROTATION,
    keys::ACTIVE_ROTATION_STATE,
    keys::DRAINING_AT,
    keys::SURGE_WAIT,
    keys::ROTATION_MODE,
    keys::LAST_FAILURE_AT,
    keys::LAST_ROTATION_AT,
    keys::TOTALS,
    keys::FREEZE,
];
const CLAIM_KEYS: [&str; 8] =
    [keys::STATE, keys::STATE, keys::STATE, keys::STARTED_AT, keys::FAILED_AT, keys::RETRY_COUNT, keys::SURGE_CLAIM, keys::WRITTEN_BY];
const NODE_KEYS: [&str; 4] = [keys::SURGE_FOR, keys::DO_NOT_DISRUPT, keys::DO_NOT_DISRUPT_OWNED, keys::CORDONED];

type Notes = Vec<(&'static str, &'static str)>;

fn notes(keys: &'static [&'static str]) -> impl Strategy<Value = Notes> {
    vec((select(keys), select(&VALUES[..])), 0..5)
}

fn noted(object: Object, notes: &Notes) -> Object {
    notes.iter().fold(object, |object, (key, value)| object.note(key, *value))
}

#[derive(Debug, Clone)]
struct Claim {
    notes: Notes,
    node: Notes,
    marked: bool,
    deleting: bool,
    days: i64,
    conditions: u8,
    other_pool: bool,
}

fn claim() -> impl Strategy<Value = Claim> {
    let flags = (any::<bool>(), proptest::bool::weighted(0.2), 0..16_i64, 0..6_u8, proptest::bool::weighted(0.1));
    (notes(&CLAIM_KEYS), notes(&NODE_KEYS), flags).prop_map(|(notes, node, (marked, deleting, days, conditions, other_pool))| Claim {
        notes,
        node,
        marked,
        deleting,
        days,
        conditions,
        other_pool,
    })
}

#[derive(Debug, Clone)]
struct Placed {
    claim: &'static str,
    phase: &'static str,
    node: Option<&'static str>,
    terminating: bool,
}

fn placed() -> impl Strategy<Value = Placed> {
    let node = proptest::option::of(select(&["node-a", "node-b", "node-x"][..]));
    (select(&["a", "b", "gone"][..]), select(&["Pending", "Running", "Failed"][..]), node, proptest::bool::weighted(0.2))
        .prop_map(|(claim, phase, node, terminating)| Placed { claim, phase, node, terminating })
}

fn add(fleet: Fleet, name: &str, claim: &Claim) -> Fleet {
    let fleet = fleet.claim(name, |object| {
        let object = noted(object.age(days(claim.days)), &claim.notes);
        let object = if claim.deleting { object.deleting(hours(claim.days)) } else { object };
        let object = if claim.other_pool { object.label(keys::NODEPOOL_LABEL, "other") } else { object };
        let object = if claim.conditions == 1 { object.condition("Ready", "False") } else { object };
        if claim.conditions == 2 { object.condition("Initialized", "False").condition("Ready", "False") } else { object }
    });
    let fleet = fleet.change(Kind::Node, &format!("node-{name}"), |node| {
        let node = noted(node, &claim.node);
        if claim.marked { node.label(keys::MARKED, "true") } else { node }
    });
    if claim.conditions == 3 {
        let mut fleet = fleet;
        fleet.objects.remove(&(Kind::Node, format!("node-{name}")));
        return fleet;
    }
    fleet
}

fn scenes() -> impl Strategy<Value = Fleet> {
    let governed = (proptest::bool::weighted(0.8), any::<bool>(), proptest::bool::weighted(0.1));
    (notes(&POOL_KEYS), vec(claim(), 0..4), vec(placed(), 0..3), governed).prop_map(
        |(pool, claims, placed, (governed, fallback, fixed))| {
            let fleet = if fallback { fleet().surge("forcefulFallback", json!({"enabled": true})) } else { fleet() };
            let fleet = if governed { fleet } else { fleet.ungoverned() };
            let fleet = fleet.change(Kind::NodePool, "web", |web| {
                let web = noted(web, &pool);
                if fixed { web.spec("replicas", json!(2)) } else { web }
            });
            let fleet = claims.iter().zip(["a", "b", "c"]).fold(fleet, |fleet, (claim, name)| add(fleet, name, claim));
            placed.iter().fold(fleet, |fleet, placed| {
                fleet.placeholder(placed.claim, |pod| {
                    let pod = pod.phase(placed.phase);
                    let pod = placed.node.map_or(pod.clone(), |node| pod.on(node));
                    if placed.terminating { pod.deleting(secs(3)) } else { pod }
                })
            })
        },
    )
}

/// Effects with what is done instead where the API server refuses them.
fn all<'d>(decision: &'d Decision) -> impl Iterator<Item = &'d Effect> {
    let steps = decision.steps.values().flat_map(|step| &step.effects);
    let planned: Vec<&Planned> = decision.sweep.iter().chain(steps).collect();
    let with_undo = |planned: &'d Planned| std::iter::once(planned).chain(planned.on_refused.iter().flat_map(|refused| refused.instead()));
    planned.into_iter().flat_map(with_undo).map(|planned| &planned.effect)
}

fn decided(fleet: &Fleet, now: Time) -> Decision {
    let (view, _) = read(fleet, now);
    let decision = decide(&view, now, &config());
    assert_eq!(decision, decide(&view, now, &config()));
    decision
}

fn anchor(fleet: &Fleet) -> Option<&str> {
    fleet.objects[&(Kind::NodePool, "web".into())].0["metadata"]["annotations"][keys::ACTIVE_ROTATION].as_str()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_effect_is_allowed_and_settles(fleet in scenes(), now in select(vec![now(), at("2026-12-02T12:00:00Z"), at("2026-12-01T00:00:00Z")])) {
        let decision = decided(&fleet, now);
        prop_assert!(decision.errors.is_empty(), "{:?}", decision.errors);
        for effect in all(&decision) {
            let target = effect.target();
            let object = fleet.objects.get(&(target.kind, target.name.clone()));
            // Whatever it finds: nothing panics, only our keys are touched, and a second look finds nothing more to do.
            judged(effect, object.map(|object| &object.0));
            if target.kind == Kind::Pod {
                prop_assert_eq!(&target.namespace, "rotation", "{}", words(effect));
            }
            let started = decision.steps["web"].effects.iter().find_map(|planned| match &planned.effect {
                Effect::Anchor { claim, .. } | Effect::StartFallback { claim, .. } => Some(claim.as_str()),
                _ => None,
            });
            match effect {
                Effect::Anchor { .. } | Effect::StartFallback { .. } => {
                    prop_assert_eq!(anchor(&fleet), None);
                    prop_assert_eq!(now, super::fleet::now(), "started outside the window");
                }
                // A claim is deleted for its own rotation alone, and never reaped for being the old one.
                Effect::DeleteClaim { claim, .. } => prop_assert_eq!(Some(claim.as_str()), anchor(&fleet).or(started)),
                Effect::ReapClaim { claim, .. } => prop_assert_ne!(Some(claim.as_str()), anchor(&fleet)),
                Effect::Release { claim, .. } => prop_assert_eq!(Some(claim.as_str()), anchor(&fleet).or(started)),
                _ => {}
            }
        }
    }

    #[test]
    fn a_closed_window_and_no_anchor_never_start(fleet in scenes()) {
        let mut fleet = fleet;
        fleet.objects.get_mut(&(Kind::NodePool, "web".into())).unwrap().0["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::ACTIVE_ROTATION);
        let decision = decided(&fleet, at("2026-12-02T06:00:00Z"));
        prop_assert_eq!(&decision.steps["web"].effects, &vec![]);
    }
}
