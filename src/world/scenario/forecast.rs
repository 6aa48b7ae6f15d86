//! The answer to a [`Scenario`]: what becomes of each pool with noderotation and without. Its serialized form is what
//! `simulate -o json` prints; `docs/commands.md` describes it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Down, Played, Pool, Rule, Scenario};
use crate::{
    api::{time::Time, zone::Zone},
    policy::{Policy, resolve::Governance},
    schedule::{
        derive::{Derivation, Lifetime},
        findings::{Level, findings},
        window::Occurrence,
    },
    world::history::{Event, Happening},
};

/// What becomes of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The seed: the same program and the same question give the same answer, byte for byte.
    pub seed: u64,
    /// The beginning.
    pub from: Time,
    /// The end.
    pub to: Time,
    /// What had to be assumed, as sentences.
    pub assumed: Vec<String>,
    /// Every pool, by name.
    pub pools: Vec<PoolForecast>,
    /// What happens with noderotation, in order.
    pub timeline: Vec<Entry>,
    /// What happens without it.
    pub timeline_without: Vec<Entry>,
    /// The zone that people read it in: that of the first window.
    #[serde(skip)]
    pub zone: Zone,
}

/// What becomes of one pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolForecast {
    /// Its name.
    pub name: String,
    /// The policy that governs it; `None` where none does, or several tie.
    pub policy: Option<String>,
    /// The policies that tie: nothing is rotated then.
    pub conflict: Vec<String>,
    /// Its nodes at the beginning.
    pub nodes: usize,
    /// What passes counted.
    pub outcomes: Outcomes,
    /// Windows that closed with work left over, though nothing had been rotated in them.
    pub window_missed: u64,
    /// Nodes that Karpenter expires without noderotation.
    pub forced_without: usize,
    /// What becomes of its nodes with noderotation.
    pub with: Fate,
    /// What becomes of them without.
    pub without: Fate,
    /// When starts are allowed, without what blackouts take.
    pub windows: Vec<Span>,
    /// When blackouts forbid them.
    pub blackouts: Vec<Closed>,
    /// What is wrong with the policy on this pool.
    pub findings: Vec<Told>,
    /// Conditions that passes met, such as too little headroom.
    pub conditions: Vec<Condition>,
    /// The most nodes that `spec.limits` allow, where they limit `nodes`.
    pub node_limit: Option<i64>,
}

/// What passes counted, as in the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Rotations that ended as they should.
    pub success: u64,
    /// Attempts that were rolled back.
    pub failure: u64,
    /// Rotations whose node was expired or deleted by somebody else first.
    pub expired: u64,
    /// Nodes that were replaced without a surge.
    pub fallback: u64,
}

/// How nodes end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fate {
    /// Nodes that ended, but for those that Karpenter removed since they were empty.
    pub ended: usize,
    /// Of those, how many began to drain inside a window.
    pub in_window: usize,
    /// How many at another time.
    pub elsewhere: usize,
    /// How many Karpenter expired.
    pub expired: usize,
    /// Of the expired, how many before the first window opened: nothing can be done for them.
    pub expired_before_first_window: usize,
    /// Nodes whose last Pods were ended by force, at the end of terminationGracePeriod.
    pub forced: usize,
    /// Nodes that Karpenter removed since they were empty: nobody notices.
    pub removed_empty: usize,
    /// The most Pods at once that were wanted and not Ready before the first window opened.
    pub pods_down_before: u32,
    /// The same outside of windows, once the first had opened.
    pub pods_down_outside: u32,
    /// The same inside.
    pub pods_down_inside: u32,
    /// The most nodes at once.
    pub most_nodes: usize,
}

/// A time: `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The first instant inside.
    pub opens_at: Time,
    /// The first instant after.
    pub closes_at: Time,
}

/// A blackout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Closed {
    /// The first instant inside.
    pub from: Time,
    /// The first instant after.
    pub until: Time,
    /// Why; may be empty.
    pub reason: String,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its name.
    pub code: &'static str,
    /// `fatal` or `warning`.
    pub level: &'static str,
    /// With the numbers, and what to change.
    pub message: String,
}

/// A condition that passes met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// The reason of its Event.
    pub reason: &'static str,
    /// When it was first met.
    pub first: Time,
    /// With the numbers of then.
    pub message: String,
}

/// A line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// In which pool.
    pub pool: String,
    /// To which NodeClaim; empty where it is the pool's own.
    pub claim: String,
    /// What.
    pub event: Event,
    /// For people; may be empty.
    pub detail: String,
}

impl Forecast {
    /// Brings the pools together.
    pub fn of(scenario: &Scenario, pools: Vec<(PoolForecast, Vec<Happening>, Vec<Happening>)>) -> Self {
        let (mut forecasts, mut timeline, mut timeline_without) = (Vec::new(), Vec::new(), Vec::new());
        for (pool, with, without) in pools {
            forecasts.push(pool);
            timeline.extend(with.into_iter().map(Entry::from));
            timeline_without.extend(without.into_iter().map(Entry::from));
        }
        // Stable: pools stay in their order, and what happens at one instant in its own.
        timeline.sort_by_key(|entry| entry.at);
        timeline_without.sort_by_key(|entry| entry.at);
        Self {
            seed: scenario.seed,
            from: scenario.from,
            to: scenario.until,
            assumed: scenario.assumed.clone(),
            pools: forecasts,
            timeline,
            timeline_without,
            zone: scenario.zone(),
        }
    }

