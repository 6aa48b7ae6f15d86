//! One pool in depth.

use std::fmt::Write;

use super::{
    model::{Derived, Plan, Pool},
    table::window,
};
use crate::{
    api::time::{Time, parse_annotation},
    cli::{
        screen::{Screen, Styled, Tone},
        when::{Reader, short},
    },
};

/// So many claims of a forecast are named.
const NAMED: usize = 6;

/// So many candidates are listed.
const LISTED: usize = 20;

/// Everything about the pools of the plan.
pub fn text(plan: &Plan, screen: Screen, reader: Reader) -> String {
    let now = parse_annotation(&plan.now).unwrap_or_default();
    let mut text: String = plan.pools.iter().map(|pool| one(pool, now, screen, reader)).collect();
    for (what, why) in &plan.errors {
        // Writing into a String has no way to fail.
        let _ = writeln!(text, "{}", screen.paint(&format!("{what} can't be judged: {why}"), Tone::Bad));
    }
    if let Some(lease) = &plan.lease_holder {
        let _ = writeln!(text, "\n{}", screen.paint(lease, Tone::Faint));
    }
    text
}

fn one(pool: &Pool, now: Time, screen: Screen, reader: Reader) -> String {
    let mut text = String::new();
    let policy = match (&pool.policy, pool.conflict.is_empty()) {
        (_, false) => format!("conflict: {}", pool.conflict.join(", ")),
        (Some(policy), true) => policy.clone(),
        (None, true) => "none: this pool is not rotated".into(),
    };
    field(&mut text, screen, "NodePool", &pool.name);
    field(&mut text, screen, "Policy", &policy);
    let Styled(open, tone) = window(pool, now, reader);
    field(&mut text, screen, "Window", &screen.paint(&open, tone));
    if let Some(derived) = &pool.derivation {
        field(&mut text, screen, "Age A", &derivation(derived));
    }
    let census = pool.census.iter().map(|(bucket, count)| format!("{count} {bucket}")).collect::<Vec<_>>().join(", ");
    field(&mut text, screen, "Claims", if census.is_empty() { "none" } else { &census });
    if let Some(flight) = &pool.in_flight {
        let node = flight.node.as_deref().unwrap_or("no Node");
        field(&mut text, screen, "In flight", &format!("{} on {node}, {}: {}", flight.claim, flight.state, flight.waiting_for));
    }
    gates(&mut text, pool, screen);
    for blackout in &pool.blackouts {
        let [from, until] = blackout.times.map(|time| reader.here(time, now));
        let reason = if blackout.reason.is_empty() { String::new() } else { format!(": {}", blackout.reason) };
        field(&mut text, screen, "Blackout", &format!("{from} to {until}{reason}"));
    }
    for finding in &pool.findings {
        let tone = if finding.level == "fatal" { Tone::Bad } else { Tone::Doubtful };
        field(&mut text, screen, "Finding", &format!("{}: {}", screen.paint(finding.code, tone), finding.message));
    }
    candidates(&mut text, pool, now, screen, reader);
    step(&mut text, pool, screen);
    headroom(&mut text, pool, screen);
    forecast(&mut text, pool, now, screen, reader);
    text
}

fn field(text: &mut String, screen: Screen, name: &str, value: &str) {
    let name = screen.paint(&format!("{name:<10}"), Tone::Strong);
    let _ = writeln!(text, "{name} {}", screen.wrap(value, 11));
}

fn heading(text: &mut String, screen: Screen, name: &str) {
    let _ = writeln!(text, "\n{}", screen.paint(name, Tone::Strong));
}

fn derivation(derived: &Derived) -> String {
    let or = |value: &Option<String>, none: &str| value.clone().unwrap_or_else(|| none.into());
    let Derived { min_rotation_chances: k, t_rot, t_rot_estimate, capacity, nodes, .. } = derived;
    let (age, lifetime) = (or(&derived.age_threshold, "never"), or(&derived.expire_after, "Never"));
    let (lead, period) = (or(&derived.lead_time, "-"), or(&derived.period, "-"));
    let chances = derived.chances.map_or("-".into(), |chances| chances.to_string());
    format!(
        "{age}; expireAfter E {lifetime}, leadTime {lead} = K {k} x P {period} + t_rot {t_rot}; guaranteed windows G {chances}; C {capacity} starts a window at {t_rot_estimate} each; N {nodes} nodes"
    )
}

