//! The status for people.

use std::fmt::Write;

use super::model::{Failed, Flight, Outcomes, Status};
use crate::{
    api::time::{Time, parse_annotation},
    cli::{
        screen::{Screen, Styled, Tone},
        when::{Reader, distance, short},
    },
    kube::lease::LastPass,
};

/// On a narrower terminal cells are shortened.
const ROOMY: u16 = 130;

/// Everything, what is in flight first.
pub fn text(status: &Status, wide: bool, screen: Screen, reader: Reader) -> String {
    let now = parse_annotation(&status.now).unwrap_or_default();
    let reader = Some(reader).filter(|_| screen.width.is_none_or(|width| width >= ROOMY));
    let mut text = String::new();
    if status.in_flight.is_empty() {
        text.push_str("No rotation is in flight.\n");
    }
    let mut headers = vec!["POOL", "CLAIM", "NODE", "STATE", "SINCE", "ATTEMPT", "UNTIL", "DEADLINE"];
    if wide {
        headers.push("NEXT");
    }
    text.push_str(&screen.table_without(
        &headers,
        status.in_flight.iter().map(|one| flight(one, wide, now, reader)).collect(),
        &["ATTEMPT"],
    ));
    for flight in &status.in_flight {
        let tone = if flight.stuck {
            Tone::Bad
        } else if flight.blocked {
            Tone::Doubtful
        } else {
            Tone::Plain
        };
        let line = format!("{} waits: {}", screen.paint(&flight.pool, Tone::Strong), screen.paint(&flight.waiting_for, tone));
        // Writing into a String has no way to fail.
        let _ = writeln!(text, "{}", screen.wrap(&line, 2));
    }
    if !status.failed.is_empty() {
        let rows = status.failed.iter().map(|one| failed(one, now, reader)).collect();
        let _ = write!(text, "\n{}", screen.table(&["POOL", "NOT ROTATED", "STATE", "ATTEMPTS", "LAST FAILED", "AGAIN", "DEADLINE"], rows));
    }
    if !status.outcomes.is_empty() {
        let rows = status.outcomes.iter().map(|one| outcomes(one, now)).collect();
        let headers = ["POOL", "ROTATED", "FAILED", "EXPIRED", "FORCED", "MISSED", "LAST ROTATED", "LAST FAILED"];
        let _ = write!(text, "\n{}", screen.table_without(&headers, rows, &["LAST FAILED", "LAST ROTATED"]));
    }
    let _ = writeln!(text, "\n{}", screen.wrap(&passes(status, now, screen), 0));
    text
}

fn flight(flight: &Flight, wide: bool, now: Time, reader: Option<Reader>) -> Vec<Styled> {
    let [since, until, deadline] = flight.times;
    let state = match (flight.stuck, flight.blocked) {
        (true, _) => Styled(format!("{}, stuck", flight.state), Tone::Bad),
        (false, true) => Styled(format!("{}, blocked", flight.state), Tone::Doubtful),
        (false, false) => Styled(flight.state.into(), Tone::Good),
    };
    let mut row = vec![
        Styled(flight.pool.clone(), Tone::Strong),
        Styled::plain(flight.claim.clone()),
        Styled::plain(flight.node.clone().unwrap_or_else(|| "-".into())),
        state,
        ago(since, now),
        Styled::plain(flight.attempt.to_string()),
        moment(until, now, reader),
        moment(deadline, now, reader),
    ];
    if wide {
        row.push(Styled::plain(flight.next));
    }
    row
}

fn failed(failed: &Failed, now: Time, reader: Option<Reader>) -> Vec<Styled> {
    let [failed_at, backoff, deadline] = failed.times;
    let again = match (backoff, failed.state) {
        (None, "failed") => Styled::plain("when a start is due"),
        (None, _) => Styled::plain("never"),
        (until, _) => moment(until, now, reader),
    };
    vec![
        Styled(failed.pool.clone(), Tone::Strong),
        Styled::plain(failed.claim.clone()),
        Styled(failed.state.into(), Tone::Doubtful),
        Styled::plain(failed.attempts.to_string()),
        ago(failed_at, now),
        again,
        moment(deadline, now, reader),
    ]
}

fn outcomes(outcomes: &Outcomes, now: Time) -> Vec<Styled> {
    let count = |count: u64, bad: bool| Styled(count.to_string(), if bad && count > 0 { Tone::Doubtful } else { Tone::Plain });
    vec![
        Styled(outcomes.pool.clone(), Tone::Strong),
        count(outcomes.success, false),
        count(outcomes.failure, true),
        count(outcomes.expired, true),
        count(outcomes.fallback, true),
        count(outcomes.window_missed, true),
        ago(outcomes.times[0], now),
        ago(outcomes.times[1], now),
    ]
}

fn ago(time: Option<Time>, now: Time) -> Styled {
    Styled::plain(time.map_or("-".into(), |time| distance(time, now)))
}

/// On a narrow terminal only how far it is.
fn moment(time: Option<Time>, now: Time, reader: Option<Reader>) -> Styled {
    Styled::plain(time.map_or("-".into(), |time| reader.map_or_else(|| distance(time, now), |reader| reader.here(time, now))))
}

/// Whether a pass is at work, how the last one ended, and whether one should have come since.
fn passes(status: &Status, now: Time, screen: Screen) -> String {
    let passes = &status.passes;
    let mut sentences = Vec::new();
    let instant = |text: &Option<String>| text.as_deref().and_then(parse_annotation);
    let last = passes.last.as_ref();
    let ended = last.and_then(|last| parse_annotation(&last.ended_at)).or_else(|| instant(&passes.released_at));
    let ended = ended.map(|ended| distance(ended, now));
    let failed = last.filter(|last| last.exit_code != 0);
    match &passes.holder {
        Some(holder) => {
            let since = instant(&passes.since).map(|since| format!(", begun {}", distance(since, now))).unwrap_or_default();
            sentences.push(format!("A pass is at work: {holder}{since}."));
        }
        None if passes.trouble.is_none() || ended.is_some() => sentences.push("No pass is at work.".into()),
        None => {}
    }
    match (failed, ended) {
        (Some(failed), ended) => sentences.push(screen.paint(&failure(failed, &ended.unwrap_or_default()), Tone::Bad)),
        (None, Some(ended)) if passes.holder.is_none() => sentences.push(format!("The last one ended {ended}.")),
        (None, _) => {}
    }
    if let Some(trouble) = &passes.trouble {
        let ago = passes.times.ended.map(|ended| format!(", last renewed {}", distance(ended, now))).filter(|_| passes.holder.is_none());
        sentences.push(screen.paint(&format!("{}{}.", capital(trouble), ago.unwrap_or_default()), Tone::Doubtful));
    }
    if passes.overdue_since.is_some() {
        let every = short(passes.times.cadence);
        let question = format!("One should begin every {every}: does the CronJob run, and what do its Pods say?");
        sentences.push(screen.paint(&question, Tone::Bad));
    }
    sentences.join(" ")
}

fn failure(last: &LastPass, ended: &str) -> String {
    let on = if last.failed.is_empty() { String::new() } else { format!(" on {}", last.failed.join(", ")) };
    let why = if last.why.is_empty() { String::new() } else { format!(": {}", last.why) };
    format!("The last one failed{on} {ended} (exit code {}){why}; the log of its Pod says more.", last.exit_code)
}

/// The sentence that these words begin.
fn capital(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
