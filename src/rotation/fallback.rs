//! The forceful fallback (§6, §7): a deletion in the window without a surge, finished once it is started.

use super::{
    advance::drain,
    decide,
    effect::Effect,
    notice::Notice,
    scene::Scene,
    state::State,
    step::{Action, Assessment, OnRefused, Planned, Step},
};
use crate::{
    api::{events::Reason, karpenter::NodeClaim},
    view::Missing,
};

/// Goes on with a fallback, whatever its claim's state and whatever policies say since. By the mirror its completion is
/// told from a force-expiry, so it is asserted again wherever somebody took it away.
pub fn resume(scene: &Scene<'_>, assessment: Box<Assessment>, name: &str) -> Result<Step, Missing> {
    let Some(claim) = scene.claim(name) else { return decide::gone(scene, assessment, name) };
    let mut step = if claim.metadata.is_deleting() {
        drain(scene, assessment, claim)?
    } else {
        let detail = format!("deletes NodeClaim {name} without a surge");
        let mut step = Step::of(assessment, Action { code: "forceful-fallback", detail });
        step.effects = delete(scene, claim);
        step
    };
    let mirror = Effect::MirrorDraining { pool: scene.name().into(), claim: name.into(), at: scene.now, surge: None };
    step.effects.insert(0, Planned::new(mirror));
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
    Planned::new(Effect::DeleteClaim { claim: meta.name.clone(), uid: meta.uid.clone() }).gone_is_fine().refused(OnRefused::tell(notice))
}
