//! The start gates (§5.2 steps 1a and 2): every reason why no rotation may start now is collected, none hides another.

use super::{decide::at_most, scene::Scene, state::State, step::Gate};
use crate::{
    api::{
        karpenter::NodeClaim,
        keys,
        shared::Shared,
        time::{Time, format_duration, to_annotation},
    },
    policy::{Policy, resolve::Governance},
    schedule::findings::{Code, Finding, Level},
};

/// The closed gates of a pool.
pub fn closed(scene: &Scene<'_>, policy: &Policy, findings: &[Shared<Finding>]) -> Vec<Gate> {
    let mut gates = Vec::new();
    gates.extend(governance(scene, policy));
    gates.extend(findings.iter().filter(|finding| finding.code.level() == Level::Fatal).map(|finding| {
        let detail = format!("{}: {}", finding.code.name(), finding.message);
        Gate { code: "finding", detail, until: None }
    }));
    if policy.settings.suspend {
        let detail = format!("suspended: spec.suspend of RotationPolicy {} is true", policy.name);
        gates.push(Gate { code: "suspended", detail, until: None });
    }
    if scene.pool.metadata.is_deleting() {
        gates.push(Gate { code: "deleting", detail: "the NodePool is being deleted".into(), until: None });
    }
    if let Some(replicas) = scene.pool.spec.replicas {
        let detail = format!("{}: spec.replicas is {replicas}: a static pool has no room for a surge", Code::StaticNodePool.name());
        gates.push(Gate { code: "static-pool", detail, until: None });
    }
    if scene.swept.pools.contains(scene.name()) {
        let detail = "leftovers of an earlier rotation are cleaned up in this pass".into();
        gates.push(Gate { code: "swept", detail, until: None });
    }
    if let Some(claim) = left_to_drain(scene) {
        let detail = format!("NodeClaim {claim} still drains, from an earlier rotation that nothing refers to any more");
        gates.push(Gate { code: "still-draining", detail, until: None });
    }
    if let Some(max) = scene.config.max_in_flight.filter(|max| scene.in_flight >= *max) {
        let detail = format!("{}, and {} are", at_most(max), scene.in_flight);
        gates.push(Gate { code: "max-in-flight", detail, until: None });
    }
    gates.extend(timed(scene, policy));
    gates
}

/// A claim that drains though nothing is in flight: its rotation ended with its pool's governance, or somebody removed the anchor.
/// A drain can't be taken back, and a pool has one at a time.
fn left_to_drain<'a>(scene: &Scene<'a>) -> Option<&'a str> {
    let drains = |claim: &&&NodeClaim| State::of(&claim.metadata) == State::Draining && claim.metadata.is_deleting();
    let own = scene.annotated.iter().filter(|claim| claim.pool() == Some(scene.name()) && scene.anchor().is_none());
    own.filter(drains).map(|claim| claim.metadata.name.as_str()).next()
}

fn governance(scene: &Scene<'_>, policy: &Policy) -> Vec<Gate> {
    let mut gates = Vec::new();
    if let Governance::Conflict(tied) = scene.governance {
        let detail = format!("the policies {} match with equal specificity", names(tied));
        gates.push(Gate { code: "conflict", detail, until: None });
    }
    if !policy.is_valid() {
        let problems: Vec<String> = policy.problems.iter().map(ToString::to_string).collect();
        let detail = format!("RotationPolicy {}: {}", policy.name, problems.join("; "));
        gates.push(Gate { code: "invalid-policy", detail, until: None });
    }
    gates
}

/// The names of policies, for people.
pub fn names(policies: &[&Policy]) -> String {
    policies.iter().map(|policy| policy.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The gates that open by themselves.
pub fn timed(scene: &Scene<'_>, policy: &Policy) -> Vec<Gate> {
    let settings = &policy.settings;
    let mut gates = Vec::new();
    if scene.schedule.open_at(scene.now).is_none() {
        let next = scene.schedule.next_start(scene.now);
        let detail = next
            .map_or("no maintenance window opens".into(), |next| format!("the next maintenance window opens at {}", to_annotation(next)));
        gates.push(Gate { code: "window-closed", detail, until: next });
    }
    if let Some(blackout) = scene.schedule.blackouts.covering(scene.now) {
        let why = if blackout.reason.is_empty() { "blackout".into() } else { format!("blackout ({})", blackout.reason) };
        gates.push(until_gate("blackout", &why, blackout.end));
    }
    match scene.frozen() {
        None => {}
        Some(Some(until)) => gates.push(until_gate("frozen", "frozen by the operator", until)),
        Some(None) => {
            let value = scene.pool.metadata.annotation(keys::FREEZE).unwrap_or_default();
            let detail = format!("{}: {value:?} is not an RFC 3339 time, and counts as frozen", keys::FREEZE);
            gates.push(Gate { code: "frozen", detail, until: None });
        }
    }
    if let Some(until) = scene.pause(keys::LAST_ROTATION_AT, settings.cooldown_after) {
        let why = format!("cooldownAfter {} after the last rotation", format_duration(settings.cooldown_after));
        gates.push(until_gate("cooldown", &why, until));
    }
    if let Some(until) = scene.pause(keys::LAST_FAILURE_AT, settings.failure_pause) {
        let why = format!("failurePause {} after the last failure", format_duration(settings.failure_pause));
        gates.push(until_gate("failure-pause", &why, until));
    }
    gates
}

fn until_gate(code: &'static str, why: &str, until: Time) -> Gate {
    Gate { code, detail: format!("{why}, until {}", to_annotation(until)), until: Some(until) }
}
