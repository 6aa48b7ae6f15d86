//! Time passes: the models' events, and a pass whenever one could do something.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use chrono::TimeDelta;
use futures::FutureExt;

use super::{door::PoolDoor, pool::PoolWorld};
use crate::{
    api::time::{Time, later},
    pass::perform,
    policy::Policy,
    rotation::{
        decide::{Decision, ROUNDS, Schedules, decide, decide_or_ask},
        memory::Memory,
        scene::Config,
    },
    schedule::window::Schedule,
    view::{Facts, Need, View},
};

pub mod together;

/// When passes run.
#[derive(Debug, Clone)]
pub struct Passes {
    /// The flags.
    pub config: Config,
    /// Whether passes that could do nothing are left out: the clock jumps to the next moment at which anything can change.
    pub jump: bool,
    /// When no pass runs: `[from, to)`.
    pub outages: Vec<(Time, Time)>,
    /// What the policies' windows mean: the same for all pools.
    pub calendar: Arc<Calendar>,
}

/// Schedules that were worked out, each for as long as it holds. Pools that are simulated one after another, or side by
/// side, ask for the same.
#[derive(Debug, Default)]
pub struct Calendar(Mutex<HashMap<(String, i64), Vec<Page>>>);

#[derive(Debug)]
struct Page {
    from: Time,
    until: Time,
    schedule: Arc<Schedule>,
}

impl Calendar {
    /// The schedules of the policies at `now`, in whole seconds.
    fn at(&self, view: &View, now: Time) -> Schedules {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |policy: &Policy| {
            let pages = pages.entry((policy.uid.clone(), policy.generation)).or_default();
            let after = pages.partition_point(|page| page.from <= now);
            if let Some(page) = after.checked_sub(1).and_then(|last| pages.get(last))
                && now < page.until
            {
                return (policy.name.clone(), Arc::clone(&page.schedule));
            }
            let schedule = Arc::new(Schedule::under(&policy.settings, now));
            let until = schedule.holds_until(&policy.settings.windows, now);
            pages.insert(after, Page { from: now, until, schedule: Arc::clone(&schedule) });
            (policy.name.clone(), schedule)
        };
        view.policies.values().map(of).collect()
    }
}

/// Runs a pool's world until then, with a pass at every cadence where there are any.
pub fn run(world: &RefCell<PoolWorld>, passes: Option<&Passes>, until: Time) {
    let Some(passes) = passes else {
        world.borrow_mut().advance(until);
        return;
    };
    let begin = world.borrow().now;
    let mut wake = Some(begin);
    let mut pass = Some(passes.next(begin, begin));
    loop {
        let (now, due, woken) = {
            let mut world = world.borrow_mut();
            let woken = woken(&mut world, wake);
            (world.now, world.next_due(), woken)
        };
        // The pass that was to come is still the next where nothing has changed on the way to it.
        if woken != wake || pass.is_some_and(|pass| pass < now) {
            wake = woken;
            pass = wake.map(|wake| passes.next(begin, wake.max(now)));
        }
        let Some(next) = [due, pass].into_iter().flatten().min().filter(|next| *next <= until) else { break };
        world.borrow_mut().advance(next);
        if pass == Some(next) {
            let by_time = pass_once(world, passes);
            let wrote = world.borrow_mut().take_changed();
            wake = passes.after(next, wrote, by_time);
            pass = wake.map(|wake| passes.next(begin, wake.max(next)));
        }
    }
    world.borrow_mut().advance(until);
}

impl Passes {
    /// The first pass at or after this moment.
    fn next(&self, begin: Time, moment: Time) -> Time {
        let mut next = tick(begin, self.config.cadence, moment);
        for (from, to) in &self.outages {
            if *from <= next && next < *to {
                next = tick(begin, self.config.cadence, *to);
            }
        }
        next
    }

