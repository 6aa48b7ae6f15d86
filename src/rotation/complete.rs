//! Completion (§5.2): the old claim is gone. Cleanup is idempotent; the release decides and counts the outcome from the
//! very copy it is validated against.

use super::{
    effect::End,
    notice::Regarding,
    scene::Scene,
    start::{forget_writer, release},
    step::{Action, Assessment, Say, Step},
};

/// The step of a pool whose anchored claim is gone.
pub fn complete(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &str) -> Step {
    let mut step = Step::of(assessment, Action { code: "complete", detail: format!("NodeClaim {claim} is gone") });
    step.effects = scene.cleanup(claim);
    let regarding = Regarding { kind: "NodeClaim", name: claim.into(), uid: String::new() };
    let say = Say::Released { pool: scene.regarding(), claim: regarding, announce_expired: true };
    step.effects.push(release(scene, claim, End::Gone).say(say));
    step.effects.push(forget_writer(scene));
    step
}
