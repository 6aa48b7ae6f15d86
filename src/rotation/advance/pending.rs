//! `pending`: the surge is awaited, the old Node held. Every pass re-asserts what it wants; at readyTimeout all is undone.

use std::{collections::BTreeSet, ops::Deref};

use chrono::TimeDelta;

use super::released;
use crate::{
    api::{
        events::Reason,
        karpenter::NodeClaim,
        keys,
        meta::Meta,
        time::{Time, format_duration, later, to_annotation},
    },
    policy::Policy,
    rotation::{
        attempt::{self, Attempt},
        effect::{Effect, End, SurgePath},
        fallback::delete_claim,
        notice::{Notice, Regarding},
        scene::Scene,
        state::State,
        step::{Action, Assessment, Planned, Say, Step},
    },
    surge::{self, NotReady, PlaceholderState, placeholder_name},
    view::{Missing, Need},
};

/// The step of a pool whose claim waits for its surge.
pub fn pending(scene: &Scene<'_>, policy: &Policy, assessment: Box<Assessment>, claim: &NodeClaim) -> Result<Step, Missing> {
    let started = started(scene.now, &claim.metadata);
    let timeout = policy.settings.ready_timeout;
    if scene.now - started > timeout {
        return rollback(scene, assessment, claim, Cause::Timeout(timeout));
    }
    let name = &claim.metadata.name;
    let pod_name = placeholder_name(name);
    let pod = scene.view.placeholders.get(&pod_name).map(Deref::deref);
    let state = PlaceholderState::of(pod);
    let host = state.node().and_then(|node| scene.claim_on(node));
    let mut step = Step::of(assessment, Action { code: "await-surge", detail: String::new() });
    step.wake_at = Some(later(started, timeout + TimeDelta::seconds(1)));
    let attempt = Attempt::new(scene, claim);
    step.effects.push(attempt.begin(&[State::None, State::Pending]));
    step.effects.extend(attempt.hold_node());
    let note = |host: &NodeClaim| Planned::new(Effect::NoteSurgeClaim { claim: name.clone(), induced: host.metadata.name.clone() });
    step.effects.extend(host.filter(|host| host.metadata.name != *name).map(note));
    if let Some(until) = scene.frozen() {
        let until = until.map_or("the freeze is mended or removed".into(), |until| format!("{} (frozen)", to_annotation(until)));
        return Ok(step.waiting(format!(
            "the surge for {name} is held until {until}; the attempt times out at {}",
            to_annotation(later(started, timeout))
        )));
    }
    if let Some(node) = state.node()
        && host.is_some_and(|host| host.metadata.is_deleting() && host.metadata.name != *name)
    {
        // It would wait there in vain, and hold the drain of that node: Karpenter evicts no protected Pod.
        let why = NotReady::HostLeaving { node: node.to_owned() };
        return create(scene, policy, &attempt, claim, Some(format!("{why}, so it is created anew")), step);
    }
    match state {
        PlaceholderState::Missing => create(scene, policy, &attempt, claim, None, step),
        // One that ended (a kubelet refused it, it was evicted or preempted) counts as missing.
        PlaceholderState::Terminal { why } => {
            create(scene, policy, &attempt, claim, Some(format!("its placeholder ended ({why}) and is created anew")), step)
        }
        PlaceholderState::Terminating => Ok(step.waiting(format!("the earlier placeholder {pod_name} is terminating"))),
        PlaceholderState::Unbound => unbound(scene, claim, &pod_name, step),
        PlaceholderState::Bound { node, waiting } => {
            let why = waiting.map_or("its container is starting".into(), |waiting| waiting.to_string());
            Ok(step.waiting(format!("the placeholder is bound to Node {node} and not Running: {why}")))
        }
        PlaceholderState::Running { node } => {
            match surge::ready(pod, scene.view.node(&node)?, claim.node().unwrap_or_default(), scene.name()) {
                Ok(node) => Ok(to_draining(scene, claim, (&node, host), started, step)),
                Err(why) => Ok(step.waiting(why.to_string())),
            }
        }
    }
}

