//! What a pass sees of a pool, before it decides anything: census, derivation, findings, gates.

use std::sync::Arc;

use super::{
    broken, gates,
    notice::{Notice, Regarding},
    scene::Scene,
    step::{Assessment, InFlight},
};
use crate::{
    api::{events::Reason, keys, meta::Stamp, shared::Shared},
    policy::{Policy, resolve::Governance},
    rotation::state::State,
    schedule::findings::{Finding, all_opted_out, blackout_cuts_chances},
    view::Missing,
};

/// Looks at the pool.
pub fn assess(scene: &Scene<'_>) -> Result<Box<Assessment>, Missing> {
    let mut assessment = Box::new(Assessment {
        pool: scene.name().into(),
        totals: scene.totals.clone(),
        freeze_until: scene.pool.metadata.stamp(keys::FREEZE).time(),
        in_flight: scene.anchor().map(|claim| in_flight(scene, claim)),
        ..Assessment::default()
    });
    let Some(((policy, census), template)) = scene.policy.zip(scene.census).zip(scene.template) else { return Ok(assessment) };
    if !census.triggered.is_empty() {
        // The census has looked at them where they are known.
        scene.view.nodes_of_pool(scene.name())?;
    }
    let of_claims = all_opted_out(scene.pool, census.due, &census.opted_out).into_iter().chain(blackouts(scene, policy));
    let findings: Vec<Shared<Finding>> = template.findings.iter().cloned().chain(of_claims.map(Into::into)).collect();
    assessment.governed = true;
    assessment.policy = Some(policy.name.clone());
    if let Governance::Conflict(tied) = scene.governance {
        assessment.conflict = tied.iter().map(|policy| policy.name.clone()).collect();
    }
    assessment.gates = gates::closed(scene, policy, &findings);
    assessment.findings = findings;
    assessment.derivation = Some(template.derivation);
    assessment.window = scene.schedule.open_at(scene.now);
    assessment.next_window = scene.schedule.next_start(scene.now);
    assessment.short_lead = census.short_lead.len();
    assessment.next_deadline = census.next_deadline();
    assessment.retry_count = census.retry_count();
    assessment.next_change = census.next_change();
    assessment.outstanding = Arc::clone(&census.outstanding);
    assessment.census = census.buckets.clone();
    assessment.candidates = Arc::clone(&census.candidates);
    Ok(assessment)
}

/// Claims that a blackout leaves too few chances.
fn blackouts(scene: &Scene<'_>, policy: &Policy) -> Option<Finding> {
    if scene.schedule.blackouts.is_empty() {
        return None;
    }
    let rules = scene.rules(&policy.settings);
    let alive = scene.claims().iter().filter(|claim| !claim.metadata.is_deleting());
    let claims = alive.filter_map(|claim| Some((claim.metadata.name.as_str(), rules.latest_start(claim)?)));
    blackout_cuts_chances(scene.schedule, policy.settings.min_rotation_chances, scene.now, scene.config.cadence, claims)
}

fn in_flight(scene: &Scene<'_>, name: &str) -> InFlight {
    let claim = scene.claim(name);
    let state = claim.map_or(State::None, |claim| State::of(&claim.metadata));
    let started = claim.and_then(|claim| claim.metadata.stamp(keys::STARTED_AT).time());
    let draining = scene.pool.metadata.stamp(keys::DRAINING_AT).time();
    let since = match state {
        State::Draining => draining,
        State::None | State::Pending => started,
        State::Failed => claim.and_then(|claim| claim.metadata.stamp(keys::FAILED_AT).time()),
        State::Expired => claim.and_then(|claim| claim.metadata.deletion_timestamp),
    };
    let node = claim.and_then(|claim| claim.node()).map(str::to_owned);
    // Without a surge there is no attempt, and without the claim only the drain's time is left.
    let begun = started.or(draining).or(since);
    InFlight { claim: name.into(), node, state, since, begun, waiting_for: String::new() }
}

/// The conditions that hold on the pool whatever its step does.
pub fn conditions(scene: &Scene<'_>, assessment: &Assessment) -> Vec<Shared<Notice>> {
    let pool = assessment.pool.as_str();
    // The template's findings come first.
    let mut notices: Vec<Shared<Notice>> = scene.template.map(|template| template.notices.clone()).unwrap_or_default();
    notices.extend(assessment.findings.iter().skip(notices.len()).map(|finding| Notice::of_finding(finding, &scene.pool.metadata).into()));
    for gate in &assessment.gates {
        let reason = match gate.code {
            "conflict" => Reason::PolicyConflict,
            "invalid-policy" => Reason::PolicyInvalid,
            _ => continue,
        };
        notices.push(Notice::new(reason, scene.regarding(), pool, format!("No rotation starts: {}", gate.detail)).into());
    }
    if scene.policy.is_some() && scene.pool.metadata.stamp(keys::FREEZE) == Stamp::Unreadable {
        let value = scene.pool.metadata.annotation(keys::FREEZE).unwrap_or_default();
        let message = format!(
            "{}: {value:?} is not an RFC 3339 time such as 2027-01-04T06:00:00Z. The pool counts as frozen until it is mended or removed.",
            keys::FREEZE
        );
        notices.push(Notice::new(Reason::FreezeUnreadable, scene.regarding(), pool, message).into());
    }
    notices.extend(broken::notices(scene, &assessment.totals).into_iter().chain(short_lead(scene)).map(Into::into));
    notices
}

fn short_lead(scene: &Scene<'_>) -> Vec<Notice> {
    let Some((policy, census)) = scene.policy.zip(scene.census) else { return Vec::new() };
    let rules = scene.rules(&policy.settings);
    let short = census.short_lead.iter().filter_map(|name| scene.claim(name)).filter_map(|claim| {
        let derivation = rules.derivation(claim);
        let (lifetime, lead) = (derivation.expire_after?, derivation.lead_time?);
        derivation.is_short_lead().then(|| {
            let (lifetime, lead) = (crate::api::time::format_duration(lifetime), crate::api::time::format_duration(lead));
            let message = format!("expireAfter {lifetime} is not longer than the lead time {lead}: the node is rotated at the first opportunity. Raise expireAfter, or add maintenance windows.");
            Notice::new(Reason::ShortLead, Regarding::claim(&claim.metadata), scene.name(), message)
        })
    });
    short.collect()
}