fn gates(text: &mut String, pool: &Pool, screen: Screen) {
    if pool.gates.is_empty() && pool.policy.is_some() {
        field(text, screen, "Gates", &screen.paint("all open", Tone::Good));
    }
    for gate in &pool.gates {
        field(text, screen, "Gate", &format!("{}: {}", screen.paint(gate.code, Tone::Doubtful), gate.detail));
    }
}

fn candidates(text: &mut String, pool: &Pool, now: Time, screen: Screen, reader: Reader) {
    if pool.candidates.is_empty() {
        return;
    }
    heading(text, screen, "Candidates, in order");
    let at = |time: &Option<String>| time.as_deref().and_then(parse_annotation).map_or("never".into(), |time| reader.here(time, now));
    let rows = pool.candidates.iter().take(LISTED).map(|candidate| {
        let age = now - candidate_created(candidate, now);
        let why = if candidate.asked_for { "asked for".into() } else { at(&candidate.triggered_at) };
        [candidate.claim.clone(), candidate.node.clone(), short(age), why, at(&candidate.deadline)].map(Styled::plain).into()
    });
    text.push_str(&screen.table(&["CLAIM", "NODE", "AGE", "TRIGGERED", "DEADLINE"], rows.collect()));
    if pool.candidates.len() > LISTED {
        let _ = writeln!(text, "and {} more; -o json has all", pool.candidates.len() - LISTED);
    }
}

fn candidate_created(candidate: &super::model::Due, now: Time) -> Time {
    crate::api::time::parse_duration(&candidate.age).map_or(now, |age| crate::api::time::later(now, -age))
}

fn step(text: &mut String, pool: &Pool, screen: Screen) {
    heading(text, screen, "Next step");
    let _ = writeln!(text, "{}", screen.wrap(&format!("{}: {}", pool.step.action, pool.step.detail), 2));
    for (number, write) in pool.step.effects.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {}", number + 1, screen.wrap(&format!("{} [only if {}]", write.what, write.only_if), 5));
    }
    if let Some(error) = &pool.step.error {
        let _ = writeln!(text, "{}", screen.paint(&format!("This pool counts as failed: {error}"), Tone::Bad));
    }
}

fn headroom(text: &mut String, pool: &Pool, screen: Screen) {
    if pool.headroom.is_empty() {
        return;
    }
    heading(text, screen, "Headroom under spec.limits");
    let rows = pool.headroom.iter().map(|(resource, room)| {
        [resource.clone(), room.limit.clone(), room.used.clone(), room.remaining.clone()].map(Styled::plain).into()
    });
    text.push_str(&screen.table(&["RESOURCE", "LIMIT", "USED", "REMAINING"], rows.collect()));
}

fn forecast(text: &mut String, pool: &Pool, now: Time, screen: Screen, reader: Reader) {
    if pool.forecast.is_empty() {
        return;
    }
    heading(text, screen, "Next windows");
    let zone = pool.times.zone.unwrap_or_default();
    let rows = pool.forecast.iter().map(|window| {
        let mut claims = window.claims.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if window.claims.len() > NAMED {
            let _ = write!(claims, " and {} more", window.claims.len() - NAMED);
        }
        let opens = if window.opens <= now { "open now".into() } else { reader.moment(window.opens, zone, now) };
        let lost = if window.lost > 0 { Styled(window.lost.to_string(), Tone::Bad) } else { Styled::plain("0") };
        vec![
            Styled::plain(opens),
            Styled::plain(if claims.is_empty() { "-".into() } else { claims }),
            Styled::plain(window.left.to_string()),
            lost,
        ]
    });
    text.push_str(&screen.table(&["OPENS", "EXPECTED TO ROTATE", "LEFT DUE", "EXPIRE FIRST"], rows.collect()));
}