    /// The sum of something over all pools.
    pub fn sum(&self, of: impl Fn(&PoolForecast) -> usize) -> usize {
        self.pools.iter().map(of).sum()
    }

    /// The most of something in any pool.
    pub fn most(&self, of: impl Fn(&PoolForecast) -> u32) -> u32 {
        self.pools.iter().map(of).max().unwrap_or_default()
    }
}

impl PoolForecast {
    /// Sums up a pool's two histories, which come back with it.
    pub fn of(scenario: &Scenario, pool: &Pool, rule: &Rule<'_>, with: Played, without: Played) -> (Self, Vec<Happening>, Vec<Happening>) {
        let nodes = pool.spec.nodes.len();
        let fate = |played: &Played| Fate::of(&played.history, &rule.open, scenario.from, nodes, played.down);
        let without_fate = fate(&without);
        let totals = &with.totals;
        let conflict = match &rule.governance {
            Governance::Conflict(tied) => tied.iter().map(|policy| policy.name.clone()).collect(),
            Governance::Ungoverned | Governance::Policy(_) => Vec::new(),
        };
        let limit = pool.spec.pool.spec.limits.as_ref().and_then(|limits| limits.get("nodes"));
        let conditions = with.said.iter().map(|(reason, said)| Condition { reason, first: said.first, message: said.words.clone() });
        let forecast = Self {
            name: pool.spec.pool.metadata.name.clone(),
            policy: rule.policy().map(|policy| policy.name.clone()),
            conflict,
            nodes,
            outcomes: Outcomes { success: totals.success, failure: totals.failure, expired: totals.expired, fallback: totals.fallback },
            window_missed: totals.window_missed,
            forced_without: without_fate.expired,
            with: fate(&with),
            without: without_fate,
            windows: rule.open.iter().map(|open| Span { opens_at: open.start, closes_at: open.end }).collect(),
            blackouts: rule.blackouts(scenario.from, scenario.until),
            findings: rule.findings(scenario, pool),
            conditions: conditions.collect(),
            node_limit: limit.and_then(|limit| crate::api::quantity::Quantity::parse_value(limit).ok()).map(|limit| limit.value()),
        };
        (forecast, with.history, without.history)
    }
}

impl Rule<'_> {
    /// The policy, where one governs.
    pub fn policy(&self) -> Option<&Policy> {
        match &self.governance {
            Governance::Policy(policy) => Some(policy),
            Governance::Ungoverned | Governance::Conflict(_) => None,
        }
    }

    fn blackouts(&self, from: Time, until: Time) -> Vec<Closed> {
        let closures = self.schedule.into_iter().flat_map(|schedule| schedule.blackouts.ahead(from));
        let closures = closures.filter(|closure| closure.start < until);
        closures.map(|closure| Closed { from: closure.start, until: closure.end, reason: closure.reason.clone() }).collect()
    }

    fn findings(&self, scenario: &Scenario, pool: &Pool) -> Vec<Told> {
        let (Some(policy), Some(schedule)) = (self.policy(), self.schedule) else { return Vec::new() };
        let object = &pool.spec.pool;
        let template = &object.spec.template.spec;
        let lifetime = Lifetime { expire_after: template.expire_after(), grace: template.grace() };
        let derivation = Derivation::of(&policy.settings, schedule, lifetime, scenario.config.cadence);
        let found = findings(policy, schedule, object, pool.spec.nodes.len(), &derivation);
        let level = |level| if level == Level::Fatal { "fatal" } else { "warning" };
        found
            .into_iter()
            .map(|finding| Told { code: finding.code.name(), level: level(finding.code.level()), message: finding.message })
            .collect()
    }
}

impl Fate {
    fn of(history: &[Happening], open: &[Occurrence], from: Time, nodes: usize, down: Down) -> Self {
        let mut fate = Self {
            pods_down_before: down.before,
            pods_down_outside: down.outside,
            pods_down_inside: down.inside,
            most_nodes: nodes,
            ..Self::default()
        };
        let first = open.first().map(|first| first.start).filter(|first| *first > from);
        let mut count = nodes;
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for happening in history {
            match happening.event {
                Event::Launched => {
                    count += 1;
                    fate.most_nodes = fate.most_nodes.max(count);
                }
                Event::Gone | Event::LaunchFailed => count = count.saturating_sub(1),
                Event::Consolidated => fate.removed_empty += 1,
                Event::Forced => fate.forced += 1,
                Event::Draining | Event::Expired | Event::Deleted if known.insert(&happening.claim) => {
                    fate.ended += 1;
                    if is_open(open, happening.at) {
                        fate.in_window += 1
                    } else {
                        fate.elsewhere += 1
                    }
                    if happening.event == Event::Expired {
                        fate.expired += 1;
                        fate.expired_before_first_window += usize::from(first.is_some_and(|first| happening.at < first));
                    }
                }
                _ => {}
            }
        }
        fate
    }
}

/// Whether an instant lies in one of these, which are in order.
pub fn is_open(open: &[Occurrence], at: Time) -> bool {
    let after = open.partition_point(|occurrence| occurrence.start <= at);
    after > 0 && at < open[after - 1].end
}

impl From<Happening> for Entry {
    fn from(happening: Happening) -> Self {
        let Happening { at, pool, claim, event, detail } = happening;
        Self { at, pool, claim, event, detail }
    }
}

impl Scenario {
    /// The zone of the first window of the first policy; UTC where there is none.
    pub fn zone(&self) -> Zone {
        self.policies.values().find_map(|policy| policy.settings.windows.first()).map_or(Zone::UTC, |window| window.timezone)
    }
}
