//! Time passes: the models' events, and a pass whenever one could do something.

use std::cell::RefCell;

use chrono::TimeDelta;
use futures::FutureExt;

use super::{door::PoolDoor, pool::PoolWorld};
use crate::{
    api::time::{Time, later},
    pass::perform,
    rotation::{
        decide::{Decision, ROUNDS, decide, decide_or_ask, schedules},
        scene::Config,
    },
    view::Facts,
};

/// When passes run.
#[derive(Debug, Clone)]
pub struct Passes {
    /// The flags.
    pub config: Config,
    /// Whether passes that could do nothing are left out: the clock jumps to the next moment at which anything can change.
    pub jump: bool,
    /// When no pass runs: `[from, to)`.
    pub outages: Vec<(Time, Time)>,
}

/// Runs a pool's world until then, with a pass at every cadence where there are any.
pub fn run(world: &RefCell<PoolWorld>, passes: Option<&Passes>, until: Time) {
    let Some(passes) = passes else {
        world.borrow_mut().advance(until);
        return;
    };
    let begin = world.borrow().now;
    let mut wake = Some(begin);
    loop {
        let (now, due) = {
            let mut world = world.borrow_mut();
            if world.take_changed() {
                wake = Some(wake.map_or(world.now, |wake| wake.min(world.now)));
            }
            (world.now, world.next_due())
        };
        let pass = wake.map(|wake| passes.next(begin, wake.max(now)));
        let Some(next) = [due, pass].into_iter().flatten().min().filter(|next| *next <= until) else { break };
        world.borrow_mut().advance(next);
        if pass == Some(next) {
            let by_time = pass_once(world, passes);
            // The next pass is a tick away at the earliest, and wanted where something has been written.
            let soonest = later(next, TimeDelta::seconds(1));
            let at_once = world.borrow_mut().take_changed() || !passes.jump;
            wake = if at_once { Some(soonest) } else { by_time.map(|wake| wake.max(soonest)) };
        }
    }
    world.borrow_mut().advance(until);
}

impl Passes {
    /// The first pass at or after this moment.
    fn next(&self, begin: Time, moment: Time) -> Time {
        let cadence = self.config.cadence.num_seconds().max(1);
        let tick = |moment: Time| {
            let behind = (moment - begin).num_seconds().rem_euclid(cadence);
            later(moment, TimeDelta::seconds(if behind == 0 { 0 } else { cadence - behind }))
        };
        let mut next = tick(moment);
        for (from, to) in &self.outages {
            if *from <= next && next < *to {
                next = tick(*to);
            }
        }
        next
    }
}

/// One pass; says when the next can do something by time alone.
fn pass_once(world: &RefCell<PoolWorld>, passes: &Passes) -> Option<Time> {
    let decision = decided(&mut world.borrow_mut(), &passes.config);
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
    world.borrow_mut().schedule();
    wake
}

fn decided(world: &mut PoolWorld, config: &Config) -> Decision {
    let schedules = schedules(&world.view, world.now);
    for _ in 0..ROUNDS {
        match decide_or_ask(&world.view, world.now, config, &schedules) {
            Ok(decision) => {
                world.view.facts = Facts::default();
                return decision;
            }
            Err(needs) => {
                let mut facts = std::mem::take(&mut world.view.facts);
                for need in &needs {
                    world.answer(need, &mut facts);
                }
                world.view.facts = facts;
            }
        }
    }
    let decision = decide(&world.view, world.now, config);
    world.view.facts = Facts::default();
    decision
}