    /// From when on a pass could do something again, after one at `now`: a tick later at the earliest, and `at_once` where
    /// it has written something.
    fn after(&self, now: Time, at_once: bool, by_time: Option<Time>) -> Option<Time> {
        let soonest = later(now, TimeDelta::seconds(1));
        if at_once || !self.jump { Some(soonest) } else { by_time.map(|wake| wake.max(soonest)) }
    }
}

/// From when on a pass could do something: `wake`, or now where something has changed.
fn woken(world: &mut PoolWorld, wake: Option<Time>) -> Option<Time> {
    if world.take_changed() { Some(wake.map_or(world.now, |wake| wake.min(world.now))) } else { wake }
}

/// The first moment that is a whole number of cadences (in whole seconds) after the beginning, and not before `moment`.
pub fn tick(begin: Time, cadence: TimeDelta, moment: Time) -> Time {
    let cadence = cadence.num_seconds().max(1);
    let behind = (moment - begin).num_seconds().rem_euclid(cadence);
    later(moment, TimeDelta::seconds(if behind == 0 { 0 } else { cadence - behind }))
}

/// One pass; says when the next can do something by time alone.
fn pass_once(world: &RefCell<PoolWorld>, passes: &Passes) -> Option<Time> {
    let decision = decided(&mut world.borrow_mut(), passes);
    carry_out(world, decision)
}

/// Does what was decided; says when the next pass can do something by time alone.
fn carry_out(world: &RefCell<PoolWorld>, decision: Decision) -> Option<Time> {
    let wake = decision.steps.values().filter_map(|step| step.wake_at).min();
    let id = format!("pass-{}", world.borrow().now.timestamp());
    let door = PoolDoor::new(world, id);
    for planned in &decision.sweep {
        let _ = perform(&door, std::slice::from_ref(planned)).now_or_never();
    }
    for step in decision.steps.into_values() {
        for planned in &step.aside {
            let _ = perform(&door, std::slice::from_ref(planned)).now_or_never();
        }
        let _ = perform(&door, &step.effects).now_or_never();
        let mut world = world.borrow_mut();
        for notice in &step.conditions {
            world.hear(notice);
        }
    }
    let mut world = world.borrow_mut();
    world.schedule();
    world.foreseen = wake;
    wake
}

/// What is remembered must never change what is decided.
fn is_as_without_memory(world: &PoolWorld, config: &Config, schedules: &Schedules, decided: &Decision) -> bool {
    decide_or_ask(&world.view, world.now, config, schedules, &mut Memory::default()).is_ok_and(|anew| anew == *decided)
}

fn decided(world: &mut PoolWorld, passes: &Passes) -> Decision {
    let config = &passes.config;
    let schedules = passes.calendar.at(&world.view, world.now);
    let mut facts = Facts { all_nodes: Some(Arc::clone(&world.nodes)), ..Facts::default() };
    world.answer(&Need::NodesOfPool(world.name.clone()), &mut facts);
    // What time alone brings is a start, as a rule, and what that asks for is no secret.
    if world.foreseen.is_some_and(|foreseen| foreseen <= world.now)
        && let Some(candidate) = world.memory.first_candidate(&world.name)
    {
        world.answer(&Need::PodsOn(candidate.node.clone()), &mut facts);
    }
    world.view.facts = facts;
    let mut memory = std::mem::take(&mut world.memory);
    let mut decision = None;
    for _ in 0..ROUNDS {
        match decide_or_ask(&world.view, world.now, config, &schedules, &mut memory) {
            Ok(decided) => {
                debug_assert!(
                    is_as_without_memory(world, config, &schedules, &decided),
                    "{} at {}: a change was not told",
                    world.name,
                    world.now
                );
                decision = Some(decided);
                break;
            }
            Err(needs) => {
                // The answers of the last round count as well: the decision below is made with them.
                let mut facts = std::mem::take(&mut world.view.facts);
                needs.iter().for_each(|need| world.answer(need, &mut facts));
                world.view.facts = facts;
            }
        }
    }
    let decision = decision.unwrap_or_else(|| decide(&world.view, world.now, config));
    world.view.facts = Facts::default();
    world.memory = memory;
    decision
}
