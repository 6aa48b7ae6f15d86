//! The forecast as a page: one file, no script, no network. Marks are links to the day's row of the table below them, so that
//! they are reached by keyboard and read aloud.

use std::collections::BTreeMap;

use askama::Template;
use chrono::{NaiveDate, TimeDelta};

use super::text;
use crate::{
    api::time::{Time, later},
    world::{
        history::Event,
        scenario::forecast::{Entry, Forecast, PoolForecast},
    },
};

/// So many events of a pool are listed; `-o json` has all of them.
const LISTED: usize = 2000;
/// From here on there is too little room to the right of a moment, in hundred-thousandths of the whole.
const LATE: i64 = 92_000;

#[derive(Template)]
#[template(path = "cli/simulate/page.html")]
struct Page {
    headline: String,
    verdict: String,
    zone: String,
    assumed: Vec<String>,
    remarks: Vec<String>,
    comparison: Vec<(&'static str, usize, usize)>,
    pools: Vec<Pool>,
}

struct Pool {
    id: usize,
    name: String,
    about: String,
    ticks: Vec<Band>,
    windows: Vec<Band>,
    blackouts: Vec<Band>,
    lanes: Vec<Lane>,
    chart: Chart,
    days: Vec<Day>,
    events: Vec<Line>,
    more: usize,
}

/// A stretch of the timeline, in hundredths of its width.
struct Band {
    left: String,
    width: String,
    label: String,
}

struct Lane {
    label: &'static str,
    marks: Vec<Mark>,
}

struct Mark {
    left: String,
    /// Near the end of the track it lies before its moment, else after.
    late: bool,
    kind: &'static str,
    count: usize,
    label: String,
    target: String,
}

struct Chart {
    line: String,
    limit: Option<String>,
    label: String,
}

struct Day {
    anchor: String,
    day: String,
    inside: String,
    outside: String,
    without: String,
}

struct Line {
    at: String,
    claim: String,
    event: &'static str,
    detail: String,
}

/// The page.
///
/// # Errors
/// What the template says.
pub fn page(forecast: &Forecast) -> Result<String, String> {
    let pools = forecast.pools.iter().enumerate().map(|(id, pool)| Pool::of(forecast, id, pool)).collect();
    let page = Page {
        headline: text::headline(forecast),
        verdict: text::verdict(forecast),
        zone: forecast.zone.to_string(),
        assumed: forecast.assumed.clone(),
        remarks: text::remarks(forecast),
        comparison: text::comparison(forecast),
        pools,
    };
    page.render().map_err(|error| error.to_string())
}

impl Pool {
    fn of(forecast: &Forecast, id: usize, pool: &PoolForecast) -> Self {
        let with: Vec<&Entry> = forecast.timeline.iter().filter(|entry| entry.pool == pool.name).collect();
        let without: Vec<&Entry> = forecast.timeline_without.iter().filter(|entry| entry.pool == pool.name).collect();
        let lane = |label, entries: &[&Entry], events: &[(Event, &'static str, &'static str)]| Lane {
            label,
            marks: events.iter().flat_map(|(event, kind, word)| marks(forecast, id, entries, *event, kind, word)).collect(),
        };
        let expired = [(Event::Expired, "expired", "expired by Karpenter")];
        let troubles = [
            (Event::Failed, "failed", "attempts failed"),
            (Event::WindowMissed, "failed", "windows missed"),
            (Event::Forced, "expired", "drains ended by force"),
        ];
        let lanes = vec![
            lane("Replaced", &with, &[(Event::Draining, "rotated", "replaced")]),
            lane("Failed", &with, &troubles),
            lane("Expired", &with, &expired),
            lane("Expired without noderotation", &without, &expired),
        ];
        let show = |time: Time| forecast.zone.local(time).format("%a %d %b %H:%M").to_string();
        let windows = pool.windows.iter().map(|span| band(forecast, span.opens_at, span.closes_at, show(span.opens_at)));
        let blackouts = pool.blackouts.iter().map(|closed| {
            let reason = if closed.reason.is_empty() { "blackout" } else { &closed.reason };
            band(forecast, closed.from, closed.until, format!("{reason}: {} to {}", show(closed.from), show(closed.until)))
        });
        let days = forecast.stretches(Some(&pool.name)).into_iter().map(|stretch| Day {
            anchor: anchor(id, stretch.day),
            day: text::day(forecast, &stretch),
            inside: stretch.inside.words(),
            outside: stretch.outside.words(),
            without: stretch.without.words(),
        });
        let events = with.iter().take(LISTED).map(|entry| Line {
            at: forecast.zone.local(entry.at).format("%a %Y-%m-%d %H:%M:%S").to_string(),
            claim: entry.claim.clone(),
            event: entry.event.as_str(),
            detail: entry.detail.clone(),
        });
        Self {
            id,
            name: pool.name.clone(),
            about: about(pool),
            ticks: ticks(forecast),
            windows: windows.collect(),
            blackouts: blackouts.collect(),
            lanes,
            chart: Chart::of(forecast, pool, &with),
            days: days.collect(),
            events: events.collect(),
            more: with.len().saturating_sub(LISTED),
        }
    }
}

fn about(pool: &PoolForecast) -> String {
    let policy = match &pool.policy {
        Some(policy) => format!("policy {policy}"),
        None if pool.conflict.is_empty() => "no policy".into(),
        None => format!("policies in conflict: {}", pool.conflict.join(", ")),
    };
    let nodes = text::counted(pool.nodes, "node", "nodes");
    let outcomes = pool.outcomes;
    format!(
        "{nodes}, {policy}. {} rotated, {} without a surge, {} attempts failed, {} expired, {} windows missed. Without noderotation {} expire.",
        outcomes.success, outcomes.fallback, outcomes.failure, pool.with.expired, pool.window_missed, pool.forced_without
    )
}

fn anchor(id: usize, day: NaiveDate) -> String {
    format!("pool-{id}-{day}")
}

/// One mark for each day (or week) on which something happens, where it first does.
fn marks(forecast: &Forecast, id: usize, entries: &[&Entry], event: Event, kind: &'static str, word: &str) -> Vec<Mark> {
    let mut days: BTreeMap<NaiveDate, (Time, usize)> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.event == event) {
        days.entry(forecast.day(entry.at)).or_insert((entry.at, 0)).1 += 1;
    }
    let week = if forecast.step() == 7 { "week of " } else { "" };
    let mark = |(day, (at, count)): (NaiveDate, (Time, usize))| Mark {
        left: hundredths(share(forecast, at)),
        late: share(forecast, at) > LATE,
        kind,
        count,
        label: format!("{week}{}: {count} {word}", day.format("%a %d %b %Y")),
        target: anchor(id, day),
    };
    days.into_iter().map(mark).collect()
}

