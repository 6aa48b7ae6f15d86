//! How the two tellings are compared; the rules and their reasons are on the page of the suite.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use chrono::TimeDelta;
use noderotation::api::time::Time;

use super::{scene::CADENCE, story::Row};

/// So many pools have to have made a transition for its lateness to be judged.
const SEVERAL: usize = 3;

/// A transition among those of its kind in its pool, and when it came: after the last moment that an object tells.
struct Placed<'a> {
    row: &'a Row,
    /// Its head, and how often that had been before.
    key: (String, usize),
    /// What the time is measured from.
    since: String,
    elapsed: TimeDelta,
}

/// Everything in which the real control plane differs from the world.
pub fn differences(world: &BTreeMap<String, Vec<Row>>, real: &BTreeMap<String, Vec<Row>>, slowest: Duration) -> Vec<String> {
    let mut found = Vec::new();
    let mut late: BTreeMap<(String, &str), Vec<(TimeDelta, String)>> = BTreeMap::new();
    for (pool, world) in world {
        let (world, real) = (place(world), place(&real[pool]));
        let before = found.len();
        same_transitions(pool, &world, &real, &mut found);
        if found.len() > before {
            continue; // times of something else say nothing
        }
        same_order(pool, &world, &real, &mut found);
        for model in &world {
            let came = real.iter().find(|came| came.key == model.key).unwrap();
            let behind = came.elapsed - model.elapsed;
            let told = format!(
                "{pool}: {}: {} after {}, in the world {}",
                model.row.head(),
                shown(came.elapsed),
                model.since,
                shown(model.elapsed)
            );
            if behind < -TimeDelta::seconds(CADENCE) {
                found.push(format!("too early: {told}"));
            }
            late.entry((model.since.clone(), model.row.what)).or_default().push((behind, told));
        }
    }
    let allowed = TimeDelta::seconds(CADENCE) + TimeDelta::from_std(slowest).unwrap();
    for mut pools in late.into_values().filter(|pools| pools.len() >= SEVERAL) {
        pools.sort();
        let (behind, told) = &pools[0];
        if *behind > allowed {
            found.push(format!("too late, and all others more so: {told}"));
        }
    }
    found
}

fn place(rows: &[Row]) -> Vec<Placed<'_>> {
    let mut since: (String, Option<Time>) = ("the beginning".into(), None);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut placed = Vec::new();
    for row in rows {
        let count = counts.entry(row.head()).or_default();
        let key = (row.head(), *count);
        *count += 1;
        let elapsed = since.1.map_or(TimeDelta::zero(), |since| row.at - since);
        placed.push(Placed { row, key, since: since.0.clone(), elapsed });
        if let Some(stamp) = row.stamp {
            since = (row.what.into(), Some(stamp));
        }
    }
    placed
}

fn same_transitions(pool: &str, world: &[Placed<'_>], real: &[Placed<'_>], found: &mut Vec<String>) {
    for (side, these, those) in [("real control plane", world, real), ("world", real, world)] {
        for one in these {
            match those.iter().find(|other| other.key == one.key) {
                None => found.push(format!("{pool}: not on the {side}: {} ({})", one.row.head(), one.row.detail)),
                Some(other) if side != "world" && other.row.detail != one.row.detail => {
                    found.push(format!("{pool}: {}: {}; in the world: {}", one.row.head(), other.row.detail, one.row.detail));
                }
                Some(_) => {}
            }
        }
    }
}

/// What happens to one claim has its order; what happens to two may come either way where the world has it in one cadence.
fn same_order(pool: &str, world: &[Placed<'_>], real: &[Placed<'_>], found: &mut Vec<String>) {
    let position = |one: &Placed<'_>| real.iter().position(|other| other.key == one.key);
    for (index, first) in world.iter().enumerate() {
        for second in &world[index + 1..] {
            let is_ordered = first.row.who == second.row.who || second.row.at - first.row.at > TimeDelta::seconds(CADENCE);
            if is_ordered && position(first) > position(second) {
                found.push(format!("{pool}: {} came before {}, in the world after it", second.row.head(), first.row.head()));
            }
        }
    }
}

fn shown(span: TimeDelta) -> String {
    format!("{:.1}s", span.as_seconds_f64())
}

/// A story, for people.
pub fn listed(pool: &str, rows: &[Row]) -> String {
    let mut text = format!("{pool}\n");
    let first = rows.first().map(|row| row.stamp.unwrap_or(row.at));
    for row in rows {
        let at = shown(row.at - first.unwrap_or(row.at));
        writeln!(text, "  {at:>7} {} {}", row.head(), row.detail).unwrap();
    }
    text
}
