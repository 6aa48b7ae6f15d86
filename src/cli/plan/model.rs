//! What `plan` tells, as data: the same View and the same decision as a pass's, in the shape that JSON has. Durations are in
//! Go's syntax, instants RFC 3339.

use std::collections::BTreeMap;

use serde::Serialize;

use super::forecast::{Forecast, forecast};
use crate::{
    api::{
        quantity::Resources,
        time::{Time, format_duration, to_annotation},
        zone::Zone,
    },
    candidates::{Bucket, Candidate},
    cli::{only::Only, when},
    policy::Policy,
    rotation::{
        decide::Decision,
        scene::Config,
        step::{Assessment, Planned, Step},
    },
    schedule::{blackout::Closure, findings::Level, window::Schedule},
    view::View,
};

/// What the next pass would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The server's time.
    pub now: String,
    /// Who holds the Lease, where somebody does.
    pub lease_holder: Option<String>,
    /// What the sweep writes first.
    pub sweep: Vec<Write>,
    /// Every NodePool, by name.
    pub pools: Vec<Pool>,
    /// Pools, and other objects, that can't be judged; why.
    pub errors: BTreeMap<String, String>,
}

/// One NodePool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The policy that governs it; in a conflict, the one whose fields what is in flight goes by.
    pub policy: Option<String>,
    /// The policies that tie.
    pub conflict: Vec<String>,
    /// The window.
    pub window: Option<Window>,
    /// What follows from the policy and the pool's template.
    pub derivation: Option<Derived>,
    /// Blackouts that are not over.
    pub blackouts: Vec<Blackout>,
    /// Why no rotation may start.
    pub gates: Vec<Gate>,
    /// Claims per bucket.
    pub census: BTreeMap<&'static str, usize>,
    /// Claims past their trigger that a start could take now or after their backoff.
    pub due: usize,
    /// Those that a start could take now, in order.
    pub candidates: Vec<Due>,
    /// The rotation in flight.
    pub in_flight: Option<InFlight>,
    /// The earliest deadline.
    pub next_deadline: Option<String>,
    /// What is wrong with the policy on this pool.
    pub findings: Vec<Finding>,
    /// Room under `spec.limits`, by resource.
    pub headroom: BTreeMap<String, Room>,
    /// The step that the next pass takes.
    pub step: NextStep,
    /// What the next three windows are expected to rotate.
    pub forecast: Vec<Forecast>,
    /// Instants for rendering.
    #[serde(skip)]
    pub times: Times,
}

/// Instants that tables render in two zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// When the open window closes.
    pub closes: Option<Time>,
    /// When the next one opens.
    pub opens: Option<Time>,
    /// The earliest deadline.
    pub deadline: Option<Time>,
    /// The zone of the policy's first window.
    pub zone: Option<Zone>,
}

/// The maintenance window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Whether it is open now.
    pub open: bool,
    /// When it closes, where it is open.
    pub closes_at: Option<String>,
    /// When the next one opens.
    pub next_opens_at: Option<String>,
    /// The zones of the policy's windows.
    pub timezones: Vec<String>,
}

/// The derivation (docs/policies.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Derived {
    /// `E`; `None` for `Never`.
    pub expire_after: Option<String>,
    /// `P`.
    pub period: Option<String>,
    /// `t_rot`.
    pub t_rot: String,
    /// `t_rot_est`.
    pub t_rot_estimate: String,
    /// `K`.
    pub min_rotation_chances: i64,
    /// `leadTime`.
    pub lead_time: Option<String>,
    /// `A`.
    pub age_threshold: Option<String>,
    /// `G`.
    pub chances: Option<i64>,
    /// `C`.
    pub capacity: i64,
    /// `N`.
    pub nodes: usize,
}

/// A time in which nothing starts, whatever the windows say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blackout {
    /// Its first instant.
    pub from: String,
    /// The first instant after it.
    pub until: String,
    /// Why.
    pub reason: String,
    /// For rendering.
    #[serde(skip)]
    pub times: [Time; 2],
}

