//! Leaving governance in mid-rotation (§5.4): nothing else would ever clean up, so the rotation is rolled back in an order
//! that keeps the anchor, the only way back to this cleanup, until the last.

use super::{
    effect::{Effect, End},
    notice::Notice,
    scene::{Scene, restore},
    start::{forget_writer, release},
    state::State,
    step::{Action, Assessment, Planned, Say, Step},
};
use crate::api::{events::Reason, karpenter::NodeClaim, keys};

/// The step of an anchored pool that no policy matches any more.
pub fn lost(scene: &Scene<'_>, assessment: Box<Assessment>, name: &str) -> Step {
    let detail = format!("no RotationPolicy matches this pool any more: the rotation of NodeClaim {name} is rolled back");
    let mut step = Step::of(assessment, Action { code: "governance-lost", detail: detail.clone() });
    step.effects = scene.cleanup(name);
    let claim = scene.claim(name);
    let node = claim
        .and_then(|claim| claim.node())
        .filter(|node| scene.view.marked.get(*node).is_some_and(|node| node.metadata.annotation(keys::SURGE_FOR).is_none()));
    step.effects.extend(node.map(|node| restore(node, name)));
    // A claim that drains and is being deleted is left to its end: that can't be taken back.
    let is_leaving = |claim: &NodeClaim| match State::of(&claim.metadata) {
        State::Draining => claim.metadata.is_deleting(),
        State::Expired => true,
        State::None | State::Pending | State::Failed => false,
    };
    if claim.is_some_and(|claim| !is_leaving(claim)) {
        step.effects.push(Planned::new(Effect::ClearClaim { claim: name.into() }).gone_is_fine());
    }
    let notice = Notice::new(Reason::GovernanceLost, scene.regarding(), scene.name(), detail);
    step.effects.push(release(scene, name, End::WithoutOutcome).say(Say::Notice(notice)));
    step.effects.push(forget_writer(scene));
    step
}
