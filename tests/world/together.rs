//! Pools under `--max-in-flight`, played by the forecast's shortcut and by whole passes, one every minute over all of them.

use std::{cell::RefCell, collections::BTreeMap};

use chrono::TimeDelta;
use futures::FutureExt;
use noderotation::{
    api::time::later,
    rotation::totals::Totals,
    world::{
        history::{Event, Happening},
        pool::PoolWorld,
        run::{Passes, together},
    },
};

use crate::{
    door::Door,
    ledger::Ledger,
    scenario::{Scenario, begin, pool},
};

/// Until two windows are over.
const DAYS: i64 = 3;

/// Five pools, all of it due early, whose drains are long: a window of two hours is too short for what waits.
fn scenario(max_in_flight: Option<usize>) -> Scenario {
    let mut scenario = Scenario::quiet();
    scenario.pools = ["api", "batch", "data", "jobs", "web"].map(|name| pool(name, 2, "168h", Some("1h"), 25)).to_vec();
    scenario.model.drain = 45 * 60;
    scenario.config.max_in_flight = max_in_flight;
    scenario
}

/// What became of a pool: what its models did, and what passes counted and wrote of it.
type End = (Vec<Happening>, Totals, BTreeMap<String, String>);

fn end(pool: PoolWorld) -> End {
    let meta = pool.view.pools[&pool.name].metadata.clone();
    // What passes tell is the ledger's.
    let told = [Event::Started, Event::Completed, Event::Failed, Event::Overtaken, Event::Fallback, Event::WindowMissed];
    let history = pool.history.into_iter().filter(|happening| !told.contains(&happening.event)).collect();
    (history, Totals::of(&meta).unwrap(), (*meta.annotations).clone())
}

fn by_whole_passes(scenario: &Scenario) -> Vec<End> {
    let pools = scenario.pools();
    let ledger = Ledger::of(&pools, false, false);
    let door = Door::new(pools, scenario.config.clone(), ledger, scenario.seed);
    for minute in 0..=DAYS * 24 * 60 {
        door.advance(later(begin(), TimeDelta::minutes(minute)));
        door.pass().now_or_never().unwrap();
    }
    assert_eq!(door.ledger.into_inner().wrong, Vec::<String>::new());
    door.pools.into_values().map(|pool| end(pool.into_inner())).collect()
}

fn by_the_shortcut(scenario: &Scenario) -> Vec<End> {
    let worlds: Vec<RefCell<PoolWorld>> = scenario.pools().into_values().collect();
    let passes = Passes { config: scenario.config.clone(), jump: true, outages: Vec::new(), calendar: Default::default() };
    together::run(&worlds, &passes, later(begin(), TimeDelta::days(DAYS)));
    worlds.into_iter().map(|pool| end(pool.into_inner())).collect()
}

#[test]
fn passes_under_a_limit_are_played_as_they_are_done() {
    for max in [Some(1), Some(2)] {
        let scenario = scenario(max);
        let whole = by_whole_passes(&scenario);
        assert!(whole.iter().map(|(_, totals, _)| totals.success).sum::<u64>() >= 5, "{max:?}");
        assert_eq!(max == Some(1), whole.iter().any(|(_, totals, _)| totals.window_missed > 0), "{max:?}");
        for (told, whole) in by_the_shortcut(&scenario).iter().zip(&whole) {
            assert_eq!(told, whole, "{max:?}");
        }
    }
}
