//! The two doors agree: the same seeds give the same histories.

use std::{cell::RefCell, sync::Arc};

use chrono::TimeDelta;

use super::fleet::{at, config, pools, run_until, world};
use crate::{
    api::time::{later, to_annotation},
    world::{
        fleet::Model,
        history::Happening,
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

/// Five days with two windows; passes run around those.
async fn agree(seed: u64, model: Model) -> Vec<Happening> {
    let begin = at("2026-12-02T01:55:00Z");
    let (pause, again, until) = (at("2026-12-02T02:40:00Z"), at("2026-12-05T01:55:00Z"), at("2026-12-05T02:40:00Z"));
    let names = ["api", "web"];
    let passes = Passes { config: config(), jump: false, outages: vec![(pause, again)], calendar: Arc::default() };
    let mut typed = Vec::new();
    for pool in pools(&names, 3, &model, seed, begin) {
        let pool = RefCell::new(pool);
        run(&pool, Some(&passes), until);
        typed.extend(pool.into_inner().history);
    }
    let world = world(&names, 3, &model, seed, begin);
    run_until(&world, later(pause, -TimeDelta::seconds(1))).await;
    tokio::time::sleep((again - world.now()).to_std().unwrap()).await;
    run_until(&world, until).await;
    // The typed door ends exactly then.
    let http: Vec<Happening> =
        world.look(|pools| pools.iter().flat_map(|pool| pool.history.clone()).filter(|happening| happening.at <= until).collect());
    assert_eq!(lines(&http), lines(&typed), "seed {seed}");
    http
}

#[tokio::test(start_paused = true)]
async fn the_two_doors_agree_on_every_fault_free_history() {
    let weak = Model { one_in_never_ready: 2, one_in_refused: 3, ..Model::default() };
    let outage = Model { no_capacity: vec![(at("2026-12-02T02:00:00Z"), at("2026-12-02T02:30:00Z"))], ..Model::default() };
    let mut told = std::collections::BTreeSet::new();
    for (seed, model) in [Model::default(), weak, outage].into_iter().enumerate() {
        let history = agree(u64::try_from(seed).unwrap(), model).await;
        told.extend(history.iter().map(|happening| happening.event.as_str()));
    }
    for event in ["started", "launched", "ready", "draining", "gone", "completed", "failed", "launch-failed", "expired"] {
        assert!(told.contains(event), "{event} never happened: {told:?}");
    }
}
