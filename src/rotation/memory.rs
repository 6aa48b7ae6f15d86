//! What decisions on one View after another have in common. A pass decides on its View in a few rounds; a simulated cluster
//! goes on with one View for months, and says what has changed of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::TimeDelta;

use super::{
    scene::{ByPool, Claims},
    totals::Totals,
};
use crate::{
    api::{
        karpenter::{Node, NodeClaim, NodePool, NodePoolSpec},
        keys,
        shared::Shared,
        time::Time,
    },
    candidates::{Around, Census, Rules},
    policy::Policy,
    schedule::{
        derive::{Derivation, Lifetime},
        findings::{Finding, findings},
        window::Schedule,
    },
    view::View,
};

/// What is known from the decisions before. It holds for one View and what becomes of it, where every change of a claim or
/// its Node is told by [`Memory::changed`]; a View that was read anew wants a new one.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    annotated: Option<BTreeSet<String>>,
    /// By pool, as far as their Nodes are known.
    noted: BTreeMap<String, BTreeSet<String>>,
    censuses: BTreeMap<String, Kept>,
    totals: BTreeMap<String, (Option<String>, Totals)>,
    changed: BTreeSet<String>,
}

/// What a policy means for the template of a pool, which stands for its claims.
#[derive(Debug, Clone)]
pub struct Template {
    /// By the template's own lifetime.
    pub derivation: Derivation,
    /// What is wrong with the policy on this pool.
    pub findings: Vec<Finding>,
}

/// What a pool's step begins with.
pub(super) struct Known<'a> {
    pub totals: &'a Totals,
    /// Where a policy governs the pool.
    pub census: Option<&'a Census>,
    pub template: Option<&'a Template>,
}

/// What is kept of one governed pool, and what it holds for.
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
    template: Template,
    /// What the template was judged with: the pool's spec, and the number of its claims.
    judged: (Shared<NodePoolSpec>, usize),
}

type Nodes = BTreeMap<String, Node>;

/// The pool of which something is wanted.
pub(super) struct Pool<'a> {
    pub pool: &'a NodePool,
    pub policy: Option<&'a Policy>,
    pub schedule: &'a Arc<Schedule>,
    pub cadence: TimeDelta,
    pub now: Time,
    pub swept: &'a BTreeSet<String>,
}

/// One that is governed.
#[derive(Clone, Copy)]
struct Governed<'a> {
    of: &'a Pool<'a>,
    policy: &'a Policy,
}

impl<'a> Governed<'a> {
    fn name(self) -> &'a str {
        &self.of.pool.metadata.name
    }

    fn in_flight(self) -> Option<&'a str> {
        self.of.pool.metadata.annotation(keys::ACTIVE_ROTATION)
    }

    fn rules(self) -> Rules<'a> {
        Rules::new(&self.policy.settings, self.of.schedule, self.of.cadence, self.of.now)
    }

    fn template(self, claims: usize) -> Template {
        let spec = &self.of.pool.spec.template.spec;
        let lifetime = Lifetime { expire_after: spec.expire_after(), grace: spec.grace() };
        let derivation = Derivation::of(&self.policy.settings, self.of.schedule, lifetime, self.of.cadence);
        Template { derivation, findings: findings(self.policy, self.of.schedule, self.of.pool, claims, &derivation) }
    }
}

impl Memory {
    /// Says that a NodeClaim, or its Node, has come, changed or gone.
    pub fn changed(&mut self, claim: &str) {
        self.changed.insert(claim.to_owned());
    }

