//! Writes on a NodePool: the anchor, its mirror, its release.

use chrono::TimeDelta;

use super::{Ended, Verdict, ended, is_signed, misdirected};
use crate::{
    api::{
        karpenter::NodePool,
        keys,
        meta::Meta,
        time::{Time, format_duration, parse_duration, to_annotation},
    },
    rotation::{
        effect::{Effect, End, SurgePath, patch::Patch},
        state::State,
        totals::Totals,
    },
};

pub(super) fn judge(effect: &Effect, pool: &NodePool, pass: &str) -> Verdict {
    let meta = &pool.metadata;
    match effect {
        Effect::Anchor { claim, at, failed_at, .. } => match unanchored(meta, claim, false) {
            Ok(()) => Verdict::Patch(keep_pause(meta, start(meta, claim, pass), *failed_at, *at)),
            Err(verdict) => verdict,
        },
        Effect::StartFallback { claim, at, failed_at, .. } => match unanchored(meta, claim, true) {
            Ok(()) => Verdict::Patch(keep_pause(meta, start_fallback(meta, claim, *at, pass), *failed_at, *at)),
            Err(verdict) => verdict,
        },
        Effect::MirrorDraining { claim, at, surge, .. } => mirror(meta, claim, *at, *surge, pass),
        // A repeated request of ours finds its own release: no anchor, and our signature.
        Effect::Release { .. } if meta.annotation(keys::ACTIVE_ROTATION).is_none() && is_signed(meta, pass) => Verdict::Already,
        Effect::Release { claim, end, at, .. } => match anchored_on(meta, claim) {
            Ok(()) => Verdict::Patch(release(pool, *end, *at, pass)),
            Err(verdict) => verdict,
        },
        Effect::SettleWindows { from, to, missed, .. } => settle_windows(meta, from.as_deref(), to, *missed),
        Effect::DropOrphans { .. } => drop_orphans(meta),
        Effect::ForgetPoolWriter { .. } => match meta.annotation(keys::WRITTEN_BY) {
            None => Verdict::Already,
            Some(_) if meta.annotation(keys::ACTIVE_ROTATION).is_some() => Verdict::NotMine("a rotation is anchored".into()),
            Some(_) => Verdict::Patch(Patch::of(meta).clear(keys::WRITTEN_BY)),
        },
        _ => misdirected(effect, "NodePool"),
    }
}

/// Whether the mirror says that the anchored rotation's claim was draining.
pub(super) fn is_draining(pool: &Meta) -> bool {
    pool.annotation(keys::ACTIVE_ROTATION_STATE) == Some(State::Draining.as_str())
}

/// Only-if-absent: nothing may be anchored; this very start is `Already`.
fn unanchored(meta: &Meta, claim: &str, fallback: bool) -> Result<(), Verdict> {
    let mode = meta.annotation(keys::ROTATION_MODE);
    match meta.annotation(keys::ACTIVE_ROTATION) {
        None if meta.is_deleting() => Err(Verdict::NotMine("the NodePool is being deleted".into())),
        None => Ok(()),
        Some(anchor) if anchor == claim && fallback == (mode == Some(keys::MODE_FORCEFUL_FALLBACK)) => Err(Verdict::Already),
        Some(anchor) => Err(Verdict::NotMine(format!("the rotation of {anchor} is anchored already"))),
    }
}

fn anchored_on(meta: &Meta, claim: &str) -> Result<(), Verdict> {
    match meta.annotation(keys::ACTIVE_ROTATION) {
        Some(anchor) if anchor == claim => Ok(()),
        Some(anchor) => Err(Verdict::NotMine(format!("the anchor names {anchor}, not {claim}"))),
        None => Err(Verdict::NotMine(format!("the anchor on {claim} is released already"))),
    }
}

/// Leftovers of an earlier rotation must not colour the outcome of this one, so they go with the same write.
fn start(meta: &Meta, claim: &str, pass: &str) -> Patch {
    let leftovers = keys::ROTATION_SCOPED.iter().filter(|key| meta.annotation(key).is_some());
    leftovers.fold(Patch::signed(meta, pass), |patch, key| patch.clear(*key)).set(keys::ACTIVE_ROTATION, claim)
}

fn start_fallback(meta: &Meta, claim: &str, at: Time, pass: &str) -> Patch {
    let mut totals = Totals::of(meta).unwrap_or_default();
    totals.fallback = totals.fallback.saturating_add(1);
    start(meta, claim, pass)
        .set(keys::ROTATION_MODE, keys::MODE_FORCEFUL_FALLBACK)
        .set(keys::ACTIVE_ROTATION_STATE, State::Draining.as_str())
        .set(keys::DRAINING_AT, to_annotation(at))
        .set(keys::TOTALS, totals.to_annotation())
}

