//! One pool's part of the View, with what follows from its policy: what every state of the machine looks at.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

use chrono::TimeDelta;

use super::{
    effect::{Effect, Owner},
    memory::Template,
    notice::Regarding,
    step::Planned,
    totals::Totals,
};
use crate::{
    api::{
        karpenter::{NodeClaim, NodePool},
        keys,
        meta::Stamp,
        pod::Pod,
        time::{Time, later},
    },
    candidates::{Census, Rules},
    policy::{Policy, Settings, resolve::Governance},
    schedule::window::Schedule,
    surge::{
        self,
        placeholder::{PlaceholderSettings, claim_of},
    },
    view::View,
};

/// What a pass is told by its flags and the core needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The time between passes.
    pub cadence: TimeDelta,
    /// How placeholders are made.
    pub placeholder: PlaceholderSettings,
    /// Whether a start is rehearsed by dry run before anything is touched.
    pub rehearse: bool,
    /// How many rotations may be in flight in the cluster; `None` for no limit.
    pub max_in_flight: Option<usize>,
}

/// What this pass's sweep does, as far as a pool's step has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Claims that are marked failed.
    pub claims: BTreeSet<String>,
    /// Pools that had something swept: they take no start in this pass.
    pub pools: BTreeSet<String>,
}

/// A pool, seen by its step.
pub struct Scene<'a> {
    /// Everything that is known.
    pub view: &'a View,
    /// Now.
    pub now: Time,
    /// The flags.
    pub config: &'a Config,
    /// The pool.
    pub pool: &'a NodePool,
    /// The claims of all pools.
    pub by_pool: &'a (dyn Claims + 'a),
    /// Those claims that carry an annotation of ours, by name.
    pub annotated: &'a [&'a NodeClaim],
    /// The pool's totals; nothing counted where they can't be read.
    pub totals: &'a Totals,
    /// The census of this pool's claims, where a policy governs it.
    pub census: Option<&'a Census>,
    /// What the policy means for its template, likewise.
    pub template: Option<&'a Template>,
    /// Who governs it.
    pub governance: &'a Governance<'a>,
    /// The policy whose fields are used: the governing one, or the first of those that tie.
    pub policy: Option<&'a Policy>,
    /// That policy's schedule.
    pub schedule: &'a Schedule,
    /// What the sweep does.
    pub swept: &'a Swept,
    /// Rotations in flight in the whole cluster.
    pub in_flight: usize,
}

impl<'a> Scene<'a> {
    /// The pool's name.
    pub fn name(&self) -> &'a str {
        &self.pool.metadata.name
    }

    /// The pool, as the object of an Event.
    pub fn regarding(&self) -> Regarding {
        Regarding::pool(&self.pool.metadata)
    }

    /// The claim that the anchor names.
    pub fn anchor(&self) -> Option<&'a str> {
        self.pool.metadata.annotation(keys::ACTIVE_ROTATION)
    }

    /// Whether the anchored rotation has no surge.
    pub fn is_fallback(&self) -> bool {
        self.pool.metadata.annotation(keys::ROTATION_MODE) == Some(keys::MODE_FORCEFUL_FALLBACK)
    }

    /// The pool's claims, by name.
    pub fn claims(&self) -> &'a [&'a NodeClaim] {
        self.by_pool.of(self.name())
    }

    /// A claim of this pool.
    pub fn claim(&self, name: &str) -> Option<&'a NodeClaim> {
        self.view.claims.get(name).map(Deref::deref).filter(|claim| claim.pool() == Some(self.name()))
    }

    /// The pool's claim that became this Node.
    pub fn claim_on(&self, node: &str) -> Option<&'a NodeClaim> {
        surge::induced(self.view.claims.values().map(Deref::deref), self.name(), node)
    }

    /// The rules of the census under these settings.
    pub fn rules(&self, settings: &'a Settings) -> Rules<'a> {
        Rules::new(settings, self.schedule, self.config.cadence, self.now)
    }

    /// What the freeze annotation says: `None` when the pool isn't frozen, else until when (`None`: unreadable, so
    /// until the operator mends it).
    pub fn frozen(&self) -> Option<Option<Time>> {
        match self.pool.metadata.stamp(keys::FREEZE) {
            Stamp::Absent => None,
            Stamp::At(until) => (self.now < until).then_some(Some(until)),
            Stamp::Unreadable => Some(None),
        }
    }

    /// The latest instant that a stamp may name: ahead by the skew between two API servers, no more. A later one comes from
    /// a wrong clock, can't be used, and is told.
    pub fn horizon(&self) -> Time {
        later(self.now, self.config.cadence)
    }

    /// When a pause that began at this stamp of the pool ends; `None` where it does not hold (any more).
    pub fn pause(&self, key: &str, length: TimeDelta) -> Option<Time> {
        let since = self.pool.metadata.stamp(key).time()?;
        let until = later(since, length);
        (since <= self.horizon() && self.now < until).then_some(until)
    }

    /// The placeholders of a rotation, by name.
    pub fn placeholders_of(&self, claim: &str) -> impl Iterator<Item = (&'a String, &'a Pod)> {
        self.view.placeholders.iter().filter(move |(_, pod)| claim_of(pod) == Some(claim)).map(|(name, pod)| (name, &**pod))
    }

    /// Removes the placeholder and every mark of a rotation; what is gone has nothing to undo.
    pub fn cleanup(&self, claim: &str) -> Vec<Planned> {
        let placeholders = self.placeholders_of(claim).map(|(name, _)| self.delete_placeholder(name, claim));
        let marked = self.view.marked.values().filter(|node| node.metadata.annotation(keys::SURGE_FOR) == Some(claim));
        let nodes = marked.map(|node| restore(&node.metadata.name, claim));
        placeholders.chain(nodes).collect()
    }

    /// Deletes a placeholder of this rotation.
    pub fn delete_placeholder(&self, name: &str, claim: &str) -> Planned {
        let namespace = self.config.placeholder.namespace.clone();
        Planned::new(Effect::DeletePlaceholder { namespace, name: name.into(), claim: claim.into() }).gone_is_fine()
    }
}

/// Removes a rotation's marks from a Node.
pub fn restore(node: &str, claim: &str) -> Planned {
    Planned::new(Effect::Restore { node: node.into(), owner: Owner::Claim(claim.into()) }).gone_is_fine()
}

/// The claims of all pools.
pub trait Claims {
    /// Those of a pool, by name.
    fn of(&self, pool: &str) -> &[&NodeClaim];
}

/// The claims of a View by their pool, brought together when somebody asks.
pub struct ByPool<'a> {
    /// The View.
    pub view: &'a View,
    pools: OnceCell<BTreeMap<&'a str, Vec<&'a NodeClaim>>>,
}

impl<'a> ByPool<'a> {
    /// Of this View.
    pub fn new(view: &'a View) -> Self {
        Self { view, pools: OnceCell::new() }
    }
}

impl Claims for ByPool<'_> {
    fn of(&self, pool: &str) -> &[&NodeClaim] {
        let pools = self.pools.get_or_init(|| {
            let mut pools: BTreeMap<&str, Vec<&NodeClaim>> = BTreeMap::new();
            for claim in self.view.claims.values() {
                if let Some(pool) = claim.pool() {
                    pools.entry(pool).or_default().push(claim);
                }
            }
            pools
        });
        pools.get(pool).map_or(&[], Vec::as_slice)
    }
}
