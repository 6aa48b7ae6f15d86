//! What `status` tells, as data, in the shape that JSON has.

use chrono::TimeDelta;
use serde::Serialize;

use crate::{
    api::{
        karpenter::NodeClaim,
        keys,
        time::{Time, later, to_annotation},
    },
    candidates::Rules,
    cli::{only::Only, when},
    kube::lease::{LastPass, Record},
    policy::Policy,
    rotation::{decide::Decision, effect::retry_count, scene::Config, state::State, step::Step, totals::Totals},
    schedule::window::Schedule,
    view::View,
};

/// After so many cadences without a pass something is wrong: one that is skipped or hangs is soon made up for.
const MISSED: i32 = 3;

/// The state of affairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The server's time.
    pub now: String,
    /// The passes, as far as their Lease tells.
    pub passes: Passes,
    /// Rotations in flight, by pool.
    pub in_flight: Vec<Flight>,
    /// Claims whose last attempt failed, or that were deleted by somebody else first.
    pub failed: Vec<Failed>,
    /// What came of earlier rotations, by governed pool.
    pub outcomes: Vec<Outcomes>,
}

/// What the Lease says of passes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Passes {
    /// Who holds it now.
    pub holder: Option<String>,
    /// Since when.
    pub since: Option<String>,
    /// When it was last given back: the end of the last pass or command that wrote.
    pub released_at: Option<String>,
    /// How the last pass ended that gave it back.
    pub last: Option<LastPass>,
    /// What is wrong with it, or why it can't be read.
    pub trouble: Option<String>,
    /// When it should have been given back again, by a pass that has not come.
    pub overdue_since: Option<String>,
    /// For rendering.
    #[serde(skip)]
    pub times: PassTimes,
}

/// The same as instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassTimes {
    /// The last sign of life that is no longer one.
    pub ended: Option<Time>,
    /// The time between passes.
    pub cadence: TimeDelta,
}

/// A rotation in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Flight {
    /// The pool.
    pub pool: String,
    /// The old claim.
    pub claim: String,
    /// Its Node.
    pub node: Option<String>,
    /// `pending`, `draining`, …
    pub state: &'static str,
    /// Since when.
    pub since: Option<String>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// What the next pass does: `await-surge`, `drain`, `await-drain`, `rollback`, …
    pub next: &'static str,
    /// What it waits for.
    pub waiting_for: String,
    /// While pending: when the attempt is rolled back. While draining: when Karpenter forces it.
    pub until: Option<String>,
    /// When Karpenter expires the claim.
    pub deadline: Option<String>,
    /// Whether the drain is over its estimate.
    pub blocked: bool,
    /// Whether it is over its bound.
    pub stuck: bool,
    /// For rendering.
    #[serde(skip)]
    pub times: [Option<Time>; 3],
}

/// A claim whose rotation did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The pool.
    pub pool: String,
    /// The claim.
    pub claim: String,
    /// `failed` or `expired`.
    pub state: &'static str,
    /// Failed attempts so far.
    pub attempts: u32,
    /// When the last one failed.
    pub failed_at: Option<String>,
    /// When it may be tried again; `None`: now, or never.
    pub backoff_until: Option<String>,
    /// When Karpenter expires it.
    pub deadline: Option<String>,
    /// For rendering.
    #[serde(skip)]
    pub times: [Option<Time>; 3],
}

/// A pool's totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcomes {
    /// The pool.
    pub pool: String,
    /// Rotations that ended as they should.
    pub success: u64,
    /// Attempts that ran into `readyTimeout`.
    pub failure: u64,
    /// Claims that somebody else deleted first.
    pub expired: u64,
    /// Rotations without a surge.
    pub fallback: u64,
    /// Windows missed.
    pub window_missed: u64,
    /// The last success.
    pub last_rotation_at: Option<String>,
    /// The last failure.
    pub last_failure_at: Option<String>,
    /// For rendering.
    #[serde(skip)]
    pub times: [Option<Time>; 2],
}

impl Status {
    /// From what a pass would see and decide.
    pub fn of(view: &View, decision: &Decision, lease: Result<Option<Record>, String>, now: Time, config: &Config, only: Only<'_>) -> Self {
        let steps: Vec<(&String, &Step)> = decision.steps.iter().filter(|(name, _)| only.takes(view, name)).collect();
        let in_flight = steps.iter().filter_map(|(name, step)| flight(view, name, step, now)).collect();
        let mut failed = Vec::new();
        let mut outcomes = Vec::new();
        for (name, step) in &steps {
            let policy = step.assessment.policy.as_ref().and_then(|policy| view.policies.get(policy));
            let anchored = step.assessment.in_flight.as_ref().map(|flight| flight.claim.as_str());
            let claims = view.claims_of(name).filter(|claim| anchored != Some(claim.metadata.name.as_str()));
            failed.extend(claims.filter_map(|claim| unsuccessful(name, claim, policy, now, config)));
            if step.assessment.governed {
                outcomes.push(outcome(view, name, &step.assessment.totals));
            }
        }
        Self { now: to_annotation(now), passes: Passes::of(lease, now, config.cadence), in_flight, failed, outcomes }
    }
}