fn keep_pause(meta: &Meta, patch: Patch, failed_at: Option<Time>, at: Time) -> Patch {
    match failed_at {
        None => patch,
        Some(failed_at) => patch.set(keys::LAST_FAILURE_AT, to_annotation(last_failure(meta, failed_at, at))),
    }
}

/// The later one, which is when the pause began. A stored one from a wrong clock would keep the pause off for good.
fn last_failure(meta: &Meta, failed_at: Time, at: Time) -> Time {
    meta.stamp(keys::LAST_FAILURE_AT).time().filter(|stored| *stored <= at).map_or(failed_at, |stored| stored.max(failed_at))
}

fn mirror(meta: &Meta, claim: &str, at: Time, surge: Option<(TimeDelta, SurgePath)>, pass: &str) -> Verdict {
    if let Err(verdict) = anchored_on(meta, claim) {
        return verdict;
    }
    if is_draining(meta) && meta.stamp(keys::DRAINING_AT).time().is_some_and(|since| since <= at) {
        return Verdict::Already;
    }
    let patch = Patch::signed(meta, pass).set(keys::ACTIVE_ROTATION_STATE, State::Draining.as_str());
    let patch = match meta.stamp(keys::DRAINING_AT).time() {
        Some(since) if since <= at => patch,
        _ => patch.set(keys::DRAINING_AT, to_annotation(at)),
    };
    let patch = match (surge, meta.annotation(keys::SURGE_WAIT)) {
        (Some((wait, path)), None) => patch.set(keys::SURGE_WAIT, format_duration(wait)).set(keys::SURGE_PATH, path.as_str()),
        _ => patch,
    };
    Verdict::Patch(patch)
}

/// One write removes the whole rotation-scoped set, stamps what the outcome calls for and moves its total.
fn release(pool: &NodePool, end: End, at: Time, pass: &str) -> Patch {
    let meta = &pool.metadata;
    let mut totals = Totals::of(meta).unwrap_or_default();
    let mut patch = Patch::signed(meta, pass);
    for key in keys::ROTATION_SCOPED {
        if meta.annotation(key).is_some() {
            patch = patch.clear(key);
        }
    }
    let ended = ended(pool, end);
    match ended {
        Ended::Success => {
            totals.success = totals.success.saturating_add(1);
            if let Some(wait) = meta.annotation(keys::SURGE_WAIT).and_then(parse_duration) {
                totals.surge_wait.observe(wait);
            }
            // A future or unreadable `draining-at` costs the histogram its sample, not the outcome.
            if let Some(since) = meta.stamp(keys::DRAINING_AT).time().filter(|since| *since <= at) {
                totals.drain.observe(at - since);
            }
            patch = patch.set(keys::LAST_ROTATION_AT, to_annotation(at));
        }
        Ended::Failure => totals.failure = totals.failure.saturating_add(1),
        Ended::Expired => totals.expired = totals.expired.saturating_add(1),
        Ended::Nothing => {}
    }
    if let End::Failed { failed_at } = end {
        patch = patch.set(keys::LAST_FAILURE_AT, to_annotation(last_failure(meta, failed_at, at)));
    }
    if ended == Ended::Nothing { patch } else { patch.set(keys::TOTALS, totals.to_annotation()) }
}

/// Stamp and total move in one write, so a window counts once whatever dies when.
fn settle_windows(meta: &Meta, from: Option<&str>, to: &str, missed: u64) -> Verdict {
    match meta.annotation(keys::WINDOW_SETTLED_AT) {
        Some(stamp) if stamp == to => Verdict::Already,
        _ if meta.annotation(keys::ACTIVE_ROTATION).is_some() => Verdict::NotMine("a rotation is anchored".into()),
        stamp if stamp != from => Verdict::NotMine("another pass has judged the windows".into()),
        _ => {
            let patch = Patch::of(meta).set(keys::WINDOW_SETTLED_AT, to);
            if missed == 0 {
                return Verdict::Patch(patch);
            }
            let mut totals = Totals::of(meta).unwrap_or_default();
            totals.window_missed = totals.window_missed.saturating_add(missed);
            Verdict::Patch(patch.set(keys::TOTALS, totals.to_annotation()))
        }
    }
}

fn drop_orphans(meta: &Meta) -> Verdict {
    if meta.annotation(keys::ACTIVE_ROTATION).is_some() {
        return Verdict::NotMine("a rotation is anchored".into());
    }
    let orphans: Vec<&'static str> = keys::ROTATION_SCOPED.into_iter().filter(|key| meta.annotation(key).is_some()).collect();
    if orphans.is_empty() { Verdict::Already } else { Verdict::Patch(Patch::of(meta).clear_all(&orphans)) }
}