/// A closed gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// Its code.
    pub code: &'static str,
    /// Why.
    pub detail: String,
    /// When it opens by itself.
    pub until: Option<String>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Due {
    /// The claim.
    pub claim: String,
    /// Its Node.
    pub node: String,
    /// Its age.
    pub age: String,
    /// When it was triggered.
    pub triggered_at: Option<String>,
    /// When Karpenter expires it.
    pub deadline: Option<String>,
    /// Whether the operator asked for it.
    pub asked_for: bool,
}

/// The rotation in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The old claim.
    pub claim: String,
    /// Its Node.
    pub node: Option<String>,
    /// `pending`, `draining`, `failed`, `expired`, or `none` right after the anchor.
    pub state: &'static str,
    /// Since when.
    pub since: Option<String>,
    /// What it waits for.
    pub waiting_for: String,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name.
    pub code: &'static str,
    /// `warning` or `fatal`.
    pub level: &'static str,
    /// With the numbers, and what to change.
    pub message: String,
}

/// Room for one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Room {
    /// `spec.limits`.
    pub limit: String,
    /// `status.resources`.
    pub used: String,
    /// The difference.
    pub remaining: String,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    /// In a word: `start`, `gated`, `idle`, `await-surge`, `drain`, `await-drain`, …
    pub action: &'static str,
    /// In a sentence.
    pub detail: String,
    /// The writes, in order.
    pub effects: Vec<Write>,
    /// Nothing changes before, unless the cluster does.
    pub wake_at: Option<String>,
    /// Why the pool would count as failed.
    pub error: Option<String>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// What is done, on what.
    pub what: String,
    /// What must hold for it.
    pub only_if: String,
}

impl Plan {
    /// From what a pass would see and do.
    pub fn of(view: &View, decision: &Decision, now: Time, config: &Config, only: Only<'_>) -> Self {
        let is_meant = |name: &String| only.takes(view, name);
        let pools = decision.steps.iter().filter(|(name, _)| is_meant(name));
        let mut errors: BTreeMap<String, String> =
            decision.errors.iter().filter(|(name, _)| is_meant(name)).map(|(name, why)| (name.clone(), why.clone())).collect();
        for broken in view.unreadable.iter().filter(|broken| broken.kind != "NodePool" && !matches!(only, Only::Pool(_))) {
            errors.insert(format!("{} {}", broken.kind, broken.name), broken.why.clone());
        }
        Self {
            now: to_annotation(now),
            lease_holder: None,
            sweep: decision.sweep.iter().map(write).collect(),
            pools: pools.map(|(name, step)| of_pool(view, name, step, now, config)).collect(),
            errors,
        }
    }
}

fn of_pool(view: &View, name: &str, step: &Step, now: Time, config: &Config) -> Pool {
    let seen = &step.assessment;
    let policy = seen.policy.as_ref().and_then(|policy| view.policies.get(policy));
    let bucket = |bucket| seen.census.get(&bucket).copied().unwrap_or(0);
    let in_flight = seen.in_flight.as_ref().map(|flight| InFlight {
        claim: flight.claim.clone(),
        node: flight.node.clone(),
        state: if flight.state.as_str().is_empty() { "none" } else { flight.state.as_str() },
        since: when::json(flight.since),
        waiting_for: flight.waiting_for.clone(),
    });
    Pool {
        name: name.into(),
        policy: seen.policy.clone(),
        conflict: seen.conflict.clone(),
        window: policy.map(|policy| window(seen, policy)),
        derivation: policy.and_then(|policy| derived(seen, policy)),
        blackouts: policy.map(|policy| blackouts(policy, now)).unwrap_or_default(),
        gates: seen.gates.iter().map(|gate| Gate { code: gate.code, detail: gate.detail.clone(), until: when::json(gate.until) }).collect(),
        census: seen.census.iter().map(|(bucket, count)| (bucket.as_str(), *count)).collect(),
        due: bucket(Bucket::Eligible) + bucket(Bucket::InBackoff),
        candidates: seen.candidates.iter().map(|candidate| due(candidate, now)).collect(),
        in_flight,
        next_deadline: when::json(seen.next_deadline),
        findings: seen.findings.iter().map(|found| finding(found)).collect(),
        headroom: headroom(view, name),
        step: next(step),
        forecast: policy.map(|policy| forecast(view, seen, policy, now, config)).unwrap_or_default(),
        times: Times {
            closes: seen.window.map(|window| window.end),
            opens: seen.next_window,
            deadline: seen.next_deadline,
            zone: policy.and_then(|policy| policy.settings.windows.first()).map(|window| window.timezone),
        },
    }
}

