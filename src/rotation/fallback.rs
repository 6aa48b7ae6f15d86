//! The forceful fallback (§6, §7): a deletion in the window without a surge, finished once it is started.

use super::{
    advance::drain,
    decide,
    effect::Effect,
    notice::Notice,
    scene::Scene,
    state::State,
    step::{Action, Assessment, Planned, Step},
};
use crate::{
    api::{events::Reason, karpenter::NodeClaim},
    view::Missing,
};

/// Goes on with a fallback, whatever its claim's state and whatever policies say since.
pub fn resume(scene: &Scene<'_>, assessment: Assessment, name: &str) -> Result<Step, Missing> {
    let Some(claim) = scene.claim(name) else { return decide::gone(scene, assessment, name) };
    if claim.metadata.is_deleting() {
        return drain(scene, assessment, claim);
    }
    let mut step = Step::of(assessment, Action { code: "forceful-fallback", detail: format!("deletes NodeClaim {name} without a surge") });
    step.effects = delete(scene, claim);
    Ok(step)
}

/// Marks the claim and deletes it.
pub fn delete(scene: &Scene<'_>, claim: &NodeClaim) -> Vec<Planned> {
    let name = claim.metadata.name.clone();
    let from = &[State::None, State::Pending, State::Failed, State::Expired];
    vec![Planned::new(Effect::MarkDraining { claim: name, from }), delete_claim(scene, claim)]
}

/// Deletes the old claim; refused, the gate stays held and the pool counts as failed.
pub fn delete_claim(scene: &Scene<'_>, claim: &NodeClaim) -> Planned {
    let meta = &claim.metadata;
    let message = format!("The deletion of NodeClaim {} is refused", meta.name);
    let notice = Notice::new(Reason::DeleteRefused, scene.regarding(), scene.name(), message);
    Planned::new(Effect::DeleteClaim { claim: meta.name.clone(), uid: meta.uid.clone() }).gone_is_fine().refused(Some(notice), Vec::new())
}