    /// Claims of the View that carry an annotation of ours, and those of the Nodes that it knows by their pools, by name; takes
    /// note of what has been said to have changed.
    pub(super) fn annotated<'v>(&mut self, view: &'v View) -> (Vec<&'v NodeClaim>, Vec<&'v Node>) {
        self.catch_up(view);
        let claims = self.annotated.iter().flatten().filter_map(|name| view.claims.get(name)).collect();
        let of_pool = |(pool, noted): (&String, &BTreeSet<String>)| {
            let nodes = view.facts.nodes_of_pool.get(pool)?;
            Some(noted.iter().filter_map(|name| nodes.get(name)).collect::<Vec<_>>())
        };
        (claims, self.noted.iter().filter_map(of_pool).flatten().collect())
    }

    fn catch_up(&mut self, view: &View) {
        let is_noted = |name: &String| view.claims.get(name).is_some_and(|claim| claim.metadata.is_annotated());
        let changed = std::mem::take(&mut self.changed);
        match &mut self.annotated {
            None => self.annotated = Some(view.claims.keys().filter(|name| is_noted(name)).cloned().collect()),
            Some(annotated) => changed.iter().for_each(|name| keep(annotated, name, is_noted(name))),
        }
        for (pool, nodes) in &view.facts.nodes_of_pool {
            let is_noted = |name: &String| nodes.get(name).is_some_and(|node| node.metadata.is_annotated());
            match self.noted.get_mut(pool) {
                None => drop(self.noted.insert(pool.clone(), nodes.keys().filter(|name| is_noted(name)).cloned().collect())),
                Some(noted) => {
                    for name in changed.iter().filter_map(|claim| view.claims.get(claim)?.status.node_name.as_ref()) {
                        keep(noted, name, is_noted(name));
                    }
                }
            }
        }
        for kept in self.censuses.values_mut() {
            kept.changed.extend(changed.iter().cloned());
        }
    }

    /// What the step of a pool begins with. Its Nodes are looked at only where a claim is triggered, and they are known.
    pub(super) fn know(&mut self, claims: &ByPool<'_>, pool: &Pool<'_>) -> Known<'_> {
        let name = pool.pool.metadata.name.as_str();
        if let Some(policy) = pool.policy {
            self.take_census(claims, Governed { of: pool, policy });
        } else {
            self.censuses.remove(name);
        }
        let text = pool.pool.metadata.annotation(keys::TOTALS);
        if self.totals.get(name).is_none_or(|(known, _)| known.as_deref() != text) {
            let totals = Totals::of(&pool.pool.metadata).unwrap_or_default();
            self.totals.insert(name.to_owned(), (text.map(str::to_owned), totals));
        }
        let kept = self.censuses.get(name);
        Known { totals: &self.totals[name].1, census: kept.map(|kept| &kept.census), template: kept.map(|kept| &kept.template) }
    }

    fn take_census(&mut self, claims: &ByPool<'_>, pool: Governed<'_>) {
        let known = claims.view.facts.nodes_of_pool.get(pool.name()).map(Arc::as_ref);
        let kept = self.censuses.remove(pool.name()).filter(|kept| kept.holds_for(pool));
        let mut kept = match kept {
            Some(kept) => kept.follow(claims, pool, known),
            None => Kept::take(claims, pool, known),
        };
        let nodes = known.filter(|_| !kept.census.triggered.is_empty());
        if nodes.is_some() != kept.knows_nodes {
            kept = Kept::take(claims, pool, nodes);
        }
        kept.judge_template(pool);
        self.censuses.insert(pool.name().to_owned(), kept);
    }
}

fn keep(names: &mut BTreeSet<String>, name: &String, holds: bool) {
    if holds {
        names.insert(name.clone());
    } else {
        names.remove(name);
    }
}

impl Kept {
    fn take(claims: &ByPool<'_>, pool: Governed<'_>, nodes: Option<&Nodes>) -> Self {
        let around = Around { nodes, in_flight: pool.in_flight(), swept: pool.of.swept };
        let census = pool.rules().census(claims.of(pool.name()).iter().copied(), around);
        Self {
            knows_nodes: nodes.is_some() && !census.triggered.is_empty(),
            policy: (pool.policy.uid.clone(), pool.policy.generation),
            schedule: Arc::clone(pool.of.schedule),
            taken_at: pool.of.now,
            in_flight: pool.in_flight().map(str::to_owned),
            swept: pool.of.swept.clone(),
            changed: BTreeSet::new(),
            template: pool.template(census.claims()),
            judged: (pool.of.pool.spec.clone(), census.claims()),
            census,
        }
    }

    /// Judges the template again where it, or the number of claims, is no longer what it was.
    fn judge_template(&mut self, pool: Governed<'_>) {
        let (spec, claims) = (&pool.of.pool.spec, self.census.claims());
        if self.judged.1 != claims || !(self.judged.0.is_same(spec) || self.judged.0 == *spec) {
            self.template = pool.template(claims);
            self.judged = (spec.clone(), claims);
        }
    }

    /// Whether those claims that nothing has changed of are still judged as they would be now. Blackouts make every moment
    /// another one.
    fn holds_for(&self, pool: Governed<'_>) -> bool {
        self.policy.0 == pool.policy.uid
            && self.policy.1 == pool.policy.generation
            && Arc::ptr_eq(&self.schedule, pool.of.schedule)
            && self.schedule.blackouts.is_empty()
            && self.taken_at <= pool.of.now
    }

    /// Judges those claims again that are no longer what they were.
    fn follow(mut self, claims: &ByPool<'_>, pool: Governed<'_>, known: Option<&Nodes>) -> Self {
        let in_flight = pool.in_flight();
        let around = Around { nodes: known.filter(|_| self.knows_nodes), in_flight, swept: pool.of.swept };
        if around.nodes.is_some() != self.knows_nodes {
            return Self::take(claims, pool, None);
        }
        let mut again = std::mem::take(&mut self.changed);
        again.extend(self.census.to_recheck(pool.of.now));
        if self.in_flight.as_deref() != in_flight {
            again.extend(self.in_flight.take());
            again.extend(in_flight.map(str::to_owned));
            self.in_flight = in_flight.map(str::to_owned);
        }
        again.extend(self.swept.symmetric_difference(pool.of.swept).cloned());
        self.swept.clone_from(pool.of.swept);
        let rules = pool.rules();
        for name in again {
            let claim = claims.view.claims.get(&name).filter(|claim| claim.pool() == Some(pool.name()));
            rules.judge_again(&mut self.census, &name, claim, around);
        }
        self.taken_at = pool.of.now;
        self
    }
}
