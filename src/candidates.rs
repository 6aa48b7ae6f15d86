//! The census of a pool's claims and the choice of the next candidate (§5).

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use chrono::TimeDelta;

use crate::{
    api::{
        karpenter::{Node, NodeClaim},
        keys,
        time::{Time, later},
    },
    policy::Settings,
    rotation::{effect::retry_count, state::State},
    schedule::{
        derive::{Derivation, Lifetime},
        window::Schedule,
    },
};

/// Where a claim stands; every claim is in exactly one bucket, the first that fits in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Its rotation is anchored.
    InFlight,
    /// It is being deleted.
    Deleting,
    /// `expired`.
    Terminal,
    /// Its Node carries the operator's do-not-disrupt. Known only where a claim of the pool is triggered.
    OptedOut,
    /// No Node, Node gone, or not Ready.
    NotReady,
    /// Too young.
    NotTriggered,
    /// A failed attempt is too recent, or this pass's sweep fails it.
    InBackoff,
    /// The API server refuses to have it written: found by this pass's rehearsal.
    Unwritable,
    /// May be rotated now.
    Eligible,
}

impl Bucket {
    /// The name for people, in kebab case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in-flight",
            Self::Deleting => "deleting",
            Self::Terminal => "terminal",
            Self::OptedOut => "opted-out",
            Self::NotReady => "not-ready",
            Self::NotTriggered => "not-triggered",
            Self::InBackoff => "in-backoff",
            Self::Unwritable => "unwritable",
            Self::Eligible => "eligible",
        }
    }
}

/// A claim that may be rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The claim.
    pub claim: String,
    /// Its Node.
    pub node: String,
    /// When it was created.
    pub created: Time,
    /// When Karpenter expires it; `None` for never.
    pub deadline: Option<Time>,
    /// When it was triggered.
    pub triggered_at: Option<Time>,
    /// Whether the operator asked for it.
    pub asked_for: bool,
}

/// What the census is taken with.
pub struct Rules<'a> {
    /// The settings of the policy.
    pub settings: &'a Settings,
    /// Its schedule.
    pub schedule: &'a Schedule,
    /// The time between passes.
    pub cadence: TimeDelta,
    /// Now.
    pub now: Time,
    /// The derivation of the lifetime that was asked for last: most claims of a pool have the same.
    last: RefCell<Option<(NodeClaimLifetime, Derivation)>>,
}

/// `expireAfter` and `terminationGracePeriod` as they stand in a claim.
type NodeClaimLifetime = (Option<String>, Option<String>);

/// What is known of one claim before it has a bucket.
struct Due {
    trigger: Option<Time>,
    is_triggered: bool,
}

/// The claims of one pool, counted and sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Claims per bucket.
    pub buckets: BTreeMap<Bucket, usize>,
    /// The eligible ones: asked for first, then earliest deadline (none is last), then oldest, then by name.
    pub candidates: Vec<Candidate>,
    /// Claims whose lifetime is no longer than their lead time, by name.
    pub short_lead: Vec<String>,
    /// Claims past their trigger, whatever else holds them; by name.
    pub triggered: BTreeSet<String>,
    /// Those of them that somebody could still rotate: neither being deleted nor `expired`.
    pub due: usize,
    /// Those of the due ones that are opted out, by name.
    pub opted_out: BTreeSet<String>,
    /// When those that are eligible or in backoff were triggered: what a window that closes leaves behind.
    pub outstanding: Vec<Time>,
    /// The earliest deadline of a claim that isn't being deleted.
    pub next_deadline: Option<Time>,
    /// The largest retry count.
    pub retry_count: u32,
    /// The next moment at which a claim changes its bucket by time alone.
    pub next_change: Option<Time>,
}

impl<'a> Rules<'a> {
    /// The rules under these settings.
    pub fn new(settings: &'a Settings, schedule: &'a Schedule, cadence: TimeDelta, now: Time) -> Self {
        Self { settings, schedule, cadence, now, last: RefCell::new(None) }
    }