/// When the attempt began. What [`Effect::BeginAttempt`] stamps anew (a start that can't be read, lies in the future, or
/// stands on a claim that isn't `pending`) begins now.
fn started(now: Time, claim: &Meta) -> Time {
    let stamped = claim.stamp(keys::STARTED_AT).time().filter(|started| *started <= now);
    stamped.filter(|_| State::of(claim) == State::Pending).unwrap_or(now)
}

/// Creates the placeholder, `anew` where the earlier one is of no use: same attempt, same deadline.
fn create(
    scene: &Scene<'_>,
    policy: &Policy,
    attempt: &Attempt<'_>,
    claim: &NodeClaim,
    anew: Option<String>,
    mut step: Step,
) -> Result<Step, Missing> {
    let name = &claim.metadata.name;
    let surge = match attempt::surge(scene, policy, claim)? {
        Ok(surge) => surge,
        Err(error) => {
            step.error = Some(error.clone());
            return Ok(step.waiting(error));
        }
    };
    if anew.is_some() {
        step.effects.push(scene.delete_placeholder(&placeholder_name(name), name));
    }
    step.effects.push(attempt.create_placeholder(&surge));
    step.conditions.extend(surge.notices.into_iter().map(Into::into));
    Ok(step.waiting(anew.unwrap_or_else(|| "its placeholder is created".into())))
}

fn unbound(scene: &Scene<'_>, claim: &NodeClaim, pod: &str, mut step: Step) -> Result<Step, Missing> {
    let said = scene.view.events_about(pod)?;
    if said.is_empty() {
        return Ok(step.waiting(format!("the placeholder {pod} has no Node yet")));
    }
    let words: Vec<String> = said.iter().map(|(reporter, message)| format!("{reporter}: {message}")).collect();
    let message = format!("The placeholder {pod} has no Node yet. {}", words.join("; "));
    let notice = Notice::new(Reason::SurgeUnschedulable, Regarding::claim(&claim.metadata), scene.name(), message.clone());
    // The scheduler speaks at once, Karpenter later, and what it says is why: told again when another has spoken.
    let speakers: Vec<&str> = said.keys().map(String::as_str).collect();
    step.conditions.push(notice.on(speakers.join(" ")).into());
    Ok(step.waiting(message))
}

/// The surge stands: the point of no return is the claim's delete. The placeholder goes right after it, since Karpenter
/// would plan the drained Pods around it and launch a third node (§6).
fn to_draining(scene: &Scene<'_>, claim: &NodeClaim, (host, its_claim): (&str, Option<&NodeClaim>), started: Time, mut step: Step) -> Step {
    let (pool, name) = (scene.name().to_owned(), claim.metadata.name.clone());
    let wait = scene.now - started;
    // Karpenter may name the Node in its claim later than the placeholder runs on it; then the Node's own age tells. Stamps
    // have whole seconds, so one of the same second came for us.
    let of_node = || scene.view.node(host).ok().flatten().and_then(|node| node.metadata.creation_timestamp);
    let came = its_claim.map_or_else(of_node, |claim| claim.metadata.creation_timestamp).is_some_and(|created| created >= started);
    let path = if came { SurgePath::Provisioned } else { SurgePath::Absorbed };
    step.action = Action {
        code: "drain",
        detail: format!("Node {host} ({}) is Ready after {}: NodeClaim {name} is deleted and drains", path.as_str(), format_duration(wait)),
    };
    step.wake_at = None;
    step.effects.extend([
        Planned::new(Effect::Freeze { node: host.into(), claim: name.clone() }),
        Planned::new(Effect::MirrorDraining { pool, claim: name.clone(), at: scene.now, surge: Some((wait, path)) }),
        Planned::new(Effect::MarkDraining { claim: name.clone(), from: &[State::Pending] })
            .say(Say::Log(format!("the surge for NodeClaim {name} is Ready on Node {host} after {}: draining", format_duration(wait)))),
        delete_claim(scene, claim),
        scene.delete_placeholder(&placeholder_name(&name), &name),
    ]);
    step
}

