//! The forecast as text: what was asked, the timeline, the pools, and the sums last.

use std::fmt::Write;

use crate::{
    cli::screen::{Screen, Styled, Tone},
    world::scenario::{
        forecast::{Fate, Forecast, PoolForecast},
        sum::Stretch,
    },
};

/// Tells it all; with `every`, each event of the timeline.
pub fn text(forecast: &Forecast, every: bool, screen: Screen) -> String {
    let mut text = format!("{}\n", screen.paint(&headline(forecast), Tone::Strong));
    for line in &forecast.assumed {
        // Writing into a String has no way to fail.
        let _ = writeln!(text, "{}", screen.wrap(&format!("- {line}"), 2));
    }
    let timeline = if every { events(forecast, screen) } else { days(forecast, screen) };
    let _ = write!(text, "\n{timeline}\n{}", pools(forecast, screen));
    for line in remarks(forecast) {
        let _ = writeln!(text, "\n{}", screen.wrap(&line, 2));
    }
    let _ = write!(text, "\n{}\n{}\n", sums(forecast, screen), screen.wrap(&verdict(forecast), 0));
    text
}

/// What was asked.
pub fn headline(forecast: &Forecast) -> String {
    let day = |time: chrono::DateTime<chrono::Utc>| time.format("%Y-%m-%d %H:%M").to_string();
    let (nodes, pools) = (forecast.sum(|pool| pool.nodes), forecast.pools.len());
    format!(
        "{} in {}, {} from {} UTC (seed {}). A simulation: nothing is touched.",
        counted(nodes, "node", "nodes"),
        counted(pools, "NodePool", "NodePools"),
        counted(usize::try_from((forecast.to - forecast.from).num_days()).unwrap_or_default(), "day", "days"),
        day(forecast.from),
        forecast.seed
    )
}

/// `1 node`, `2 nodes`.
pub fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// A day, or the first of a week.
pub fn day(forecast: &Forecast, stretch: &Stretch) -> String {
    let week = if forecast.step() == 7 { "week of " } else { "" };
    format!("{week}{}", stretch.day.format("%a %d %b %Y"))
}

fn days(forecast: &Forecast, screen: Screen) -> String {
    let row = |stretch: &Stretch| {
        let bad = if stretch.outside.is_empty() { Tone::Plain } else { Tone::Doubtful };
        vec![
            Styled(day(forecast, stretch), Tone::Strong),
            Styled(stretch.inside.words(), Tone::Good),
            Styled(stretch.outside.words(), bad),
            Styled(stretch.without.words(), Tone::Bad),
        ]
    };
    let rows: Vec<Vec<Styled>> = forecast.stretches(None).iter().map(row).collect();
    if rows.is_empty() {
        return "No node ends in this time.\n".into();
    }
    let zone = format!("DAY ({})", forecast.zone);
    screen.table(&[&zone, "WITH, IN WINDOWS", "WITH, AT OTHER HOURS", "WITHOUT NODEROTATION"], rows)
}

fn events(forecast: &Forecast, screen: Screen) -> String {
    let rows = forecast.timeline.iter().map(|entry| {
        vec![
            Styled::plain(forecast.zone.local(entry.at).format("%a %Y-%m-%d %H:%M:%S").to_string()),
            Styled::plain(entry.pool.clone()),
            Styled::plain(if entry.claim.is_empty() { "-".into() } else { entry.claim.clone() }),
            Styled::plain(entry.event.as_str()),
            Styled(entry.detail.clone(), Tone::Faint),
        ]
    });
    screen.table(&[&format!("AT ({})", forecast.zone), "POOL", "NODECLAIM", "EVENT", "DETAIL"], rows.collect())
}

fn pools(forecast: &Forecast, screen: Screen) -> String {
    let headers = ["POOL", "NODES", "POLICY", "ROTATED", "FALLBACK", "FAILED", "EXPIRED", "MISSED WINDOWS", "EXPIRED WITHOUT"];
    let row = |pool: &PoolForecast| {
        let bad = |count: u64, tone| Styled(count.to_string(), if count > 0 { tone } else { Tone::Plain });
        vec![
            Styled(pool.name.clone(), Tone::Strong),
            Styled::plain(pool.nodes.to_string()),
            governed(pool),
            Styled::plain(pool.outcomes.success.to_string()),
            Styled::plain(pool.outcomes.fallback.to_string()),
            bad(pool.outcomes.failure, Tone::Doubtful),
            bad(pool.with.expired as u64, Tone::Bad),
            bad(pool.window_missed, Tone::Bad),
            bad(pool.forced_without as u64, Tone::Bad),
        ]
    };
    screen.table(&headers, forecast.pools.iter().map(row).collect())
}

