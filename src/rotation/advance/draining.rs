//! `draining`: the old claim is being deleted, which can't be taken back. The gate stays held for as long as it takes.

use std::collections::BTreeSet;

use crate::{
    api::{
        events::Reason,
        karpenter::NodeClaim,
        time::{format_duration, later, to_annotation},
    },
    rotation::{
        effect::Effect,
        fallback::delete_claim,
        notice::Notice,
        scene::Scene,
        step::{Action, Assessment, Planned, Step},
    },
    surge::blockers::{self, Blockers},
    view::{Missing, Need},
};

/// The step of a pool whose claim drains.
pub fn draining(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim) -> Result<Step, Missing> {
    let (pool, name) = (scene.name().to_owned(), claim.metadata.name.clone());
    let mirror = Planned::new(Effect::MirrorDraining { pool, claim: name.clone(), at: scene.now, surge: None });
    let mut step = if claim.metadata.is_deleting() {
        drain(scene, assessment, claim)?
    } else {
        // A crash between the state and the delete.
        let mut step = Step::of(assessment, Action { code: "drain", detail: format!("deletes NodeClaim {name}, whose surge was Ready") });
        step.effects.push(delete_claim(scene, claim));
        step.effects.extend(scene.placeholders_of(&name).map(|(pod, _)| scene.delete_placeholder(pod, &name)));
        step
    };
    step.effects.insert(0, mirror);
    Ok(step)
}

/// Watches a drain: nothing is forced, no finalizer touched; what blocks is named.
pub fn drain(scene: &Scene<'_>, assessment: Box<Assessment>, claim: &NodeClaim) -> Result<Step, Missing> {
    let name = &claim.metadata.name;
    let mut step = Step::of(assessment, Action { code: "await-drain", detail: String::new() });
    step.effects = scene.placeholders_of(name).map(|(pod, _)| scene.delete_placeholder(pod, name)).collect();
    let (Some(since), Some(policy)) = (claim.metadata.deletion_timestamp, scene.policy) else {
        return Ok(step.waiting(format!("NodeClaim {name} drains")));
    };
    let derivation = scene.rules(&policy.settings).derivation(claim);
    let elapsed = scene.now - since;
    let (estimate, bound) = (derivation.drain_estimate, derivation.drain_bound);
    if elapsed <= estimate {
        step.wake_at = Some(later(since, estimate + chrono::TimeDelta::seconds(1)));
        return Ok(step.waiting(format!("NodeClaim {name} drains since {}", to_annotation(since))));
    }
    let blockers = blockers(scene, claim)?.summary;
    let forced = match claim.spec.grace() {
        Some(grace) => format!("Karpenter ends it by force at {}", to_annotation(later(since, grace))),
        None => "Karpenter never ends it by force, since terminationGracePeriod is unset".into(),
    };
    let drains =
        format!("NodeClaim {name} drains for {} (estimate {}): {blockers}. {forced}.", format_duration(elapsed), format_duration(estimate));
    step.conditions.push(Notice::new(Reason::DrainBlocked, scene.regarding(), scene.name(), drains.clone()).on(name.clone()).into());
    step.assessment.drain_blocked = true;
    if elapsed > bound {
        let stuck = format!(
            "NodeClaim {name} drains for {}, past its bound {}: {blockers}. The gate stays held; nothing is forced.",
            format_duration(elapsed),
            format_duration(bound)
        );
        step.conditions.push(Notice::new(Reason::DrainStuck, scene.regarding(), scene.name(), stuck).on(name.clone()).into());
        step.assessment.drain_stuck = true;
    } else {
        step.wake_at = Some(later(since, bound + chrono::TimeDelta::seconds(1)));
    }
    Ok(step.waiting(drains))
}

fn blockers(scene: &Scene<'_>, claim: &NodeClaim) -> Result<Blockers, Missing> {
    let pods = match claim.node() {
        Some(node) => scene.view.pods_on(node)?,
        None => &[],
    };
    let namespaces = blockers::namespaces(pods, scene.now);
    let unread = namespaces.iter().filter(|namespace| scene.view.budgets_in(namespace).is_err());
    let unread: BTreeSet<Need> = unread.map(|namespace| Need::BudgetsIn((*namespace).to_owned())).collect();
    if !unread.is_empty() {
        return Err(Missing(unread));
    }
    Ok(blockers::blockers(pods, &scene.view.facts.budgets, claim, scene.now))
}
