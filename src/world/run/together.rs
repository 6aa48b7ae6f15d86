//! NodePools whose passes share one limit, [`Config::max_in_flight`]: their worlds are played on one clock, and a pass looks at
//! every pool in which it could do something.
//!
//! [`Config::max_in_flight`]: crate::rotation::scene::Config::max_in_flight

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{Passes, carry_out, decided, woken};
use crate::{
    api::{keys, time::Time},
    rotation::{
        decide::{Decision, grant},
        step::Step,
    },
    world::pool::PoolWorld,
};

/// Runs the worlds, all of the same moment, until then, with a pass over them at every cadence.
pub fn run(worlds: &[RefCell<PoolWorld>], passes: &Passes, until: Time) {
    let Some(begin) = worlds.first().map(|world| world.borrow().now) else { return };
    let pools = worlds.iter().map(|world| Pool { world, wake: Some(begin), pass: None, next: None }).collect();
    let mut fleet = Fleet { pools, passes, begin, agenda: BTreeSet::new(), in_flight: BTreeSet::new(), held: BTreeSet::new() };
    for index in 0..worlds.len() {
        fleet.note(index);
        fleet.plan(index);
    }
    while let Some(now) = fleet.agenda.first().map(|(at, _)| *at).filter(|at| *at <= until) {
        let due = fleet.advance(now);
        if !due.is_empty() {
            fleet.pass(now, due);
        }
    }
    for world in worlds {
        world.borrow_mut().advance(until);
    }
}

struct Pool<'a> {
    world: &'a RefCell<PoolWorld>,
    /// From when on a pass could do something here.
    wake: Option<Time>,
    /// When the next pass looks at it.
    pass: Option<Time>,
    /// When the next thing happens there, a pass included.
    next: Option<Time>,
}

struct Fleet<'a> {
    pools: Vec<Pool<'a>>,
    passes: &'a Passes,
    begin: Time,
    /// When the next thing happens in each pool: [`Pool::next`], in order.
    agenda: BTreeSet<(Time, usize)>,
    /// Pools with a rotation.
    in_flight: BTreeSet<usize>,
    /// Pools that the limit keeps from a start.
    held: BTreeSet<usize>,
}

impl Fleet<'_> {
    /// Whether there is a place for one more rotation.
    fn is_room(&self) -> bool {
        self.passes.config.max_in_flight.is_none_or(|max| self.in_flight.len() < max)
    }

    fn note(&mut self, index: usize) {
        let world = self.pools[index].world.borrow();
        if world.view.pools.values().any(|pool| pool.metadata.annotation(keys::ACTIVE_ROTATION).is_some()) {
            self.in_flight.insert(index);
        } else {
            self.in_flight.remove(&index);
        }
    }

    fn plan(&mut self, index: usize) {
        let pool = &mut self.pools[index];
        let mut world = pool.world.borrow_mut();
        pool.wake = woken(&mut world, pool.wake);
        pool.pass = pool.wake.map(|wake| self.passes.next(self.begin, wake.max(world.now)));
        pool.next = [world.next_due(), pool.pass].into_iter().flatten().min();
        self.agenda.extend(pool.next.map(|next| (next, index)));
    }

    /// Lets everything of this moment happen, and tells the pools that a pass looks at now.
    fn advance(&mut self, now: Time) -> BTreeSet<usize> {
        let mut due = BTreeSet::new();
        while let Some((_, index)) = self.agenda.first().copied().filter(|(at, _)| *at <= now) {
            self.agenda.pop_first();
            let pool = &self.pools[index];
            pool.world.borrow_mut().advance(now);
            if pool.pass == Some(now) {
                due.insert(index);
            } else {
                self.plan(index);
            }
        }
        due
    }

    /// One pass. The pools that it leaves out have nothing to do, or are held with no place left.
    fn pass(&mut self, now: Time, mut due: BTreeSet<usize>) {
        if self.is_room() {
            due.append(&mut self.held);
        }
        for index in &due {
            if let Some(next) = self.pools[*index].next {
                self.agenda.remove(&(next, *index));
            }
        }
        let mut steps = BTreeMap::new();
        let decisions: Vec<(usize, Decision)> = due.iter().map(|index| (*index, self.decide(*index, now, &mut steps))).collect();
        let starting: BTreeSet<String> = steps.iter().filter(|(_, step)| step.starts.is_some()).map(|(pool, _)| pool.clone()).collect();
        grant(&mut steps, self.in_flight.len(), &self.passes.config);
        for (index, mut decision) in decisions {
            let world = self.pools[index].world;
            let step = steps.remove_entry(&world.borrow().name);
            let is_held = step.as_ref().is_some_and(|(_, step)| step.assessment.gates.iter().any(|gate| gate.code == "max-in-flight"));
            let is_passed_over = step.as_ref().is_some_and(|(pool, step)| step.starts.is_none() && starting.contains(pool));
            decision.steps.extend(step);
            let by_time = carry_out(world, decision);
            // Who was passed over has yet to be told what it waits for.
            let at_once = world.borrow_mut().take_changed() || is_passed_over;
            self.pools[index].wake = self.passes.after(now, at_once, by_time);
            if is_held {
                self.held.insert(index);
            } else {
                self.held.remove(&index);
            }
            self.note(index);
            self.plan(index);
        }
    }

    /// What a pass decides on a pool, its step but for the grant apart.
    fn decide(&self, index: usize, now: Time, steps: &mut BTreeMap<String, Step>) -> Decision {
        let mut world = self.pools[index].world.borrow_mut();
        world.advance(now);
        world.view.in_flight_elsewhere = self.in_flight.len() - usize::from(self.in_flight.contains(&index));
        let mut decision = decided(&mut world, self.passes);
        steps.append(&mut decision.steps);
        decision
    }
}