fn window(seen: &Assessment, policy: &Policy) -> Window {
    let mut timezones: Vec<String> = policy.settings.windows.iter().map(|window| window.timezone.to_string()).collect();
    timezones.sort();
    timezones.dedup();
    Window {
        open: seen.window.is_some(),
        closes_at: when::json(seen.window.map(|window| window.end)),
        next_opens_at: when::json(seen.next_window),
        timezones,
    }
}

fn blackouts(policy: &Policy, now: Time) -> Vec<Blackout> {
    let schedule = Schedule::under(&policy.settings, now);
    let blackout = |closure: &Closure| Blackout {
        from: to_annotation(closure.start),
        until: to_annotation(closure.end),
        reason: closure.reason.clone(),
        times: [closure.start, closure.end],
    };
    schedule.blackouts.ahead(now).map(blackout).collect()
}

fn derived(seen: &Assessment, policy: &Policy) -> Option<Derived> {
    let derivation = seen.derivation.as_ref()?;
    Some(Derived {
        expire_after: derivation.expire_after.map(format_duration),
        period: derivation.period.map(format_duration),
        t_rot: format_duration(derivation.t_rot),
        t_rot_estimate: format_duration(derivation.t_rot_est),
        min_rotation_chances: policy.settings.min_rotation_chances,
        lead_time: derivation.lead_time.map(format_duration),
        age_threshold: derivation.age_threshold.map(format_duration),
        chances: derivation.chances,
        capacity: derivation.capacity,
        nodes: seen.census.values().sum(),
    })
}

fn due(candidate: &Candidate, now: Time) -> Due {
    Due {
        claim: candidate.claim.clone(),
        node: candidate.node.clone(),
        age: format_duration(now - candidate.created),
        triggered_at: when::json(candidate.triggered_at),
        deadline: when::json(candidate.deadline),
        asked_for: candidate.asked_for,
    }
}

fn finding(finding: &crate::schedule::findings::Finding) -> Finding {
    let level = if finding.code.level() == Level::Fatal { "fatal" } else { "warning" };
    Finding { code: finding.code.name(), level, message: finding.message.clone() }
}

fn next(step: &Step) -> NextStep {
    NextStep {
        action: step.action.code,
        detail: step.action.detail.clone(),
        effects: step.aside.iter().chain(&step.effects).map(write).collect(),
        wake_at: when::json(step.wake_at),
        error: step.error.clone(),
    }
}

fn write(planned: &Planned) -> Write {
    Write { what: planned.effect.to_string(), only_if: planned.effect.condition() }
}

/// Limits and what is used of them; a resource that can't be read is left to the step, which fails on it.
fn headroom(view: &View, name: &str) -> BTreeMap<String, Room> {
    let Some(pool) = view.pools.get(name) else { return BTreeMap::new() };
    let Some(Ok(limits)) = pool.spec.limits.as_ref().map(Resources::from_raw) else { return BTreeMap::new() };
    let Ok(used) = Resources::from_raw(&pool.status.resources) else { return BTreeMap::new() };
    limits
        .0
        .into_iter()
        .map(|(resource, limit)| {
            let used = used.get(&resource);
            let text = |quantity: crate::api::quantity::Quantity| quantity.canonical(&resource);
            let room = Room { limit: text(limit), used: text(used), remaining: text(limit.saturating_sub(used)) };
            (resource.clone(), room)
        })
        .collect()
}
