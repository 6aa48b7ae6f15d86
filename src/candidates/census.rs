//! The claims of one pool, counted and sorted; one claim can be judged again without the others.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use super::{Bucket, Candidate, Rules, requested_at, soonest, urgency};
use crate::{
    api::{
        karpenter::{Node, NodeClaim},
        keys,
        shared::Shared,
        time::{Time, later},
    },
    rotation::{effect::retry_count, state::State},
};

/// What the census of a pool looks at beside its claims.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The metadata of the pool's Nodes, or `None` where no claim is triggered and it was not read.
    pub nodes: Option<&'a BTreeMap<String, Shared<Node>>>,
    /// The anchored claim.
    pub in_flight: Option<&'a str>,
    /// Claims that this pass's sweep fails.
    pub swept: &'a BTreeSet<String>,
}

impl Around<'_> {
    /// Whether a claim's Node, where the Nodes are known, says more than that it is there.
    pub fn tells_of(&self, claim: &NodeClaim) -> bool {
        let Some((nodes, name)) = self.nodes.zip(claim.node()) else { return false };
        nodes.get(name).is_none_or(|node| is_opted_out(node))
    }
}

/// The claims of one pool, counted and sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// Claims per bucket.
    pub buckets: BTreeMap<Bucket, usize>,
    /// The eligible ones: asked for first, then earliest deadline (none is last), then oldest, then by name.
    pub candidates: Arc<Vec<Candidate>>,
    /// Claims whose lifetime is no longer than their lead time, by name; not those that are being deleted.
    pub short_lead: BTreeSet<String>,
    /// Claims past their trigger, whatever else holds them; by name.
    pub triggered: BTreeSet<String>,
    /// How many of them somebody could still rotate: neither being deleted nor `expired`.
    pub due: usize,
    /// Those of the due ones that are opted out, by name.
    pub opted_out: BTreeSet<String>,
    /// When those that are eligible or in backoff were triggered, in order: what a window that closes leaves behind.
    pub outstanding: Arc<Vec<Time>>,
    standings: BTreeMap<Arc<str>, Standing>,
    deadlines: Times,
    changes: Times,
    /// When a claim has to be judged again though nothing of it has changed.
    rechecks: Times,
    retries: BTreeMap<u32, usize>,
}

/// Moments, each with the claim it is of.
type Times = BTreeSet<(Time, Arc<str>)>;

/// What one claim adds to its pool's census.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    bucket: Bucket,
    is_triggered: bool,
    is_short_lead: bool,
    retries: u32,
    /// Of a claim that isn't being deleted.
    deadline: Option<Time>,
    /// When it was triggered, of a claim that is eligible or in backoff.
    outstanding: Option<Time>,
    /// When it changes its bucket by time alone.
    change: Option<Time>,
    /// From when on this may no longer hold.
    recheck: Option<Time>,
    candidate: Option<Candidate>,
}

impl Standing {
    fn is_due(&self) -> bool {
        self.is_triggered && !matches!(self.bucket, Bucket::Deleting | Bucket::Terminal)
    }
}

impl Census {
    /// The earliest deadline of a claim that isn't being deleted.
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The next moment at which a claim changes its bucket by time alone.
    pub fn next_change(&self) -> Option<Time> {
        self.changes.first().map(|(change, _)| *change)
    }

    /// The largest retry count.
    pub fn retry_count(&self) -> u32 {
        self.retries.last_key_value().map_or(0, |(count, _)| *count)
    }

    /// Claims that stand where they do because of their Nodes, or may, by name.
    pub fn by_node(&self) -> impl Iterator<Item = Arc<str>> {
        let by_node = self.standings.iter().filter(|(_, standing)| matches!(standing.bucket, Bucket::OptedOut | Bucket::NotReady));
        by_node.map(|(name, _)| Arc::clone(name))
    }

    /// How many claims there are.
    pub fn claims(&self) -> usize {
        self.standings.len()
    }