    /// The derivation for one claim, by its own lifetime.
    pub fn derivation(&self, claim: &NodeClaim) -> Derivation {
        let spec = &claim.spec;
        if let Some(((expire_after, grace), derivation)) = &*self.last.borrow()
            && *expire_after == spec.expire_after
            && *grace == spec.termination_grace_period
        {
            return *derivation;
        }
        let lifetime = Lifetime { expire_after: spec.expire_after(), grace: spec.grace() };
        let derivation = Derivation::of(self.settings, self.schedule, lifetime, self.cadence);
        self.last.replace(Some(((spec.expire_after.clone(), spec.termination_grace_period.clone()), derivation)));
        derivation
    }

    /// When a claim is triggered: past this instant it is due. `None` for never.
    pub fn trigger(&self, claim: &NodeClaim) -> Option<Time> {
        let by_age = || Some(later(claim.metadata.creation_timestamp?, self.derivation(claim).age_threshold?));
        soonest(soonest(by_age(), self.chances_run_low(claim)), requested_at(claim))
    }

    fn due(&self, claim: &NodeClaim) -> Due {
        let trigger = self.trigger(claim);
        Due { trigger, is_triggered: self.is_asked_for(claim) || trigger.is_some_and(|trigger| self.now > trigger) }
    }

    /// The latest start that still ends before the claim's deadline: deadline - t_rot. `None` for never.
    pub fn latest_start(&self, claim: &NodeClaim) -> Option<Time> {
        Some(later(self.deadline(claim)?, -self.derivation(claim).t_rot))
    }

    fn deadline(&self, claim: &NodeClaim) -> Option<Time> {
        Some(later(claim.metadata.creation_timestamp?, self.derivation(claim).expire_after?))
    }

    /// When blackouts leave the claim no more than K chances: due from then on, so that it is rotated before them (§3). But
    /// not before its replacement would live to see an opening that the claim itself doesn't: what a rotation gains
    /// nothing for would be rotated again and again.
    fn chances_run_low(&self, claim: &NodeClaim) -> Option<Time> {
        if self.schedule.blackouts.is_empty() {
            return None;
        }
        let (created, latest) = (claim.metadata.creation_timestamp?, self.latest_start(claim)?);
        let low = self.schedule.chances_run_low(self.now, latest, self.settings.min_rotation_chances, self.cadence)?;
        let gains = later(created, self.schedule.opening_after(latest)? - latest);
        Some(low.max(gains))
    }

    /// Whether a claim is past its trigger, or asked for.
    pub fn is_triggered(&self, claim: &NodeClaim) -> bool {
        self.due(claim).is_triggered
    }

    /// Whether the operator asked for this claim, from now or earlier on, whatever its age.
    pub fn is_asked_for(&self, claim: &NodeClaim) -> bool {
        requested_at(claim).is_some_and(|from| from <= self.now)
    }

    /// When a failed claim may be tried again: after its escalated backoff, or when the next occurrence opens (§4.4).
    /// `None` where nothing holds it.
    pub fn backoff_until(&self, claim: &NodeClaim) -> Option<Time> {
        let failed_at = claim.metadata.stamp(keys::FAILED_AT).time()?;
        let backoff = escalated(self.settings.retry_backoff, retry_count(&claim.metadata));
        // A stamp from a wrong clock must not hold the claim for good.
        if failed_at > later(self.now, self.cadence) {
            return None;
        }
        let until = later(failed_at, backoff);
        let until = self.schedule.next_start(failed_at).map_or(until, |opens| opens.min(until));
        (self.now < until).then_some(until)
    }

