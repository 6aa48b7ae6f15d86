//! The operator's abort: the rollback of §6 before its time. Refused once the old claim drains: a deletion can't be taken
//! back. Whoever performs it holds the Lease, so no pass advances the rotation meanwhile.

use std::sync::Arc;

use super::{
    advance::{Cause, rollback},
    assess,
    decide::used,
    memory::{Memory, Pool},
    scene::{ByPool, Config, Scene},
    start::give_up,
    state::State,
    step::{Action, Step},
    sweep::sweep,
};
use crate::{
    api::{karpenter::NodeClaim, time::Time},
    policy::resolve::governance,
    schedule::window::Schedule,
    view::{Missing, View},
};

/// The step that ends the rotation in flight of a pool, or why there is none to take.
///
/// # Errors
/// The facts that it still wants, as for a pass's steps.
pub fn abort(view: &View, now: Time, config: &Config, pool: &str) -> Result<Result<Step, String>, Missing> {
    let Some(object) = view.pools.get(pool) else { return Ok(Err(format!("there is no NodePool {pool}"))) };
    let governance = governance(&view.policies, &object.metadata.labels);
    let policy = used(&governance);
    let schedule = Arc::new(policy.map(|policy| Schedule::under(&policy.settings, now)).unwrap_or_default());
    let mut memory = Memory::default();
    let (annotated, noted) = memory.annotated(view);
    let by_pool = ByPool::new(view);
    let (_, swept) = sweep(view, &annotated, &noted, now);
    let known =
        memory.know(&by_pool, &Pool { pool: object, policy, schedule: &schedule, cadence: config.cadence, now, swept: &swept.claims });
    let scene = Scene {
        view,
        now,
        config,
        pool: object,
        by_pool: &by_pool,
        annotated: &annotated,
        totals: known.totals,
        census: known.census,
        template: known.template,
        governance: &governance,
        policy,
        schedule: &schedule,
        swept: &swept,
        in_flight: 0,
    };
    let Some(name) = scene.anchor() else { return Ok(Err(format!("no rotation is in flight on NodePool {pool}"))) };
    let Some(claim) = scene.claim(name) else {
        return Ok(Err(format!("NodeClaim {name}, which the rotation is of, is gone: the next pass ends the rotation")));
    };
    if let Some(why) = refused(&scene, claim) {
        return Ok(Err(why));
    }
    let assessment = assess::assess(&scene)?;
    if State::of(&claim.metadata) == State::Pending {
        return rollback(&scene, assessment, claim, Cause::Operator).map(Ok);
    }
    // The anchor alone: nothing has been tried yet, so nothing has failed.
    let mut step = Step::of(assessment, Action { code: "rollback", detail: format!("gives up the rotation of NodeClaim {name}") });
    step.effects = give_up(&scene, claim);
    Ok(Ok(step))
}

fn refused(scene: &Scene<'_>, claim: &NodeClaim) -> Option<String> {
    let name = &claim.metadata.name;
    if scene.is_fallback() {
        return Some(format!("NodeClaim {name} is deleted without a surge (forceful fallback): that can't be taken back"));
    }
    if claim.metadata.is_deleting() {
        return Some(format!("NodeClaim {name} is being deleted: that can't be taken back"));
    }
    match State::of(&claim.metadata) {
        State::None | State::Pending => None,
        State::Draining => Some(format!("NodeClaim {name} drains: its deletion can't be taken back")),
        State::Failed => Some(format!("the attempt on NodeClaim {name} has failed already: the next pass ends the rotation")),
        State::Expired => Some(format!("NodeClaim {name} was deleted by somebody else: the next pass ends the rotation")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::keys,
        fixture::{NOW, at, config, view},
    };

    fn outcome(view: &View, pool: &str) -> Result<Vec<String>, String> {
        abort(view, at(NOW), &config(), pool).unwrap().map(|step| step.effects.iter().map(|planned| planned.effect.to_string()).collect())
    }

    #[test]
    fn a_pending_rotation_is_rolled_back_in_the_order_of_the_timeout() {
        assert_eq!(
            outcome(&view(), "batch").unwrap(),
            [
                "NodeClaim batch-1: pending, with the start of the attempt",
                "Pod noderotation-surge-batch-1: delete the placeholder",
                "NodeClaim batch-1: failed, one retry more",
                "NodePool batch: release the anchor on batch-1 and count the outcome",
                "NodePool batch: remove the signature of the last pass",
            ]
        );
    }

    #[test]
    fn an_anchor_without_an_attempt_is_only_given_up() {
        let mut view = view();
        view.claims.get_mut("batch-1").unwrap().metadata.annotations.clear();
        let effects = outcome(&view, "batch").unwrap();
        assert!(effects.iter().all(|effect| !effect.contains("failed")), "{effects:?}");
        assert_eq!(effects.len(), 5, "{effects:?}");
    }

    #[test]
    fn what_can_not_be_taken_back_is_refused() {
        let refusal = |change: &dyn Fn(&mut View)| {
            let mut view = view();
            change(&mut view);
            outcome(&view, "batch").unwrap_err()
        };
        let state = |view: &mut View, state: &str| {
            view.claims.get_mut("batch-1").unwrap().metadata.annotations.insert(keys::STATE.into(), state.into());
        };
        let draining = "NodeClaim batch-1 drains: its deletion can't be taken back";
        assert_eq!(refusal(&|view| state(view, "draining")), draining);
        let deleting = refusal(&|view| view.claims.get_mut("batch-1").unwrap().metadata.deletion_timestamp = Some(at(NOW)));
        assert_eq!(deleting, "NodeClaim batch-1 is being deleted: that can't be taken back");
        assert!(refusal(&|view| state(view, "failed")).contains("has failed already"));
        assert!(refusal(&|view| state(view, "expired")).contains("by somebody else"));
        assert!(refusal(&|view| drop(view.claims.remove("batch-1"))).contains("is gone"));
        assert_eq!(outcome(&view(), "web").unwrap_err(), "no rotation is in flight on NodePool web");
        assert_eq!(outcome(&view(), "nowhere").unwrap_err(), "there is no NodePool nowhere");
    }
}
