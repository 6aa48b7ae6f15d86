//! An anchored `failed` claim (§7): only a crash leaves one, either between the failure and its accounting, or between
//! the anchor of a retry and its attempt.

use super::{ending, expire};
use crate::{
    api::{karpenter::NodeClaim, keys, time::Time},
    policy::Policy,
    rotation::{
        attempt::{self, Attempt},
        effect::End,
        scene::Scene,
        state::State,
        step::{Action, Assessment, Step},
    },
    view::Missing,
};

/// An unaccounted failure first, then the deletion, then the retry or the release.
pub fn failed(scene: &Scene<'_>, policy: &Policy, assessment: Box<Assessment>, claim: &NodeClaim) -> Result<Step, Missing> {
    let name = &claim.metadata.name;
    if let Some(failed_at) = unaccounted(scene, claim) {
        let mut step = Step::of(assessment, Action { code: "account", detail: format!("counts the failed attempt on NodeClaim {name}") });
        step.effects = ending(scene, claim, End::Failed { failed_at });
        return Ok(step);
    }
    if claim.metadata.is_deleting() {
        return Ok(expire(scene, assessment, claim, &[State::Failed]));
    }
    let rules = scene.rules(&policy.settings);
    // A retry is a new attempt: it passes every gate of a start, the static one included.
    // The place among those in flight is its own already.
    let may_start = assessment.gates.iter().all(|gate| gate.code == "max-in-flight") && rules.backoff_until(claim).is_none();
    if may_start {
        match attempt::surge(scene, policy, claim)? {
            Ok(surge) if surge.shortfall.is_none() => {
                let mut step = Step::of(assessment, Action { code: "retry", detail: format!("tries NodeClaim {name} again") });
                let attempt = Attempt::new(scene, claim);
                step.effects.push(attempt.begin(&[State::Failed]));
                step.effects.extend(attempt.hold_node());
                step.effects.push(attempt.create_placeholder(&surge));
                step.conditions.extend(surge.notices.into_iter().map(Into::into));
                return Ok(step);
            }
            Ok(_) | Err(_) => {}
        }
    }
    let mut step = Step::of(
        assessment,
        Action { code: "release", detail: format!("releases the anchor on the failed NodeClaim {name}: no retry is due") },
    );
    step.effects = ending(scene, claim, End::NoRetry);
    Ok(step)
}

/// A failure that no release has counted: later than every one that was. A time that has not come yet accounts for
/// nothing but a failure of such a time.
fn unaccounted(scene: &Scene<'_>, claim: &NodeClaim) -> Option<Time> {
    let failed_at = claim.metadata.stamp(keys::FAILED_AT).time()?;
    let is_to_come = |time: Time| time > scene.horizon();
    let accounted = scene.pool.metadata.stamp(keys::LAST_FAILURE_AT).time();
    let accounted = accounted.filter(|accounted| !is_to_come(*accounted) || is_to_come(failed_at));
    accounted.is_none_or(|accounted| failed_at > accounted).then_some(failed_at.min(scene.now))
}