impl Passes {
    fn of(lease: Result<Option<Record>, String>, now: Time, cadence: TimeDelta) -> Self {
        let times = PassTimes { ended: None, cadence };
        let record = match lease {
            Err(why) => return Self { trouble: Some(format!("whether passes run is not known: {why}")), times, ..Self::default() },
            Ok(None) => {
                let trouble = "there is no Lease: no pass has ever run here, or passes have another namespace (-n)".to_owned();
                return Self { trouble: Some(trouble), times, ..Self::default() };
            }
            Ok(Some(record)) => record,
        };
        let (held, last) = (record.held(now), record.last);
        if let Some(held) = held {
            return Self { holder: Some(held.by), since: when::json(held.since), last, trouble: held.oddity, times, ..Self::default() };
        }
        let renewed = record.renewed.ok().flatten();
        let overdue = renewed.map(|renewed| later(renewed, cadence * MISSED)).filter(|overdue| *overdue < now);
        let killed = (!record.holder.is_empty()).then(|| format!("the pass {} was ended without giving the Lease back", record.holder));
        Self {
            released_at: when::json(renewed.filter(|_| killed.is_none())),
            last: last.filter(|_| killed.is_none()),
            trouble: killed,
            overdue_since: when::json(overdue),
            times: PassTimes { ended: renewed, cadence },
            ..Self::default()
        }
    }
}

fn flight(view: &View, pool: &str, step: &Step, now: Time) -> Option<Flight> {
    let flight = step.assessment.in_flight.as_ref()?;
    let claim = view.claims.get(&flight.claim);
    let settings = step.assessment.policy.as_ref().and_then(|policy| view.policies.get(policy)).map(|policy| &policy.settings);
    let until = match flight.state {
        State::None | State::Pending => flight.since.zip(settings).map(|(since, settings)| later(since.min(now), settings.ready_timeout)),
        State::Draining => claim.and_then(|claim| Some(later(claim.metadata.deletion_timestamp?, claim.spec.grace()?))),
        State::Failed | State::Expired => None,
    };
    let deadline = claim.and_then(|claim| claim.deadline());
    Some(Flight {
        pool: pool.into(),
        claim: flight.claim.clone(),
        node: flight.node.clone(),
        state: if flight.state == State::None { "none" } else { flight.state.as_str() },
        since: when::json(flight.since),
        attempt: claim.map_or(0, |claim| retry_count(&claim.metadata)).saturating_add(1),
        next: step.action.code,
        waiting_for: if flight.waiting_for.is_empty() {
            format!("the next pass: {}", step.action.detail)
        } else {
            flight.waiting_for.clone()
        },
        until: when::json(until),
        deadline: when::json(deadline),
        blocked: step.assessment.drain_blocked,
        stuck: step.assessment.drain_stuck,
        times: [flight.since, until, deadline],
    })
}

fn unsuccessful(pool: &str, claim: &NodeClaim, policy: Option<&Policy>, now: Time, config: &Config) -> Option<Failed> {
    let state = State::of(&claim.metadata);
    if !matches!(state, State::Failed | State::Expired) {
        return None;
    }
    let backoff = policy.filter(|_| state == State::Failed).and_then(|policy| {
        let schedule = Schedule::under(&policy.settings, now);
        Rules::new(&policy.settings, &schedule, config.cadence, now).backoff_until(claim)
    });
    let failed_at = claim.metadata.stamp(keys::FAILED_AT).time();
    Some(Failed {
        pool: pool.into(),
        claim: claim.metadata.name.clone(),
        state: state.as_str(),
        attempts: retry_count(&claim.metadata),
        failed_at: when::json(failed_at),
        backoff_until: when::json(backoff),
        deadline: when::json(claim.deadline()),
        times: [failed_at, backoff, claim.deadline()],
    })
}

fn outcome(view: &View, pool: &str, totals: &Totals) -> Outcomes {
    let stamp = |key| view.pools.get(pool).and_then(|pool| pool.metadata.stamp(key).time());
    let times = [stamp(keys::LAST_ROTATION_AT), stamp(keys::LAST_FAILURE_AT)];
    let Totals { success, failure, expired, fallback, window_missed, .. } = *totals;
    Outcomes {
        pool: pool.into(),
        success,
        failure,
        expired,
        fallback,
        window_missed,
        last_rotation_at: when::json(times[0]),
        last_failure_at: when::json(times[1]),
        times,
    }
}