    /// Claims that time alone may have moved by then, by name.
    pub fn to_recheck(&self, now: Time) -> impl Iterator<Item = Arc<str>> {
        self.rechecks.iter().take_while(move |(at, _)| *at <= now).map(|(_, name)| Arc::clone(name))
    }

    fn add(&mut self, name: &str, standing: Standing) {
        let key: Arc<str> = name.into();
        *self.buckets.entry(standing.bucket).or_default() += 1;
        self.due += usize::from(standing.is_due());
        for (holds, names) in standing.named(self) {
            if holds {
                names.insert(name.to_owned());
            }
        }
        for (at, times) in standing.timed(self) {
            times.extend(at.map(|at| (at, Arc::clone(&key))));
        }
        if standing.retries > 0 {
            *self.retries.entry(standing.retries).or_default() += 1;
        }
        if let Some(triggered) = standing.outstanding {
            Arc::make_mut(&mut self.outstanding).push(triggered);
        }
        if let Some(candidate) = &standing.candidate {
            Arc::make_mut(&mut self.candidates).push(candidate.clone());
        }
        self.standings.insert(key, standing);
    }

    /// Brings what was added into its order; cheap where it nearly is.
    fn sort(&mut self) {
        Arc::make_mut(&mut self.outstanding).sort();
        Arc::make_mut(&mut self.candidates).sort_by(|a, b| order(a).cmp(&order(b)));
    }

    /// Takes a claim out; one that isn't counted is no matter.
    fn take(&mut self, name: &str) {
        let Some((key, standing)) = self.standings.remove_entry(name) else { return };
        less(self.buckets.entry(standing.bucket));
        self.due -= usize::from(standing.is_due());
        for (holds, names) in standing.named(self) {
            if holds {
                names.remove(name);
            }
        }
        for (at, times) in standing.timed(self) {
            if let Some(at) = at {
                times.remove(&(at, Arc::clone(&key)));
            }
        }
        if standing.retries > 0 {
            less(self.retries.entry(standing.retries));
        }
        if let Some(triggered) = standing.outstanding {
            let outstanding = Arc::make_mut(&mut self.outstanding);
            outstanding.remove(outstanding.partition_point(|other| *other < triggered));
        }
        if let Some(candidate) = &standing.candidate {
            let candidates = Arc::make_mut(&mut self.candidates);
            candidates.remove(candidates.partition_point(|other| order(other) < order(candidate)));
        }
    }
}

impl Standing {
    fn named<'c>(&self, census: &'c mut Census) -> [(bool, &'c mut BTreeSet<String>); 3] {
        [
            (self.is_short_lead, &mut census.short_lead),
            (self.is_triggered, &mut census.triggered),
            (self.is_triggered && self.bucket == Bucket::OptedOut, &mut census.opted_out),
        ]
    }

    fn timed<'c>(&self, census: &'c mut Census) -> [(Option<Time>, &'c mut Times); 3] {
        [(self.deadline, &mut census.deadlines), (self.change, &mut census.changes), (self.recheck, &mut census.rechecks)]
    }
}

