//! Writes on a NodeClaim: its state, and its deletion.

use super::{Verdict, is_signed, misdirected};
use crate::{
    api::{
        karpenter::NodeClaim,
        keys,
        meta::{Meta, Stamp},
        time::{Time, to_annotation},
    },
    rotation::{
        effect::{Effect, patch::Patch},
        state::State,
    },
};

/// A retry count above this changes no backoff (which is capped at 8x) and only risks overflow.
pub const RETRY_COUNT_MAX: u32 = 1_000_000;

pub(super) fn judge(effect: &Effect, claim: &NodeClaim, pass: &str) -> Verdict {
    let meta = &claim.metadata;
    let state = State::of(meta);
    match effect {
        Effect::BeginAttempt { from, at, .. } => begin(meta, from, *at, pass),
        Effect::NoteSurgeClaim { induced, .. } if state == State::Pending => {
            if meta.annotation(keys::SURGE_CLAIM) == Some(induced) {
                return Verdict::Already;
            }
            Verdict::Patch(Patch::signed(meta, pass).set(keys::SURGE_CLAIM, induced))
        }
        Effect::MarkDraining { .. } if state == State::Draining => Verdict::Already,
        Effect::MarkDraining { from, .. } if from.contains(&state) => {
            Verdict::Patch(Patch::signed(meta, pass).set(keys::STATE, State::Draining.as_str()))
        }
        Effect::MarkFailed { at, .. } if state == State::Pending => {
            let retries = retry_count(meta).saturating_add(1).min(RETRY_COUNT_MAX);
            Verdict::Patch(failed(meta, *at, pass).set(keys::RETRY_COUNT, retries.to_string()))
        }
        Effect::SweepClaim { at, .. } if matches!(state, State::Pending | State::Draining) && !meta.is_deleting() => {
            Verdict::Patch(failed(meta, *at, pass))
        }
        // A repeated request of ours finds its own write.
        Effect::MarkFailed { .. } | Effect::SweepClaim { .. } if state == State::Failed && is_signed(meta, pass) => Verdict::Already,
        Effect::MarkExpired { .. } if state == State::Expired => Verdict::Already,
        Effect::MarkExpired { from, .. } if from.contains(&state) && meta.is_deleting() => {
            let attempt = [keys::STARTED_AT, keys::SURGE_CLAIM].into_iter().filter(|key| meta.annotation(key).is_some());
            let patch = Patch::signed(meta, pass).set(keys::STATE, State::Expired.as_str());
            Verdict::Patch(attempt.fold(patch, |patch, key| patch.clear(key)))
        }
        Effect::ClearClaim { .. } => clear(meta, state),
        Effect::DeleteClaim { uid, .. } | Effect::ReapClaim { uid, .. } if meta.uid != *uid => {
            Verdict::NotMine(format!("another NodeClaim has taken the name (UID {}, not {uid})", meta.uid))
        }
        Effect::DeleteClaim { .. } | Effect::ReapClaim { .. } if meta.is_deleting() => Verdict::Already,
        Effect::DeleteClaim { uid, .. } if state == State::Draining => Verdict::Delete { uid: uid.clone() },
        Effect::ReapClaim { uid, .. } => Verdict::Delete { uid: uid.clone() },
        Effect::NoteSurgeClaim { .. }
        | Effect::MarkDraining { .. }
        | Effect::MarkFailed { .. }
        | Effect::MarkExpired { .. }
        | Effect::SweepClaim { .. }
        | Effect::DeleteClaim { .. } => not_from(meta, state),
        _ => misdirected(effect, "NodeClaim"),
    }
}

/// The retry count as it can be used: unreadable counts as none, and it is clamped.
pub fn retry_count(claim: &Meta) -> u32 {
    let text = claim.annotation(keys::RETRY_COUNT).unwrap_or_default();
    text.trim().parse::<u128>().map_or(0, |count| u32::try_from(count).unwrap_or(RETRY_COUNT_MAX).min(RETRY_COUNT_MAX))
}

/// An attempt's start is stamped once; one that can't be read, or lies in the future, is stamped anew, so that the
/// attempt stays bounded. What stands on a claim that isn't `pending` is of no attempt: this one gets its whole time.
fn begin(meta: &Meta, from: &[State], at: Time, pass: &str) -> Verdict {
    let state = State::of(meta);
    if !from.contains(&state) {
        return not_from(meta, state);
    }
    if meta.is_deleting() {
        return Verdict::NotMine("the NodeClaim is being deleted".into());
    }
    let started = match meta.stamp(keys::STARTED_AT) {
        Stamp::At(started) => started <= at,
        Stamp::Absent | Stamp::Unreadable => false,
    };
    if state == State::Pending && started {
        return Verdict::Already;
    }
    let patch = Patch::signed(meta, pass).set(keys::STARTED_AT, to_annotation(at));
    Verdict::Patch(if state == State::Pending { patch } else { patch.set(keys::STATE, State::Pending.as_str()) })
}

fn failed(meta: &Meta, at: Time, pass: &str) -> Patch {
    let attempt = [keys::STARTED_AT, keys::SURGE_CLAIM].into_iter().filter(|key| meta.annotation(key).is_some());
    let patch = Patch::signed(meta, pass).set(keys::STATE, State::Failed.as_str()).set(keys::FAILED_AT, to_annotation(at));
    attempt.fold(patch, |patch, key| patch.clear(key))
}

/// What a rotation leaves on a claim that outlives it without outcome is all removed: nobody governs it any more.
fn clear(meta: &Meta, state: State) -> Verdict {
    if state == State::Expired || (state == State::Draining && meta.is_deleting()) {
        return not_from(meta, state);
    }
    let ours = [keys::STATE, keys::STARTED_AT, keys::SURGE_CLAIM, keys::WRITTEN_BY];
    let present: Vec<&str> = ours.into_iter().filter(|key| meta.annotation(key).is_some()).collect();
    if present.is_empty() { Verdict::Already } else { Verdict::Patch(Patch::of(meta).clear_all(&present)) }
}

fn not_from(meta: &Meta, state: State) -> Verdict {
    let state = if state == State::None { "without a state" } else { state.as_str() };
    let deleting = if meta.is_deleting() { " and being deleted" } else { "" };
    Verdict::NotMine(format!("the NodeClaim is {state}{deleting}"))
}