/// A week's beginning each, or a month's where there are many.
fn ticks(forecast: &Forecast) -> Vec<Band> {
    let days = (forecast.to - forecast.from).num_days().max(1);
    let step = (days / 4).max(1);
    (0..days)
        .step_by(usize::try_from(step).unwrap_or(1))
        .map(|day| later(forecast.from, TimeDelta::days(day)))
        .filter(|at| share(forecast, *at) < LATE)
        .map(|at| band(forecast, at, at, forecast.zone.local(at).format("%d %b").to_string()))
        .collect()
}

fn band(forecast: &Forecast, from: Time, to: Time, label: String) -> Band {
    let (left, right) = (share(forecast, from), share(forecast, to));
    Band { left: hundredths(left), width: hundredths(right - left), label }
}

/// Where an instant lies, in hundred-thousandths of the whole.
fn share(forecast: &Forecast, at: Time) -> i64 {
    let whole = (forecast.to - forecast.from).num_seconds().max(1);
    let part = (at - forecast.from).num_seconds().clamp(0, whole);
    part.saturating_mul(100_000) / whole
}

fn hundredths(share: i64) -> String {
    format!("{}.{:03}", share / 1000, share % 1000)
}

impl Chart {
    /// The number of nodes over time, beside what `spec.limits` allow.
    fn of(forecast: &Forecast, pool: &PoolForecast, entries: &[&Entry]) -> Self {
        let most = i64::try_from(pool.with.most_nodes).unwrap_or(i64::MAX);
        let top = pool.node_limit.unwrap_or(most).max(most).max(1);
        let height = |count: i64| 38 - count.saturating_mul(36) / top;
        let mut count = i64::try_from(pool.nodes).unwrap_or(i64::MAX);
        let mut line = format!("M0 {}", height(count));
        for entry in entries {
            count += match entry.event {
                Event::Launched => 1,
                Event::Gone | Event::LaunchFailed => -1,
                _ => continue,
            };
            line.push_str(&format!("H{}V{}", share(forecast, entry.at) / 100, height(count)));
        }
        line.push_str("H1000");
        let limit = pool.node_limit.map(|limit| format!("spec.limits allow {limit}"));
        let label = format!(
            "Nodes: {} at first, {} at most; {}",
            pool.nodes,
            most,
            limit.as_deref().unwrap_or("spec.limits set no number of nodes")
        );
        Self { line, limit: pool.node_limit.map(|limit| format!("M0 {0}H1000", height(limit))), label }
    }
}
