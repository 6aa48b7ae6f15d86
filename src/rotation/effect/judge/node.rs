//! Writes on a Node: freeze, with or without a cordon, and their undoing. Only what is ours is ever removed.

use super::{Verdict, misdirected};
use crate::{
    api::{karpenter::Node, keys, meta::Meta},
    rotation::effect::{Effect, Owner, patch::Patch},
};

const TRUE: &str = "true";
/// The annotations of ours on a Node.
const MARKS: [&str; 4] = [keys::SURGE_FOR, keys::DO_NOT_DISRUPT_OWNED, keys::DO_NOT_DISRUPT_WAS, keys::CORDONED];

pub(super) fn judge(effect: &Effect, node: &Node) -> Verdict {
    match effect {
        Effect::Freeze { claim, .. } => belongs_to(&node.metadata, claim).unwrap_or_else(|| settle(freeze(node, claim))),
        Effect::Hold { claim, .. } => belongs_to(&node.metadata, claim).unwrap_or_else(|| settle(hold(node, claim))),
        Effect::Restore { owner, .. } => restore(node, owner),
        _ => misdirected(effect, "Node"),
    }
}

/// Whether the Node carries anything of ours.
pub fn is_marked(node: &Meta) -> bool {
    node.annotations.keys().any(|key| MARKS.contains(&key.as_str())) || node.label(keys::MARKED).is_some()
}

fn belongs_to(meta: &Meta, claim: &str) -> Option<Verdict> {
    match meta.annotation(keys::SURGE_FOR) {
        Some(other) if other != claim => Some(Verdict::NotMine(format!("the Node belongs to the rotation of {other}"))),
        _ => None,
    }
}

fn mark(node: &Node, claim: &str, mut patch: Patch) -> Patch {
    if node.metadata.annotation(keys::SURGE_FOR) != Some(claim) {
        patch = patch.set(keys::SURGE_FOR, claim);
    }
    if node.metadata.label(keys::MARKED) != Some(TRUE) {
        patch = patch.label(keys::MARKED, Some(TRUE));
    }
    patch
}

fn settle(patch: Patch) -> Verdict {
    if patch.is_empty() { Verdict::Already } else { Verdict::Patch(patch) }
}

fn freeze(node: &Node, claim: &str) -> Patch {
    let mut patch = mark(node, claim, Patch::of(&node.metadata));
    match node.metadata.annotation(keys::DO_NOT_DISRUPT) {
        Some(TRUE) => {}
        was => {
            patch = patch.set(keys::DO_NOT_DISRUPT, TRUE).set(keys::DO_NOT_DISRUPT_OWNED, TRUE);
            // Any other value is the operator's; it comes back when we go. One removed meanwhile stays removed.
            patch = match (was, node.metadata.annotation(keys::DO_NOT_DISRUPT_WAS)) {
                (Some(was), _) => patch.set(keys::DO_NOT_DISRUPT_WAS, was),
                (None, Some(_)) => patch.clear(keys::DO_NOT_DISRUPT_WAS),
                (None, None) => patch,
            };
        }
    }
    patch
}

fn hold(node: &Node, claim: &str) -> Patch {
    let patch = freeze(node, claim);
    if node.spec.unschedulable { patch } else { patch.set(keys::CORDONED, TRUE).cordon(true) }
}

fn restore(node: &Node, owner: &Owner) -> Verdict {
    let meta = &node.metadata;
    if !is_marked(meta) {
        return Verdict::Already;
    }
    let of = meta.annotation(keys::SURGE_FOR);
    let meant = match owner {
        Owner::Claim(claim) => of.is_none_or(|of| of == claim),
        Owner::NoneOf(anchored) => of.is_none_or(|of| !anchored.contains(of)),
    };
    if !meant {
        return Verdict::NotMine(format!("the Node belongs to the rotation of {}", of.unwrap_or_default()));
    }
    let mut patch = Patch::of(meta);
    for key in MARKS {
        if meta.annotation(key).is_some() {
            patch = patch.clear(key);
        }
    }
    if meta.annotation(keys::DO_NOT_DISRUPT_OWNED) == Some(TRUE) && meta.annotation(keys::DO_NOT_DISRUPT) == Some(TRUE) {
        patch = match meta.annotation(keys::DO_NOT_DISRUPT_WAS) {
            Some(was) => patch.set(keys::DO_NOT_DISRUPT, was),
            None => patch.clear(keys::DO_NOT_DISRUPT),
        };
    }
    if meta.annotation(keys::CORDONED) == Some(TRUE) && node.spec.unschedulable {
        patch = patch.cordon(false);
    }
    if meta.label(keys::MARKED).is_some() {
        patch = patch.label(keys::MARKED, None);
    }
    settle(patch)
}
