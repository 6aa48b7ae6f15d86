//! The sweep (§5.3): every pass is a start, so every pass first cleans up what no anchor refers to. Each item stands
//! alone: one that fails is logged, and the next pass finds it again.

use std::{collections::BTreeSet, ops::Deref};

use super::{
    effect::{Effect, Owner, is_marked},
    notice::Regarding,
    scene::Swept,
    state::State,
    step::{Planned, Say},
};
use crate::{
    api::{
        karpenter::{Node, NodeClaim, pod_meta},
        keys,
        meta::Meta,
        time::Time,
    },
    surge::{claim_of, surge_for_label},
    view::View,
};

/// What the sweep does, in order, and what the steps have to know of it. `annotated` are the claims that carry an annotation
/// of ours, `noted` those Nodes of [`Facts::nodes_of_pool`].
///
/// [`Facts::nodes_of_pool`]: crate::view::Facts::nodes_of_pool
pub fn sweep(view: &View, annotated: &[&NodeClaim], noted: &[&Node], now: Time) -> (Vec<Planned>, Swept) {
    let anchored: BTreeSet<String> =
        view.pools.values().filter_map(|pool| pool.metadata.annotation(keys::ACTIVE_ROTATION).map(str::to_owned)).collect();
    let mut effects = Vec::new();
    let mut swept = Swept::default();
    placeholders(view, &anchored, &mut effects, &mut swept);
    nodes(view, noted, &anchored, &mut effects);
    claims(view, annotated, &anchored, now, &mut effects, &mut swept);
    pools(view, &mut effects);
    (effects, swept)
}

/// Whether it belongs to a pool whose anchor nobody can read: its rotation may well be in flight.
fn is_of_unreadable_pool(view: &View, meta: &Meta) -> bool {
    let pool = meta.label(keys::NODEPOOL_LABEL);
    view.unreadable.iter().any(|unreadable| unreadable.kind == "NodePool" && pool == Some(unreadable.name.as_str()))
}

fn placeholders(view: &View, anchored: &BTreeSet<String>, effects: &mut Vec<Planned>, swept: &mut Swept) {
    for (name, pod) in &view.placeholders {
        let meta = pod_meta(pod);
        if is_of_unreadable_pool(view, &meta) {
            continue;
        }
        // The annotation decides; where somebody removed it, the label tells.
        let by_label = || meta.label(keys::SURGE_FOR).filter(|label| !anchored.iter().any(|claim| surge_for_label(claim) == **label));
        let Some(claim) = claim_of(pod).map_or_else(by_label, |claim| Some(claim).filter(|claim| !anchored.contains(*claim))) else {
            continue;
        };
        swept.pools.extend(meta.label(keys::NODEPOOL_LABEL).map(str::to_owned));
        let effect = Effect::DeletePlaceholder { namespace: meta.namespace.clone(), name: name.clone(), claim: claim.into() };
        effects.push(
            Planned::new(effect)
                .gone_is_fine()
                .say(Say::Log(format!("deleted the placeholder {name} of {claim}, whose rotation is not in flight"))),
        );
    }
}

/// A Node belongs to the rotation that its `surge-for` names, else to that of its own claim.
fn nodes(view: &View, noted: &[&Node], anchored: &BTreeSet<String>, effects: &mut Vec<Planned>) {
    // The label finds our marks; where somebody removed it, the metadata that was read for a step still shows them.
    let stripped = noted.iter().copied().filter(|node| !view.marked.contains_key(&node.metadata.name));
    // Few Nodes are marked, and whose the others are would be looked up among all claims.
    for node in view.marked.values().map(Deref::deref).chain(stripped).filter(|node| is_marked(&node.metadata)) {
        let name = &node.metadata.name;
        let own = || view.claims.values().find(|claim| claim.node() == Some(name)).map(|claim| claim.metadata.name.as_str());
        let owner = node.metadata.annotation(keys::SURGE_FOR).or_else(own);
        if is_of_unreadable_pool(view, &node.metadata) || owner.is_some_and(|owner| anchored.contains(owner)) {
            continue;
        }
        let frozen = node.metadata.annotation(keys::SURGE_FOR).map_or_else(
            || format!("uncordoned the Node {name}, which no rotation in flight cordoned"),
            |claim| format!("unfroze the Node {name} of {claim}, whose rotation is not in flight"),
        );
        let effect = Effect::Restore { node: name.clone(), owner: Owner::NoneOf(anchored.clone()) };
        effects.push(Planned::new(effect).gone_is_fine().say(Say::Log(frozen)));
    }
}

fn claims(view: &View, annotated: &[&NodeClaim], anchored: &BTreeSet<String>, now: Time, effects: &mut Vec<Planned>, swept: &mut Swept) {
    for claim in annotated {
        let name = &claim.metadata.name;
        let Some(pool) = claim.pool().filter(|_| !anchored.contains(name)) else { continue };
        match State::of(&claim.metadata) {
            State::Pending | State::Draining if !claim.metadata.is_deleting() && view.pools.contains_key(pool) => {
                swept.claims.insert(name.clone());
                swept.pools.insert(pool.into());
                let say = Say::Swept { claim: Regarding::claim(&claim.metadata), pool: pool.into() };
                effects.push(Planned::new(Effect::SweepClaim { claim: name.clone(), at: now }).gone_is_fine().say(say));
            }
            State::None if is_stateless_leftover(claim) => {
                effects.push(Planned::new(Effect::ClearClaim { claim: name.clone() }).gone_is_fine());
            }
            _ => {}
        }
    }
}

/// Bookkeeping of an attempt on a claim that is in no state: left by a crash in the middle of its clearing.
fn is_stateless_leftover(claim: &NodeClaim) -> bool {
    let keys = [keys::STARTED_AT, keys::SURGE_CLAIM, keys::WRITTEN_BY];
    claim.metadata.annotation(keys::STATE).is_none() && keys.iter().any(|key| claim.metadata.annotation(key).is_some())
}

fn pools(view: &View, effects: &mut Vec<Planned>) {
    for (name, pool) in view.pools.iter().filter(|(_, pool)| pool.metadata.annotation(keys::ACTIVE_ROTATION).is_none()) {
        if keys::ROTATION_SCOPED.iter().any(|key| pool.metadata.annotation(key).is_some()) {
            effects.push(Planned::new(Effect::DropOrphans { pool: name.clone() }).gone_is_fine());
        }
        if pool.metadata.annotation(keys::WRITTEN_BY).is_some() {
            effects.push(Planned::new(Effect::ForgetPoolWriter { pool: name.clone() }).gone_is_fine());
        }
    }
}
