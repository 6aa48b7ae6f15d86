//! The table of pools.

use chrono::TimeDelta;

use super::model::{Plan, Pool};
use crate::{
    api::time::{Time, parse_annotation},
    cli::{
        screen::{Screen, Styled, Tone},
        when::{Reader, distance, short},
    },
};

const HEADERS: [&str; 10] = ["POOL", "POLICY", "WINDOW", "A", "K", "C", "IN FLIGHT", "DUE", "NEXT DEADLINE", "FINDINGS"];
/// Windows are worked out for so long ahead: what closes later doesn't close.
const FAR: TimeDelta = TimeDelta::days(390);
/// On a narrower terminal cells are shortened.
const ROOMY: u16 = 130;
/// What is left out on a terminal that is narrower still: `plan POOL` tells it.
const SPARE: [&str; 4] = ["K", "C", "A", "POLICY"];
const WIDE: [&str; 6] = ["NODES", "P", "LEAD", "T_ROT", "GATES", "NEXT STEP"];

/// All pools; what stands beside the table goes below it.
pub fn text(plan: &Plan, wide: bool, screen: Screen, reader: Reader) -> String {
    let now = parse_annotation(&plan.now).unwrap_or_default();
    let mut headers = HEADERS.to_vec();
    if wide {
        headers.extend(WIDE);
    }
    let narrow = screen.width.is_some_and(|width| width < ROOMY);
    let rows = plan.pools.iter().map(|pool| row(pool, wide, narrow, now, reader)).collect();
    let mut text = screen.table_without(&headers, rows, if wide { &[] } else { &SPARE });
    if plan.pools.is_empty() && plan.errors.is_empty() {
        text.push_str("There is no NodePool.\n");
    }
    for (what, why) in &plan.errors {
        text.push_str(&screen.paint(&format!("{what} can't be judged: {why}"), Tone::Bad));
        text.push('\n');
    }
    if !plan.sweep.is_empty() {
        text.push_str("\nThe next pass first cleans up:\n");
        for write in &plan.sweep {
            text.push_str(&format!("  {}\n", write.what));
        }
    }
    text
}

fn row(pool: &Pool, wide: bool, narrow: bool, now: Time, reader: Reader) -> Vec<Styled> {
    let derivation = pool.derivation.as_ref();
    let text = |text: Option<String>| Styled::plain(text.unwrap_or_else(|| "-".into()));
    let mut row = vec![
        Styled(pool.name.clone(), Tone::Strong),
        policy(pool),
        if narrow { narrow_window(pool, now, reader) } else { window(pool, now, reader) },
        text(derivation.map(|derived| derived.age_threshold.clone().unwrap_or_else(|| "never".into()))),
        text(derivation.map(|derived| derived.min_rotation_chances.to_string())),
        text(derivation.map(|derived| derived.capacity.to_string())),
        text(pool.in_flight.as_ref().map(|flight| if narrow { flight.state.into() } else { format!("{} {}", flight.claim, flight.state) })),
        Styled(
            if pool.policy.is_some() { pool.due.to_string() } else { "-".into() },
            if pool.due > 0 { Tone::Doubtful } else { Tone::Plain },
        ),
        text(pool.times.deadline.map(|deadline| if narrow { distance(deadline, now) } else { reader.here(deadline, now) })),
        findings(pool, narrow),
    ];
    if wide {
        row.extend([
            text(derivation.map(|derived| derived.nodes.to_string())),
            text(derivation.and_then(|derived| derived.period.clone())),
            text(derivation.and_then(|derived| derived.lead_time.clone())),
            text(derivation.map(|derived| derived.t_rot.clone())),
            text((!pool.gates.is_empty()).then(|| pool.gates.iter().map(|gate| gate.code).collect::<Vec<_>>().join(", "))),
            Styled::plain(pool.step.action),
        ]);
    }
    row
}

fn policy(pool: &Pool) -> Styled {
    match (&pool.policy, pool.conflict.is_empty()) {
        (_, false) => Styled(format!("conflict: {}", pool.conflict.join(", ")), Tone::Bad),
        (Some(policy), true) => Styled::plain(policy.clone()),
        (None, true) => Styled("none".into(), Tone::Faint),
    }
}

/// Open until when, or when it opens.
pub fn window(pool: &Pool, now: Time, reader: Reader) -> Styled {
    let Some(zone) = pool.times.zone else { return Styled::plain("-") };
    match (pool.times.closes, pool.times.opens) {
        (Some(closes), _) if closes - now >= FAR => Styled("always open".into(), Tone::Good),
        (Some(closes), _) => Styled(format!("open until {}", reader.moment(closes, zone, now)), Tone::Good),
        (None, Some(opens)) => Styled::plain(reader.moment(opens, zone, now)),
        (None, None) => Styled("never opens".into(), Tone::Bad),
    }
}

fn narrow_window(pool: &Pool, now: Time, reader: Reader) -> Styled {
    match (pool.times.zone, pool.times.closes, pool.times.opens) {
        (Some(_), Some(closes), _) if closes - now < FAR => Styled(format!("open for {}", short(closes - now)), Tone::Good),
        (Some(zone), None, Some(opens)) => Styled::plain(reader.moment_in_lines(opens, zone, now)),
        _ => window(pool, now, reader),
    }
}

fn findings(pool: &Pool, narrow: bool) -> Styled {
    if pool.findings.is_empty() {
        return Styled::plain("-");
    }
    let fatal = pool.findings.iter().any(|finding| finding.level == "fatal");
    if narrow {
        let fatal_ones = pool.findings.iter().filter(|finding| finding.level == "fatal").count();
        let counts = [(fatal_ones, "fatal"), (pool.findings.len() - fatal_ones, "warn")];
        let told: Vec<String> = counts.iter().filter(|(count, _)| *count > 0).map(|(count, level)| format!("{count} {level}")).collect();
        return Styled(told.join(", "), if fatal { Tone::Bad } else { Tone::Doubtful });
    }
    let names: Vec<&str> = pool.findings.iter().map(|finding| finding.code).collect();
    Styled(names.join(", "), if fatal { Tone::Bad } else { Tone::Doubtful })
}