fn governed(pool: &PoolForecast) -> Styled {
    match &pool.policy {
        Some(policy) => Styled::plain(policy.clone()),
        None if pool.conflict.is_empty() => Styled("none".into(), Tone::Bad),
        None => Styled("conflict".into(), Tone::Bad),
    }
}

/// What is worth a sentence: pools without a policy, findings, conditions.
pub fn remarks(forecast: &Forecast) -> Vec<String> {
    let mut remarks = Vec::new();
    for pool in &forecast.pools {
        let name = &pool.name;
        if pool.policy.is_none() {
            remarks.push(if pool.conflict.is_empty() {
                format!("{name}: no policy selects this NodePool, so it is not rotated and fares as it does without noderotation.")
            } else {
                let tied = pool.conflict.join(", ");
                format!("{name}: the policies {tied} match equally well, so nothing is rotated. Give one of them another constraint.")
            });
        }
        remarks.extend(pool.findings.iter().map(|finding| format!("{name}: {} {}: {}", finding.level, finding.code, finding.message)));
        let is_finding = |reason: &str| pool.findings.iter().any(|finding| finding.code == reason) || reason == "PolicyConflict";
        let conditions = pool.conditions.iter().filter(|condition| !is_finding(condition.reason));
        remarks.extend(conditions.map(|condition| {
            let first = forecast.zone.local(condition.first).format("%a %Y-%m-%d %H:%M");
            format!("{name}: {}, first at {first}: {}", condition.reason, condition.message)
        }));
    }
    remarks
}

/// Without and with, side by side: what is counted, and both numbers.
pub fn comparison(forecast: &Forecast) -> Vec<(&'static str, usize, usize)> {
    let sum = |of: fn(&Fate) -> usize| (forecast.sum(|pool| of(&pool.without)), forecast.sum(|pool| of(&pool.with)));
    let most = |of: fn(&Fate) -> u32| {
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        (number(forecast.most(|pool| of(&pool.without))), number(forecast.most(|pool| of(&pool.with))))
    };
    let rows = [
        ("Nodes drained", sum(|fate| fate.ended)),
        ("  inside windows", sum(|fate| fate.in_window)),
        ("  at other hours", sum(|fate| fate.elsewhere)),
        ("Nodes that Karpenter expired", sum(|fate| fate.expired)),
        ("Drains ended by force", sum(|fate| fate.forced)),
        ("Most Pods of a pool down at once, inside windows", most(|fate| fate.pods_down_inside)),
        ("  outside, once the first window has opened", most(|fate| fate.pods_down_outside)),
    ];
    rows.into_iter().map(|(what, (without, with))| (what, without, with)).collect()
}

fn sums(forecast: &Forecast, screen: Screen) -> String {
    let rows = comparison(forecast).into_iter().map(|(what, without, with)| {
        vec![Styled::plain(what), Styled::plain(format!("{without:>7}")), Styled::plain(format!("{with:>4}"))]
    });
    screen.table(&["", "WITHOUT", "WITH NODEROTATION"], rows.collect())
}

/// The answer in two sentences.
pub fn verdict(forecast: &Forecast) -> String {
    let (expired, elsewhere) = (forecast.sum(|pool| pool.without.expired), forecast.sum(|pool| pool.without.elsewhere));
    let (inside, left) = (forecast.sum(|pool| pool.with.in_window), forecast.sum(|pool| pool.with.expired));
    let early = forecast.sum(|pool| pool.with.expired_before_first_window);
    let without = match expired {
        0 => "Without noderotation, no node expires in this time.".to_owned(),
        _ => {
            let outside = match elsewhere {
                all if all == expired && all > 1 => "all of them ".to_owned(),
                all if all == expired => String::new(),
                some => format!("{some} of them "),
            };
            format!("Without noderotation, Karpenter expires {}, {outside}outside the windows.", counted(expired, "node", "nodes"))
        }
    };
    let rest = match (left, early) {
        (0, _) if expired == 0 => "and none expires either".to_owned(),
        (0, _) => "and none expires".to_owned(),
        (left, early) if left == early => {
            format!("and {} before the first window opens, too early for it", counted(left, "expires", "expire"))
        }
        (left, 0) => format!("and {} nevertheless", counted(left, "expires", "expire")),
        (left, early) => format!("and {} nevertheless, {early} of them before the first window opens", counted(left, "expires", "expire")),
    };
    format!("{without} With it, {} drained inside windows, {rest}.", counted(inside, "node is", "nodes are"))
}