/// Why an attempt is rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The surge took longer than this.
    Timeout(TimeDelta),
    /// The operator's `abort`.
    Operator,
}

/// The rollback (§6): what the attempt brought up, the placeholder, the marks; then `failed`, announced with the count
/// that its write produced; then the pause and the total.
pub fn rollback(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim, cause: Cause) -> Result<Step, Missing> {
    let (name, started) = (&claim.metadata.name, started(scene.now, &claim.metadata));
    let state = PlaceholderState::of(scene.view.placeholders.get(&placeholder_name(name)).map(Deref::deref));
    let (detail, why) = match cause {
        Cause::Timeout(timeout) => {
            let timeout = format_duration(timeout);
            (
                format!("readyTimeout {timeout} has passed without a Ready surge for NodeClaim {name}"),
                format!("no Ready surge within readyTimeout {timeout}: {state}"),
            )
        }
        Cause::Operator => (format!("rolls back the rotation of NodeClaim {name}"), format!("aborted by the operator: {state}")),
    };
    let action = Action { code: "rollback", detail };
    let mut step = Step::of(assessment, action);
    // A pass that doesn't own the attempt any more (the claim is being deleted, or has moved on) touches nothing (§5.2).
    step.effects.push(Attempt::new(scene, claim).begin(&[State::Pending]));
    let noted = claim.metadata.annotation(keys::SURGE_CLAIM).and_then(|name| scene.claim(name));
    let induced = noted.or_else(|| scene.claim_on(state.node()?)).filter(|induced| induced.metadata.name != *name);
    let is_induced = |came: &NodeClaim| induced.is_some_and(|induced| induced.metadata.name == came.metadata.name);
    let is_unready = |came: &NodeClaim| came.is("Registered") && !came.is("Initialized");
    let came = scene.claims().iter().filter(|came| surge::came_after(came, started) && !came.metadata.is_deleting());
    let came = came.filter(|came| is_induced(came) || is_unready(came)).filter_map(|came| Some((*came, came.node()?)));
    let came: Vec<(&NodeClaim, &str)> = came.collect();
    // Asked for together: there are few rounds, and any number of claims.
    let unread: BTreeSet<Need> =
        came.iter().filter_map(|(_, node)| scene.view.pods_on(node).err()).flat_map(|Missing(needs)| needs).collect();
    if !unread.is_empty() {
        return Err(Missing(unread));
    }
    for (came, node) in came {
        let (is_induced, unready) = (is_induced(came), is_unready(came));
        let pods = scene.view.pods_on(node)?;
        if (is_induced && surge::reapable(came, started, name, pods)) || surge::reapable_unready(came, scene.name(), started, name, pods) {
            let reap = Effect::ReapClaim { claim: came.metadata.name.clone(), uid: came.metadata.uid.clone() };
            let log = format!("reaped NodeClaim {}, which the failed attempt on {name} brought up", came.metadata.name);
            step.effects.push(Planned::new(reap).gone_is_fine().say(Say::Log(log)));
        } else if unready {
            step.conditions.push(not_ready(scene, came, node).into());
        }
    }
    step.effects.extend(scene.cleanup(name));
    let say = Say::Failed { claim: Regarding::claim(&claim.metadata), pool: scene.name().into(), why };
    step.effects.push(Planned::new(Effect::MarkFailed { claim: name.clone(), at: scene.now }).say(say));
    step.effects.extend(released(scene, claim, End::Failed { failed_at: scene.now }));
    Ok(step)
}

fn not_ready(scene: &Scene<'_>, came: &NodeClaim, node: &str) -> Notice {
    let claim = &came.metadata.name;
    let message = format!(
        "NodeClaim {claim} (Node {node}) registered and never became Ready; other Pods than DaemonSets' are on it, so it is left alone. Karpenter does not end it by itself: look at the Node, and delete the NodeClaim if it is of no use."
    );
    Notice::new(Reason::SurgeNodeNotReady, scene.regarding(), scene.name(), message).on(claim.clone())
}
