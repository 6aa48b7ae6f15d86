//! What decisions on one View after another have in common. A pass decides on its View in a few rounds; a simulated cluster
//! goes on with one View for months, and says what has changed of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

use chrono::TimeDelta;

use super::{
    notice::Notice,
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
    candidates::{Around, Candidate, Census, Derived, Rules},
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
    changed: BTreeSet<Arc<str>>,
}

/// What a policy means for the template of a pool, which stands for its claims.
#[derive(Debug, Clone)]
pub struct Template {
    /// By the template's own lifetime.
    pub derivation: Derivation,
    /// What is wrong with the policy on this pool.
    pub findings: Vec<Shared<Finding>>,
    /// That as it is told.
    pub notices: Vec<Shared<Notice>>,
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
    derived: Option<Derived>,
    policy: (String, i64),
    schedule: Arc<Schedule>,
    /// Whether the census has looked at the Nodes.
    knows_nodes: bool,
    taken_at: Time,
    in_flight: Option<String>,
    swept: BTreeSet<String>,
    changed: BTreeSet<Arc<str>>,
    /// The pool's UID.
    pool: String,
    /// By the number of claims, for one spec of the pool.
    templates: (Shared<NodePoolSpec>, BTreeMap<usize, Template>),
}

type Nodes = BTreeMap<String, Shared<Node>>;

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

    fn around(self, nodes: Option<&'a Nodes>) -> Around<'a> {
        Around { nodes, in_flight: self.in_flight(), swept: self.of.swept }
    }

    fn rules(self) -> Rules<'a> {
        Rules::new(&self.policy.settings, self.of.schedule, self.of.cadence, self.of.now)
    }

    fn template(self, claims: usize) -> Template {
        let spec = &self.of.pool.spec.template.spec;
        let lifetime = Lifetime { expire_after: spec.expire_after(), grace: spec.grace() };
        let derivation = Derivation::of(&self.policy.settings, self.of.schedule, lifetime, self.of.cadence);
        let findings = findings(self.policy, self.of.schedule, self.of.pool, claims, &derivation);
        let notices = findings.iter().map(|finding| Notice::of_finding(finding, &self.of.pool.metadata).into()).collect();
        Template { derivation, findings: findings.into_iter().map(Into::into).collect(), notices }
    }
}

impl Memory {
    /// The pool's first candidate, as it was when that was last looked at.
    pub fn first_candidate(&self, pool: &str) -> Option<&Candidate> {
        self.censuses.get(pool)?.census.candidates.first()
    }

    /// Says that a NodeClaim, or its Node, has come, changed or gone.
    pub fn changed(&mut self, claim: &str) {
        self.changed.insert(claim.into());
    }