fn less<K: Ord>(entry: Entry<'_, K, usize>) {
    if let Entry::Occupied(mut count) = entry {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

fn order(candidate: &Candidate) -> (impl Ord + use<>, &str) {
    (urgency(candidate), candidate.claim.as_str())
}

impl Rules<'_> {
    /// Takes the census.
    pub fn census<'c>(&self, claims: impl Iterator<Item = &'c NodeClaim>, around: Around<'_>) -> Census {
        let mut census = Census::default();
        for claim in claims {
            census.add(&claim.metadata.name, self.standing(claim, around));
        }
        census.sort();
        census
    }

    /// Judges one claim again: `None` for one that is gone.
    pub fn judge_again(&self, census: &mut Census, name: &str, claim: Option<&NodeClaim>, around: Around<'_>) {
        let standing = claim.map(|claim| self.standing(claim, around));
        if census.standings.get(name) == standing.as_ref() {
            return;
        }
        census.take(name);
        let Some(standing) = standing else { return };
        let is_listed = standing.outstanding.is_some();
        census.add(name, standing);
        if is_listed {
            census.sort();
        }
    }

    fn standing(&self, claim: &NodeClaim, around: Around<'_>) -> Standing {
        let trigger = self.trigger(claim);
        let is_triggered = self.is_past(claim, trigger);
        let bucket = self.bucket(claim, is_triggered, around);
        let is_alive = !claim.metadata.is_deleting();
        let deadline = self.deadline(claim).filter(|_| is_alive);
        let change = match bucket {
            // It is triggered past that instant, not at it.
            Bucket::NotTriggered => trigger.map(|at| later(at, chrono::TimeDelta::seconds(1))),
            Bucket::InBackoff => self.backoff_until(claim),
            _ => None,
        };
        Standing {
            bucket,
            is_triggered,
            is_short_lead: is_alive && self.derivation(claim).is_short_lead(),
            retries: retry_count(&claim.metadata),
            deadline,
            outstanding: trigger.filter(|_| is_alive && matches!(bucket, Bucket::Eligible | Bucket::InBackoff)),
            change: change.filter(|_| is_alive),
            recheck: self.recheck(claim, trigger.filter(|_| !is_triggered)),
            candidate: (bucket == Bucket::Eligible).then(|| Candidate {
                claim: claim.metadata.name.clone(),
                node: claim.node().unwrap_or_default().to_owned(),
                created: claim.metadata.creation_timestamp.unwrap_or(self.now),
                deadline,
                triggered_at: trigger,
                asked_for: self.is_asked_for(claim),
            }),
        }
    }

    /// When time alone may change what was said of a claim: its trigger that is ahead, a request that takes effect, a backoff
    /// that ends, and a failure that a wrong clock stamped and that begins to count.
    fn recheck(&self, claim: &NodeClaim, trigger: Option<Time>) -> Option<Time> {
        let requested = requested_at(claim).filter(|from| *from > self.now);
        let counts = || Some(later(claim.metadata.stamp(keys::FAILED_AT).time()?, -self.cadence));
        let failed =
            (State::of(&claim.metadata) == State::Failed).then(|| soonest(self.backoff_until(claim), counts().filter(|at| *at > self.now)));
        soonest(soonest(trigger, requested), failed.flatten())
    }

    fn bucket(&self, claim: &NodeClaim, is_triggered: bool, around: Around<'_>) -> Bucket {
        let meta = &claim.metadata;
        let state = State::of(meta);
        if around.in_flight == Some(meta.name.as_str()) {
            return Bucket::InFlight;
        }
        if meta.is_deleting() {
            return Bucket::Deleting;
        }
        if state == State::Expired {
            return Bucket::Terminal;
        }
        let node = claim.node().and_then(|node| around.nodes?.get(node));
        if node.is_some_and(|node| is_opted_out(node)) {
            return Bucket::OptedOut;
        }
        let node_is_there = claim.node().is_some() && (around.nodes.is_none() || node.is_some());
        if !node_is_there || !claim.is("Ready") {
            return Bucket::NotReady;
        }
        if !is_triggered {
            return Bucket::NotTriggered;
        }
        let in_backoff = state == State::Failed && self.backoff_until(claim).is_some();
        // `pending` or `draining` without the anchor is what the sweep fails.
        if in_backoff || around.swept.contains(&meta.name) || matches!(state, State::Pending | State::Draining) {
            return Bucket::InBackoff;
        }
        Bucket::Eligible
    }
}

/// Whether the operator protects this Node: the value is exactly `true`, and not ours.
fn is_opted_out(node: &Node) -> bool {
    node.metadata.annotation(keys::DO_NOT_DISRUPT) == Some("true") && node.metadata.annotation(keys::DO_NOT_DISRUPT_OWNED) != Some("true")
}
