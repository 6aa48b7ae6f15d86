//! What decisions on one View after another have in common. A pass decides on its View in a few rounds; a simulated cluster
//! goes on with one View for months, and says what has changed of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::TimeDelta;

use super::scene::{ByPool, Claims};
use crate::{
    api::{
        karpenter::{Node, NodeClaim},
        time::Time,
    },
    candidates::{Around, Census, Rules},
    policy::Policy,
    schedule::window::Schedule,
    view::View,
};

/// What is known from the decisions before. It holds for one View and what becomes of it, where every change of a claim or
/// its Node is told by [`Memory::changed`]; a View that was read anew wants a new one.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    annotated: Option<BTreeSet<String>>,
    censuses: BTreeMap<String, Kept>,
    changed: BTreeSet<String>,
}

/// The census of one pool, and what it holds for.
#[derive(Debug, Clone)]
struct Kept {
    census: Census,
    policy: (String, i64),
    schedule: Arc<Schedule>,
    knows_nodes: bool,
    taken_at: Time,
    in_flight: Option<String>,
    swept: BTreeSet<String>,
    changed: BTreeSet<String>,
}

type Nodes = BTreeMap<String, Node>;

/// The pool whose census is wanted.
pub(super) struct Pool<'a> {
    pub name: &'a str,
    pub policy: &'a Policy,
    pub schedule: &'a Arc<Schedule>,
    pub cadence: TimeDelta,
    pub now: Time,
    pub in_flight: Option<&'a str>,
    pub swept: &'a BTreeSet<String>,
}

impl<'a> Pool<'a> {
    fn rules(&self) -> Rules<'a> {
        Rules::new(&self.policy.settings, self.schedule, self.cadence, self.now)
    }
}

impl Memory {
    /// Says that a NodeClaim, or its Node, has come, changed or gone.
    pub fn changed(&mut self, claim: &str) {
        self.changed.insert(claim.to_owned());
    }

    /// Claims of the View that carry an annotation of ours, by name; takes note of what has been said to have changed.
    pub(super) fn annotated<'v>(&mut self, view: &'v View) -> Vec<&'v NodeClaim> {
        self.catch_up(view);
        self.annotated.iter().flatten().filter_map(|name| view.claims.get(name)).collect()
    }

    fn catch_up(&mut self, view: &View) {
        let is_noted = |name: &String| view.claims.get(name).is_some_and(|claim| claim.metadata.is_annotated());
        let changed = std::mem::take(&mut self.changed);
        match &mut self.annotated {
            None => self.annotated = Some(view.claims.keys().filter(|name| is_noted(name)).cloned().collect()),
            Some(annotated) => {
                for name in &changed {
                    if is_noted(name) {
                        annotated.insert(name.clone());
                    } else {
                        annotated.remove(name);
                    }
                }
            }
        }
        for kept in self.censuses.values_mut() {
            kept.changed.extend(changed.iter().cloned());
        }
    }

    /// The census of a pool. Its Nodes are looked at only where a claim is triggered, and they are known.
    pub(super) fn census(&mut self, claims: &ByPool<'_>, pool: &Pool<'_>) -> &Census {
        let known = claims.view.facts.nodes_of_pool.get(pool.name).map(Arc::as_ref);
        let kept = self.censuses.remove(pool.name).filter(|kept| kept.holds_for(pool));
        let mut kept = match kept {
            Some(kept) => kept.follow(claims, pool, known),
            None => Kept::take(claims, pool, known),
        };
        let nodes = known.filter(|_| !kept.census.triggered.is_empty());
        if nodes.is_some() != kept.knows_nodes {
            kept = Kept::take(claims, pool, nodes);
        }
        &self.censuses.entry(pool.name.to_owned()).insert_entry(kept).into_mut().census
    }
}

impl Kept {
    fn take(claims: &ByPool<'_>, pool: &Pool<'_>, nodes: Option<&Nodes>) -> Self {
        let around = Around { nodes, in_flight: pool.in_flight, swept: pool.swept };
        let census = pool.rules().census(claims.of(pool.name).iter().copied(), around);
        Self {
            knows_nodes: nodes.is_some() && !census.triggered.is_empty(),
            census,
            policy: (pool.policy.uid.clone(), pool.policy.generation),
            schedule: Arc::clone(pool.schedule),
            taken_at: pool.now,
            in_flight: pool.in_flight.map(str::to_owned),
            swept: pool.swept.clone(),
            changed: BTreeSet::new(),
        }
    }

    /// Whether those claims that nothing has changed of are still judged as they would be now. Blackouts make every moment
    /// another one.
    fn holds_for(&self, pool: &Pool<'_>) -> bool {
        self.policy.0 == pool.policy.uid
            && self.policy.1 == pool.policy.generation
            && Arc::ptr_eq(&self.schedule, pool.schedule)
            && self.schedule.blackouts.is_empty()
            && self.taken_at <= pool.now
    }

    /// Judges those claims again that are no longer what they were.
    fn follow(mut self, claims: &ByPool<'_>, pool: &Pool<'_>, known: Option<&Nodes>) -> Self {
        let around = Around { nodes: known.filter(|_| self.knows_nodes), in_flight: pool.in_flight, swept: pool.swept };
        if around.nodes.is_some() != self.knows_nodes {
            return Self::take(claims, pool, None);
        }
        let mut again = std::mem::take(&mut self.changed);
        again.extend(self.census.to_recheck(pool.now));
        if self.in_flight.as_deref() != pool.in_flight {
            again.extend(self.in_flight.take());
            again.extend(pool.in_flight.map(str::to_owned));
            self.in_flight = pool.in_flight.map(str::to_owned);
        }
        again.extend(self.swept.symmetric_difference(pool.swept).cloned());
        self.swept.clone_from(pool.swept);
        let rules = pool.rules();
        for name in again {
            let claim = claims.view.claims.get(&name).filter(|claim| claim.pool() == Some(pool.name));
            rules.judge_again(&mut self.census, &name, claim, around);
        }
        self.taken_at = pool.now;
        self
    }
}
