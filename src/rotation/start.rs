//! Starting a rotation (§5.2 steps 2 and 3): gates, candidate, headroom, anchor, and at once the first attempt.

use std::collections::BTreeSet;

use super::{
    attempt::{self, Attempt, Surge},
    effect::{Effect, End},
    notice::Notice,
    rehearsal::{self, CANDIDATES, Rehearsed},
    scene::{Scene, restore},
    state::State,
    step::{Action, Assessment, Gate, OnRefused, Planned, Say, Step},
};
use crate::{
    api::{
        events::Reason,
        karpenter::NodeClaim,
        keys,
        time::{Time, format_duration, to_annotation},
    },
    candidates::Candidate,
    policy::Policy,
    view::{Missing, Need},
};

/// The step of a governed pool without a rotation.
pub fn start(scene: &Scene<'_>, policy: &Policy, mut assessment: Box<Assessment>) -> Result<Step, Missing> {
    if let Some(gate) = assessment.gates.first() {
        let detail = assessment.gates.iter().map(|gate| gate.detail.as_str()).collect::<Vec<_>>().join("; ");
        let action = Action { code: "gated", detail: format!("no start ({}): {detail}", gate.code) };
        let wake_at = wake(&assessment);
        return Ok(Step { wake_at, ..Step::of(assessment, action) });
    }
    writable(scene, policy, &mut assessment)?;
    let candidates: Vec<(Candidate, &NodeClaim)> =
        assessment.candidates.iter().take(CANDIDATES).filter_map(|candidate| named(scene, candidate)).collect();
    let mut unreadable: Option<String> = None;
    for (index, (candidate, claim)) in candidates.iter().enumerate() {
        match start_of(scene, policy, assessment.clone(), claim, candidate)? {
            Ok(step) => return Ok(Step { error: unreadable, ..step }),
            Err(error) => unreadable = Some(unreadable.unwrap_or(error)),
        }
        // There are few rounds: what the others need is asked for together.
        let others = candidates[index + 1..].iter().filter_map(|(_, claim)| attempt::surge(scene, policy, claim).err());
        let missing: BTreeSet<Need> = others.flat_map(|Missing(needs)| needs).collect();
        if !missing.is_empty() {
            return Err(Missing(missing));
        }
    }
    if let Some(error) = unreadable {
        return Ok(Step::failed(assessment, error));
    }
    let wake_at = wake(&assessment);
    Ok(Step { wake_at, ..Step::of(assessment, Action { code: "idle", detail: "no eligible candidate".into() }) })
}

/// A candidate with its claim.
fn named<'a>(scene: &Scene<'a>, candidate: &Candidate) -> Option<(Candidate, &'a NodeClaim)> {
    Some((candidate.clone(), scene.claim(&candidate.claim)?))
}

/// Takes the unwritable candidates out; in the same round it asks for what the first one's surge needs.
fn writable(scene: &Scene<'_>, policy: &Policy, assessment: &mut Assessment) -> Result<(), Missing> {
    let Err(Missing(mut needs)) = rehearsal::leave_out_unwritable(scene, assessment) else { return Ok(()) };
    let first = assessment.candidates.first().and_then(|candidate| scene.claim(&candidate.claim));
    needs.extend(first.and_then(|claim| attempt::surge(scene, policy, claim).err()).into_iter().flat_map(|Missing(needs)| needs));
    Err(Missing(needs))
}