    /// Claims of the View that carry an annotation of ours, and those of the Nodes that it knows by their pools, by name; takes
    /// note of what has been said to have changed.
    pub(super) fn annotated<'v>(&mut self, view: &'v View) -> (Vec<&'v NodeClaim>, Vec<&'v Node>) {
        self.catch_up(view);
        let claims = self.annotated.iter().flatten().filter_map(|name| view.claims.get(name).map(Deref::deref)).collect();
        let of_pool = |(pool, noted): (&String, &BTreeSet<String>)| {
            let nodes = view.facts.nodes_of_pool.get(pool)?;
            Some(noted.iter().filter_map(|name| nodes.get(name).map(Deref::deref)).collect::<Vec<_>>())
        };
        (claims, self.noted.iter().filter_map(of_pool).flatten().collect())
    }

    fn catch_up(&mut self, view: &View) {
        let is_noted = |name: &str| view.claims.get(name).is_some_and(|claim| claim.metadata.is_annotated());
        let changed = std::mem::take(&mut self.changed);
        match &mut self.annotated {
            None => self.annotated = Some(view.claims.keys().filter(|name| is_noted(name)).cloned().collect()),
            Some(annotated) => changed.iter().for_each(|name| keep(annotated, name, is_noted(name))),
        }
        for (pool, nodes) in &view.facts.nodes_of_pool {
            let is_noted = |name: &str| nodes.get(name).is_some_and(|node| node.metadata.is_annotated());
            match self.noted.get_mut(pool) {
                None => drop(self.noted.insert(pool.clone(), nodes.keys().filter(|name| is_noted(name)).cloned().collect())),
                Some(noted) => {
                    // Of a claim that is gone nobody tells the Node.
                    noted.retain(|name| nodes.contains_key(name));
                    for name in changed.iter().filter_map(|claim| view.claims.get(&**claim)?.status.node_name.as_ref()) {
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
        Known { totals: &self.totals[name].1, census: kept.map(|kept| &kept.census), template: kept.and_then(Kept::template) }
    }

    fn take_census(&mut self, claims: &ByPool<'_>, pool: Governed<'_>) {
        let known = claims.view.facts.nodes_of_pool.get(pool.name()).map(Arc::as_ref);
        if !self.censuses.get(pool.name()).is_some_and(|kept| kept.holds_for(pool, known.is_some())) {
            self.censuses.insert(pool.name().to_owned(), Kept::take(claims, pool));
        }
        let Some(kept) = self.censuses.get_mut(pool.name()) else { return };
        kept.follow(claims, pool, known, self.annotated.iter().flatten());
        let nodes = known.filter(|_| !kept.census.triggered.is_empty());
        if nodes.is_some() != kept.knows_nodes {
            kept.look_at_nodes(claims, pool, nodes);
        }
        kept.judge_template(pool);
    }
}

fn keep(names: &mut BTreeSet<String>, name: &str, holds: bool) {
    if !holds {
        names.remove(name);
    } else if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

impl Kept {
    fn take(claims: &ByPool<'_>, pool: Governed<'_>) -> Self {
        let rules = pool.rules();
        let census = rules.census(claims.of(pool.name()).iter().copied(), pool.around(None));
        Self {
            derived: rules.derived(),
            knows_nodes: false,
            policy: (pool.policy.uid.clone(), pool.policy.generation),
            pool: pool.of.pool.metadata.uid.clone(),
            schedule: Arc::clone(pool.of.schedule),
            taken_at: pool.of.now,
            in_flight: pool.in_flight().map(str::to_owned),
            swept: pool.of.swept.clone(),
            changed: BTreeSet::new(),
            templates: (pool.of.pool.spec.clone(), BTreeMap::new()),
            census,
        }
    }

    fn template(&self) -> Option<&Template> {
        self.templates.1.get(&self.census.claims())
    }

    /// Judges the template as it is now, and for as many claims as there are, where that has not been done.
    fn judge_template(&mut self, pool: Governed<'_>) {
        let spec = &pool.of.pool.spec;
        if !(self.templates.0.is_same(spec) || self.templates.0 == *spec) {
            self.templates = (spec.clone(), BTreeMap::new());
        }
        let claims = self.census.claims();
        self.templates.1.entry(claims).or_insert_with(|| pool.template(claims));
    }

    /// Judges those claims again of which the Nodes, known from now on or no longer, tell something.
    fn look_at_nodes(&mut self, claims: &ByPool<'_>, pool: Governed<'_>, nodes: Option<&Nodes>) {
        let around = pool.around(nodes);
        let mut again: BTreeSet<Arc<str>> = self.census.by_node().collect();
        if nodes.is_some() {
            again.extend(
                claims.of(pool.name()).iter().filter(|claim| around.tells_of(claim)).map(|claim| claim.metadata.name.as_str().into()),
            );
        }
        self.judge_again(claims, pool, again, around);
        self.knows_nodes = nodes.is_some();
    }

    fn judge_again(&mut self, claims: &ByPool<'_>, pool: Governed<'_>, names: BTreeSet<Arc<str>>, around: Around<'_>) {
        let rules = pool.rules().knowing(self.derived.take());
        for name in names {
            let claim = claims.view.claims.get(&*name).filter(|claim| claim.pool() == Some(pool.name()));
            rules.judge_again(&mut self.census, &name, claim.map(Deref::deref), around);
        }
        self.derived = rules.derived();
    }

    /// Whether those claims that nothing has changed of are still judged as they would be now. Blackouts make every moment
    /// another one.
    fn holds_for(&self, pool: Governed<'_>, nodes_are_known: bool) -> bool {
        self.pool == pool.of.pool.metadata.uid
            && self.policy.0 == pool.policy.uid
            && self.policy.1 == pool.policy.generation
            && (Arc::ptr_eq(&self.schedule, pool.of.schedule) || self.schedule.derives_as(pool.of.schedule))
            && self.schedule.blackouts.is_empty()
            && pool.of.schedule.blackouts.is_empty()
            && self.taken_at <= pool.of.now
            && (nodes_are_known || !self.knows_nodes)
    }

    /// Judges those claims again that are no longer what they were. `annotated` are the claims that carry an annotation of ours.
    fn follow<'n>(&mut self, claims: &ByPool<'_>, pool: Governed<'_>, known: Option<&Nodes>, annotated: impl Iterator<Item = &'n String>) {
        let mut again = std::mem::take(&mut self.changed);
        again.extend(self.census.to_recheck(pool.of.now));
        if !Arc::ptr_eq(&self.schedule, pool.of.schedule) {
            // What an attempt that failed waits for is the next opening.
            again.extend(annotated.map(|name| name.as_str().into()));
            self.schedule = Arc::clone(pool.of.schedule);
            self.templates.1.clear();
        }
        let in_flight = pool.in_flight();
        if self.in_flight.as_deref() != in_flight {
            again.extend(self.in_flight.take().map(Into::into));
            again.extend(in_flight.map(Into::into));
            self.in_flight = in_flight.map(str::to_owned);
        }
        if self.swept != *pool.of.swept {
            again.extend(self.swept.symmetric_difference(pool.of.swept).map(|name| name.as_str().into()));
            self.swept.clone_from(pool.of.swept);
        }
        self.judge_again(claims, pool, again, pool.around(known.filter(|_| self.knows_nodes)));
        self.taken_at = pool.of.now;
    }
}
