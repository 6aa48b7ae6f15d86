//! What the next windows are expected to rotate: the pool's claims in the order of candidates, as many in each window as it
//! admits starts. An estimate: it knows no failure, and no node that comes later.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    api::{
        karpenter::NodeClaim,
        time::{Time, to_annotation},
    },
    candidates::{Candidate, Rules, urgency},
    policy::Policy,
    rotation::{scene::Config, state::State, step::Assessment},
    schedule::{
        findings::Level,
        window::{Occurrence, Schedule},
    },
    view::View,
};

/// So many windows are looked at.
const WINDOWS: usize = 3;

/// One window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// When it opens.
    pub opens_at: String,
    /// When it closes.
    pub closes_at: String,
    /// The claims expected to be rotated in it, in order.
    pub claims: Vec<String>,
    /// Claims that are due in it, and must wait for a later one.
    pub left: usize,
    /// Of those left, claims that expire before the window after it opens.
    pub lost: usize,
    /// When it opens.
    #[serde(skip)]
    pub opens: Time,
}

/// The open window and those that come, three in all.
pub fn forecast(view: &View, seen: &Assessment, policy: &Policy, now: Time, config: &Config) -> Vec<Forecast> {
    let schedule = Schedule::under(&policy.settings, now);
    let blocked = seen.findings.iter().any(|finding| finding.code.level() == Level::Fatal)
        || !seen.conflict.is_empty()
        || !policy.is_valid()
        || policy.settings.suspend;
    let rules = Rules::new(&policy.settings, &schedule, config.cadence, now);
    let in_flight = seen.in_flight.as_ref().map(|flight| flight.claim.as_str());
    let mut waiting: Vec<(Candidate, Time)> = view
        .claims_of(&seen.pool)
        .filter(|claim| in_flight != Some(claim.metadata.name.as_str()))
        .filter_map(|claim| turn(&rules, claim))
        .collect();
    waiting.sort_by(|(a, _), (b, _)| urgency(a).cmp(&urgency(b)).then_with(|| a.claim.cmp(&b.claim)));
    let coming: Vec<Occurrence> =
        schedule.occurrences.iter().filter(|occurrence| occurrence.end > now).take(WINDOWS + 1).copied().collect();
    let mut forecasts = Vec::new();
    for (index, occurrence) in coming.iter().take(WINDOWS).enumerate() {
        let capacity = if blocked { 0 } else { admitted(seen, policy, &schedule, *occurrence, now) };
        let due: Vec<(Candidate, Time)> = waiting.iter().filter(|(_, trigger)| *trigger < occurrence.end).cloned().collect();
        let alive = |candidate: &Candidate, at: Time| candidate.deadline.is_none_or(|deadline| deadline > at);
        let due: Vec<Candidate> =
            due.into_iter().map(|(candidate, _)| candidate).filter(|candidate| alive(candidate, occurrence.start.max(now))).collect();
        let taken: Vec<String> = due.iter().take(capacity).map(|candidate| candidate.claim.clone()).collect();
        let after = coming.get(index + 1).map(|next| next.start);
        let lost = due.iter().skip(capacity).filter(|candidate| after.is_some_and(|after| !alive(candidate, after))).count();
        let gone: BTreeSet<&String> = taken.iter().collect();
        waiting.retain(|(candidate, _)| !gone.contains(&candidate.claim));
        forecasts.push(Forecast {
            opens_at: to_annotation(occurrence.start),
            closes_at: to_annotation(occurrence.end),
            left: due.len() - taken.len(),
            lost,
            claims: taken,
            opens: occurrence.start,
        });
    }
    forecasts
}

/// When a claim's turn comes, as far as it can come.
fn turn(rules: &Rules<'_>, claim: &NodeClaim) -> Option<(Candidate, Time)> {
    if claim.metadata.is_deleting() || State::of(&claim.metadata) == State::Expired || claim.node().is_none() {
        return None;
    }
    let trigger = rules.trigger(claim)?;
    let candidate = Candidate {
        claim: claim.metadata.name.clone(),
        node: claim.node().unwrap_or_default().into(),
        created: claim.metadata.creation_timestamp.unwrap_or(rules.now),
        deadline: claim.deadline(),
        triggered_at: Some(trigger),
        asked_for: rules.is_asked_for(claim),
    };
    Some((candidate, trigger))
}

/// The starts that what is left of a window admits.
fn admitted(seen: &Assessment, policy: &Policy, schedule: &Schedule, occurrence: Occurrence, now: Time) -> usize {
    let Some(derivation) = &seen.derivation else { return 0 };
    let service = derivation.t_rot_est.num_seconds().saturating_add(policy.settings.cooldown_after.num_seconds()).max(1);
    let parts = schedule.blackouts.left_of(occurrence);
    let starts = parts.iter().map(|part| {
        let left = (part.end - part.start.max(now)).num_seconds().max(0);
        usize::try_from(left.saturating_add(service - 1) / service).unwrap_or(usize::MAX)
    });
    starts.fold(0, usize::saturating_add)
}
