//! Drives the rotation in flight one step further (§5.2): one handler per state of the old claim.

use super::{
    decide,
    effect::{Effect, End},
    notice::{Notice, Regarding},
    scene::Scene,
    start::{forget_writer, release},
    state::State,
    step::{Action, Assessment, Planned, Say, Step},
};
use crate::{
    api::{events::Reason, karpenter::NodeClaim, keys},
    policy::Policy,
    view::Missing,
};

mod draining;
mod failed;
mod pending;

pub use draining::drain;
pub use pending::{Cause, rollback};

/// The step of a pool whose anchor names `name`.
pub fn advance(scene: &Scene<'_>, policy: &Policy, assessment: Box<Assessment>, name: &str) -> Result<Step, Missing> {
    let Some(claim) = scene.claim(name) else { return decide::gone(scene, assessment, name) };
    match State::of(&claim.metadata) {
        // Force-expiry comes first of all: a deleted claim must not be surged for.
        State::None | State::Pending if claim.metadata.is_deleting() => {
            Ok(expire(scene, assessment, claim, &[State::None, State::Pending]))
        }
        State::None | State::Pending => pending::pending(scene, policy, assessment, claim),
        State::Draining => draining::draining(scene, assessment, claim),
        State::Failed => failed::failed(scene, policy, assessment, claim),
        State::Expired => Ok(expired(scene, assessment, claim)),
    }
}

/// Someone else deleted the claim: one conditional write owns the transition, is announced at once, and only then comes
/// the fallible cleanup (§5.2). A pass that doesn't own it touches nothing.
pub fn expire(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim, from: &'static [State]) -> Step {
    let name = &claim.metadata.name;
    let action =
        Action { code: "expire", detail: format!("NodeClaim {name} was deleted by someone else before its rotation could finish") };
    let mut step = Step::of(assessment, action);
    let say = Say::Expired { claim: Regarding::claim(&claim.metadata), pool: scene.name().into() };
    step.effects.push(Planned::new(Effect::MarkExpired { claim: name.clone(), from }).say(say));
    step.effects.extend(ending(scene, claim, End::Expired));
    step
}

/// Terminal cleanup: `expired` was announced by the pass that wrote it.
fn expired(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim) -> Step {
    let detail = format!("cleans up after NodeClaim {}, which was deleted by someone else", claim.metadata.name);
    let mut step = Step::of(assessment, Action { code: "expire", detail });
    step.effects.extend(ending(scene, claim, End::Expired));
    step
}

/// Cleanup, then the release that counts.
pub fn ending(scene: &Scene<'_>, claim: &NodeClaim, end: End) -> Vec<Planned> {
    let mut effects = scene.cleanup(&claim.metadata.name);
    effects.extend(released(scene, claim, end));
    effects
}

/// The release that counts, and the last of the bookkeeping.
fn released(scene: &Scene<'_>, claim: &NodeClaim, end: End) -> [Planned; 2] {
    let say = Say::Released { pool: scene.regarding(), claim: Regarding::claim(&claim.metadata), announce_expired: false };
    [release(scene, &claim.metadata.name, end).say(say), forget_writer(scene)]
}

/// The anchor names a claim of another pool: it is nothing of this pool's, and what belongs to it is not touched.
pub fn orphan(scene: &Scene<'_>, assessment: Box<Assessment>, foreign: &NodeClaim) -> Step {
    let name = &foreign.metadata.name;
    let of = foreign.pool().unwrap_or("no pool");
    let detail = format!("the anchor names NodeClaim {name}, which belongs to {of}: released without outcome");
    let mut step = Step::of(assessment, Action { code: "release", detail: detail.clone() });
    let notice = Notice::new(Reason::StateUnreadable, scene.regarding(), scene.name(), detail).on(keys::ACTIVE_ROTATION);
    step.effects.push(release(scene, name, End::WithoutOutcome).say(Say::Notice(notice)));
    step.effects.push(forget_writer(scene));
    step
}
