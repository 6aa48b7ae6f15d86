//! The two doors agree: the same seeds give the same histories.

use std::cell::RefCell;

use chrono::TimeDelta;

use super::fleet::{at, config, pools, run_until, world};
use crate::{
    api::time::{later, to_annotation},
    world::{
        fleet::Model,
        history::{Event, Happening},
        run::{Passes, run},
    },
};

fn lines(history: &[Happening]) -> Vec<String> {
    let line = |happening: &Happening| {
        let Happening { at, pool, claim, event, detail } = happening;
        format!("{} {pool} {claim} {} {detail}", to_annotation(*at), event.as_str())
    };
    history.iter().map(line).collect()
}

async fn agree(seed: u64, model: Model) -> Vec<Happening> {
    let begin = at("2026-12-02T01:50:00Z");
    let until = later(begin, TimeDelta::minutes(140));
    let names = ["api", "web"];
    let passes = Passes { config: config(), jump: false, outages: Vec::new() };
    let mut typed = Vec::new();
    for pool in pools(&names, 3, &model, seed, begin) {
        let pool = RefCell::new(pool);
        run(&pool, Some(&passes), until);
        typed.extend(pool.into_inner().history);
    }
    let world = world(&names, 3, &model, seed, begin);
    run_until(&world, until).await;
    // The typed door ends exactly then.
    let http: Vec<Happening> =
        world.look(|pools| pools.iter().flat_map(|pool| pool.history.clone()).filter(|happening| happening.at <= until).collect());
    assert_eq!(lines(&http), lines(&typed), "seed {seed}");
    http
}

#[tokio::test(start_paused = true)]
async fn the_two_doors_agree_on_every_fault_free_history() {
    let started = std::time::Instant::now();
    for seed in 0..4 {
        let history = agree(seed, Model::default()).await;
        let count = |event| history.iter().filter(|happening| happening.event == event).count();
        assert!(count(Event::Completed) >= 2, "{:#?}", lines(&history));
    }
    eprintln!("{:?}", started.elapsed());
}
