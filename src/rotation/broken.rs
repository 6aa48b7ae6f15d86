//! Bookkeeping that can't be read, or lies in the future (§6): it never blocks for good, and it is said.

use super::{notice::Notice, scene::Scene, totals::Totals};
use crate::api::{
    events::Reason,
    keys,
    meta::{Meta, Stamp},
    time::parse_duration,
};

const POOL_STAMPS: [&str; 3] = [keys::DRAINING_AT, keys::LAST_FAILURE_AT, keys::LAST_ROTATION_AT];
const CLAIM_STAMPS: [&str; 2] = [keys::STARTED_AT, keys::FAILED_AT];

/// One Warning per annotation of the pool or of its claims that can't be used. `totals` are the pool's as they were read.
pub fn notices(scene: &Scene<'_>, totals: &Totals) -> Vec<Notice> {
    if scene.policy.is_none() && scene.anchor().is_none() {
        return Vec::new();
    }
    let pool = &scene.pool.metadata;
    let mut broken: Vec<(&Meta, &str, &str)> = stamps(scene, pool, &POOL_STAMPS);
    // What can't be read restarts at zero.
    if *totals == Totals::default() && Totals::of(pool).is_err() {
        broken.push((pool, keys::TOTALS, "the totals restart at zero"));
    }
    if pool.annotation(keys::SURGE_WAIT).is_some_and(|wait| parse_duration(wait).is_none()) {
        broken.push((pool, keys::SURGE_WAIT, "the histogram loses this sample"));
    }
    for claim in scene.annotated.iter().filter(|claim| claim.pool() == Some(scene.name())) {
        let meta = &claim.metadata;
        broken.extend(stamps(scene, meta, &CLAIM_STAMPS));
        if meta.stamp(keys::ROTATE_REQUESTED) == Stamp::Unreadable {
            broken.push((meta, keys::ROTATE_REQUESTED, "it is not an RFC 3339 time, and counts as not asked for"));
        }
        if meta.annotation(keys::RETRY_COUNT).is_some_and(|count| count.trim().parse::<u128>().is_err()) {
            broken.push((meta, keys::RETRY_COUNT, "it counts as 0"));
        }
        if meta.annotation(keys::STATE).is_some_and(|state| !matches!(state, "pending" | "draining" | "failed" | "expired")) {
            broken.push((meta, keys::STATE, "the claim counts as not in rotation"));
        }
    }
    let notice = |(meta, key, consequence): (&Meta, &str, &str)| {
        let value: String = meta.annotation(key).unwrap_or_default().chars().take(80).collect();
        let message = format!("{}: {key}: {value:?} can't be used: {consequence}", meta.name);
        Notice::new(Reason::StateUnreadable, scene.regarding(), scene.name(), message).on(format!("{}/{key}", meta.name))
    };
    broken.into_iter().map(notice).collect()
}

fn stamps<'a>(scene: &Scene<'_>, meta: &'a Meta, keys: &[&'a str]) -> Vec<(&'a Meta, &'a str, &'a str)> {
    let horizon = scene.horizon();
    let broken = keys.iter().filter_map(|key| match meta.stamp(key) {
        Stamp::Absent => None,
        Stamp::At(time) if time <= horizon => None,
        Stamp::At(_) => Some((meta, *key, "it lies in the future")),
        Stamp::Unreadable => Some((meta, *key, "it is not an RFC 3339 time")),
    });
    broken.collect()
}