/// The step that starts this candidate's rotation; the inner error names what can't be read, which harms only it.
fn start_of(
    scene: &Scene<'_>,
    policy: &Policy,
    assessment: Box<Assessment>,
    claim: &NodeClaim,
    candidate: &Candidate,
) -> Result<Result<Step, String>, Missing> {
    let candidate = candidate.clone();
    let bound = scene.rules(&policy.settings).derivation(claim).t_rot;
    if policy.settings.forceful_fallback && candidate.deadline.is_some_and(|deadline| deadline - scene.now < bound) {
        let why =
            format!("{}: less than t_rot {} is left, and forcefulFallback is enabled", why(scene.now, &candidate), format_duration(bound));
        return Ok(Ok(match rehearsal::fallback(scene, claim)? {
            Some(refusal) => refused(assessment, refusal),
            None => start_fallback(scene, assessment, claim, candidate, why),
        }));
    }
    let surge = match attempt::surge(scene, policy, claim)? {
        Ok(surge) => surge,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(shortfall) = &surge.shortfall {
        return Ok(Ok(no_headroom(scene, assessment, claim, shortfall)));
    }
    Ok(Ok(match rehearsal::surge(scene, claim, &surge)? {
        Rehearsed::Refused(refusal) => refused(assessment, refusal),
        Rehearsed::Agreed(notices) => {
            let mut step = start_surge(scene, assessment, claim, candidate, surge);
            step.conditions.extend(notices.into_iter().map(Into::into));
            step
        }
    }))
}

/// The API server would refuse: nothing is touched, and the pool has not failed.
fn refused(assessment: Box<Assessment>, refusal: Notice) -> Step {
    let gate = Gate { code: "refused", detail: refusal.message.clone(), until: None };
    let mut step = Step::gated(assessment, gate);
    step.conditions.push(refusal.into());
    step
}

/// The next moment at which a pool without a rotation may start one, or settle a window, by time alone. Behind a closed gate
/// it makes no difference which claims are due.
fn wake(assessment: &Assessment) -> Option<Time> {
    let gates = assessment.gates.iter().filter_map(|gate| gate.until);
    let window = assessment.window.map(|window| window.end).into_iter().chain(assessment.next_window);
    let change = assessment.next_change.filter(|_| assessment.gates.is_empty());
    gates.chain(window).chain(change).min()
}

fn why(now: Time, candidate: &Candidate) -> String {
    let age = format_duration(now - candidate.created);
    let deadline = candidate.deadline.map_or("no deadline".into(), |deadline| format!("deadline {}", to_annotation(deadline)));
    format!("NodeClaim {} on Node {}, age {age}, {deadline}", candidate.claim, candidate.node)
}

/// The pause after an earlier failure survives the new attempt, by the anchor's own write.
fn failed_at(claim: &NodeClaim) -> Option<Time> {
    (State::of(&claim.metadata) == State::Failed).then(|| claim.metadata.stamp(keys::FAILED_AT).time()).flatten()
}

fn start_surge(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim, candidate: Candidate, surge: Surge) -> Step {
    let name = &candidate.claim;
    let why = why(scene.now, &candidate);
    let anchor = Effect::Anchor { pool: scene.name().into(), claim: name.clone(), at: scene.now, failed_at: failed_at(claim) };
    let say = Say::Started { pool: scene.regarding(), why: why.clone() };
    let mut step = Step::of(assessment, Action { code: "start", detail: format!("starts the rotation of {why}") });
    step.effects.push(Planned::new(anchor).say(say).refused(OnRefused::tell(unanchorable(scene, name))));
    let attempt = Attempt::new(scene, claim);
    step.effects.push(attempt.begin(&[State::None, State::Failed]));
    step.effects.extend(attempt.hold_node());
    step.effects.push(attempt.create_placeholder(&surge));
    step.conditions.extend(surge.notices.into_iter().map(Into::into));
    step.starts = Some(candidate);
    step
}

/// Anchor, mode, mirror and total in one write (§7), then the deletion on the voluntary path.
fn start_fallback(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim, candidate: Candidate, why: String) -> Step {
    let (pool, name) = (scene.name().to_owned(), claim.metadata.name.clone());
    let anchor = Effect::StartFallback { pool, claim: name.clone(), at: scene.now, failed_at: failed_at(claim) };
    let mut step = Step::of(assessment, Action { code: "forceful-fallback", detail: format!("deletes {why}") });
    let refusal = unanchorable(scene, &claim.metadata.name);
    step.effects.push(Planned::new(anchor).say(Say::Fallback { pool: scene.regarding(), why }).refused(OnRefused::tell(refusal)));
    step.effects.extend(super::fallback::delete(scene, claim));
    step.starts = Some(candidate);
    step
}

/// The first write on the pool is refused, as by a policy that keeps NodePools to one tool: nothing else is touched.
fn unanchorable(scene: &Scene<'_>, claim: &str) -> Notice {
    let message =
        format!("No rotation of NodeClaim {claim} starts, since the API server refuses to have NodePool {} annotated", scene.name());
    Notice::new(Reason::SurgeRefused, scene.regarding(), scene.name(), message)
}

fn no_headroom(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim, shortfall: &str) -> Step {
    let detail = format!("the surge for {} does not fit spec.limits: {shortfall}", claim.metadata.name);
    let message = format!("No rotation starts: {detail}. Raise the limits of NodePool {} by at least one node.", scene.name());
    let wake_at = wake(&assessment);
    let mut step = Step { wake_at, ..Step::gated(assessment, Gate { code: "headroom", detail, until: None }) };
    step.conditions.push(Notice::new(Reason::InsufficientHeadroom, scene.regarding(), scene.name(), message).into());
    step
}

/// What undoes an attempt that the API server refused after its anchor had landed: no anchor may stay whose claim has no
/// `started-at` (§2, rehearsal).
pub fn give_up(scene: &Scene<'_>, claim: &NodeClaim) -> Vec<Planned> {
    let name = &claim.metadata.name;
    let mut undo = scene.cleanup(name);
    let listed = |node: &str| scene.view.marked.get(node).is_some_and(|node| node.metadata.annotation(keys::SURGE_FOR) == Some(name));
    undo.extend(claim.node().filter(|node| !listed(node)).map(|node| restore(node, name)));
    undo.push(Planned::new(Effect::ClearClaim { claim: name.clone() }).gone_is_fine());
    undo.extend(release_refused(scene, claim));
    undo
}

/// How many writes release the anchor, the last of [`give_up`].
pub const RELEASE: usize = 2;

/// Releases the anchor of an attempt that was refused, and says so: its start has been announced.
fn release_refused(scene: &Scene<'_>, claim: &NodeClaim) -> [Planned; RELEASE] {
    let name = &claim.metadata.name;
    let message = format!("The rotation of NodeClaim {name} is given up: the API server refused one of its writes.");
    let notice = Notice::new(Reason::RotationReleased, scene.regarding(), scene.name(), message);
    [release(scene, name, End::WithoutOutcome).say(Say::Notice(notice)), forget_writer(scene)]
}

/// Releases the anchor.
pub fn release(scene: &Scene<'_>, claim: &str, end: End) -> Planned {
    Planned::new(Effect::Release { pool: scene.name().into(), claim: claim.into(), end, at: scene.now })
}

/// Removes the signature of the pass, the last thing of a rotation on its pool.
pub fn forget_writer(scene: &Scene<'_>) -> Planned {
    Planned::new(Effect::ForgetPoolWriter { pool: scene.name().into() }).gone_is_fine()
}