    /// Takes the census. `nodes` is the metadata of the pool's Nodes, or `None` where no claim is triggered and it was
    /// not read; `in_flight` is the anchored claim, `swept` those that this pass's sweep fails.
    pub fn census<'c>(
        &self,
        claims: impl Iterator<Item = &'c NodeClaim>,
        nodes: Option<&BTreeMap<String, Node>>,
        in_flight: Option<&str>,
        swept: &BTreeSet<String>,
    ) -> Census {
        let mut census = Census::default();
        for claim in claims {
            let due = self.due(claim);
            let bucket = self.bucket(claim, due.is_triggered, nodes, in_flight, swept);
            *census.buckets.entry(bucket).or_default() += 1;
            self.note(&mut census, claim, &due, bucket);
        }
        census.candidates.sort_by(|a, b| urgency(a).cmp(&urgency(b)).then_with(|| a.claim.cmp(&b.claim)));
        census
    }

    fn note(&self, census: &mut Census, claim: &NodeClaim, due: &Due, bucket: Bucket) {
        let name = &claim.metadata.name;
        let triggered_at = due.trigger;
        if due.is_triggered {
            census.triggered.insert(name.clone());
            census.due += usize::from(!matches!(bucket, Bucket::Deleting | Bucket::Terminal));
            if bucket == Bucket::OptedOut {
                census.opted_out.insert(name.clone());
            }
        }
        census.retry_count = census.retry_count.max(retry_count(&claim.metadata));
        if claim.metadata.is_deleting() {
            return;
        }
        let deadline = self.deadline(claim);
        census.next_deadline = soonest(census.next_deadline, deadline);
        if self.derivation(claim).is_short_lead() {
            census.short_lead.push(name.clone());
        }
        if matches!(bucket, Bucket::Eligible | Bucket::InBackoff) {
            census.outstanding.extend(triggered_at);
        }
        match bucket {
            Bucket::Eligible => census.candidates.push(Candidate {
                claim: name.clone(),
                node: claim.node().unwrap_or_default().to_owned(),
                created: claim.metadata.creation_timestamp.unwrap_or(self.now),
                deadline,
                triggered_at,
                asked_for: self.is_asked_for(claim),
            }),
            // It is triggered past that instant, not at it.
            Bucket::NotTriggered => {
                let due = triggered_at.map(|at| later(at, TimeDelta::seconds(1)));
                census.next_change = soonest(census.next_change, due);
            }
            Bucket::InBackoff => census.next_change = soonest(census.next_change, self.backoff_until(claim)),
            _ => {}
        }
    }

    fn bucket(
        &self,
        claim: &NodeClaim,
        is_triggered: bool,
        nodes: Option<&BTreeMap<String, Node>>,
        in_flight: Option<&str>,
        swept: &BTreeSet<String>,
    ) -> Bucket {
        let meta = &claim.metadata;
        let state = State::of(meta);
        if in_flight == Some(meta.name.as_str()) {
            return Bucket::InFlight;
        }
        if meta.is_deleting() {
            return Bucket::Deleting;
        }
        if state == State::Expired {
            return Bucket::Terminal;
        }
        let node = claim.node().and_then(|node| nodes?.get(node));
        if node.is_some_and(is_opted_out) {
            return Bucket::OptedOut;
        }
        let node_is_there = claim.node().is_some() && (nodes.is_none() || node.is_some());
        if !node_is_there || !claim.is("Ready") {
            return Bucket::NotReady;
        }
        if !is_triggered {
            return Bucket::NotTriggered;
        }
        let in_backoff = state == State::Failed && self.backoff_until(claim).is_some();
        // `pending` or `draining` without the anchor is what the sweep fails.
        if in_backoff || swept.contains(&meta.name) || matches!(state, State::Pending | State::Draining) {
            return Bucket::InBackoff;
        }
        Bucket::Eligible
    }
}

/// The order of candidates, and of pools that compete for a grant; smaller is sooner.
pub fn urgency(candidate: &Candidate) -> (bool, bool, Option<Time>, Time) {
    (!candidate.asked_for, candidate.deadline.is_none(), candidate.deadline, candidate.created)
}

/// From when on the operator wants this claim rotated; unreadable is not asked for.
fn requested_at(claim: &NodeClaim) -> Option<Time> {
    claim.metadata.stamp(keys::ROTATE_REQUESTED).time()
}

/// Whether the operator protects this Node: the value is exactly `true`, and not ours.
fn is_opted_out(node: &Node) -> bool {
    node.metadata.annotation(keys::DO_NOT_DISRUPT) == Some("true") && node.metadata.annotation(keys::DO_NOT_DISRUPT_OWNED) != Some("true")
}

/// `retryBackoff * 2^(retry-count - 1)`, at most 8x.
fn escalated(backoff: TimeDelta, retries: u32) -> TimeDelta {
    let factor = 1 << retries.saturating_sub(1).min(3);
    backoff.checked_mul(factor).unwrap_or(TimeDelta::MAX)
}

/// The earlier of two moments, where `None` is never.
pub fn soonest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
