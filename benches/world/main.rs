//! What a simulated year costs: how time grows with nodes and with days, and what it is spent on.
//!
//! `cargo bench --bench world -- [NODES DAYS]` measures one fleet; without these, the table, and `--svg FILE` draws it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark ends where something unexpected happens")]

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use chrono::TimeDelta;
use noderotation::{
    api::time::{Time, later, parse_annotation},
    cli::reach,
    policy::{Policy, read},
    rotation::scene::Config,
    world::{
        fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
        history::Event,
        pool::PoolWorld,
        run::{Passes, run},
        size::Size,
    },
};
use serde_json::json;

#[path = "../chart.rs"]
mod chart;

/// As the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const POOLS: usize = 10;
/// Nodes and days that are measured; each curve's points from left to right.
const FLEETS: [(usize, usize); 9] =
    [(500, 365), (1000, 30), (1000, 90), (1000, 180), (1000, 365), (2000, 365), (2000, 30), (5000, 30), (10_000, 30)];

fn main() {
    let typed: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    println!("{:>7} {:>6} {:>10} {:>10} {:>14}", "nodes", "days", "seconds", "rotations", "us/rotation");
    match typed.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => drop(table()),
        ["--svg", file] => {
            std::fs::write(file, drawn(&table())).unwrap();
            println!("bench: the curves are in {file}");
        }
        [nodes, days] => drop(measure(nodes.parse().unwrap(), days.parse().unwrap(), &Model::default())),
        other => panic!("{other:?}: there are NODES DAYS and --svg FILE"),
    }
}

/// Nodes, days and seconds.
fn table() -> Vec<(usize, usize, f64)> {
    let measured = FLEETS.map(|(nodes, days)| (nodes, days, measure(nodes, days, &Model::default())));
    troubled(1000, 90);
    measured.into()
}

fn drawn(measured: &[(usize, usize, f64)]) -> String {
    let of = |wanted: &dyn Fn(usize, usize) -> Option<usize>| -> Vec<(f64, f64)> {
        measured.iter().filter_map(|(nodes, days, seconds)| Some((wanted(*nodes, *days)? as f64, *seconds))).collect()
    };
    let by_days = of(&|nodes, days| (nodes == 1000).then_some(days));
    let of_month = of(&|nodes, days| (days == 30).then_some(nodes));
    let of_year = of(&|nodes, days| (days == 365).then_some(nodes));
    let panels = [
        ("Seconds over days", vec![("1,000 nodes", "#1f77b4", by_days)]),
        ("Seconds over nodes", vec![("30 days", "#1f77b4", of_month), ("365 days", "#d62728", of_year)]),
    ];
    chart::curves("What a simulated history costs, by days and by nodes", &panels)
}

/// What it costs that things go wrong: one in ten Nodes never becomes Ready, a kubelet refuses one in ten placeholders, and in
/// the first hour of every window no instance is to be had.
fn troubled(nodes: usize, days: usize) {
    println!("the same, and the same again with everything going wrong that can:");
    let quiet = measure(nodes, days, &Model::default());
    let windows = (0..i64::try_from(days).unwrap_or(0)).map(|day| later(begin(), TimeDelta::days(day)));
    let no_capacity = windows.map(|day| (later(day, TimeDelta::hours(1)), later(day, TimeDelta::hours(2)))).collect();
    let troubled = measure(nodes, days, &Model { one_in_never_ready: 10, one_in_refused: 10, no_capacity, ..Model::default() });
    println!("ratio {:.1}, aim at most 10", troubled / quiet);
}

fn begin() -> Time {
    parse_annotation("2026-12-01T00:00:00Z").unwrap_or_default()
}

/// Prints what a fleet costs, and gives the seconds.
fn measure(nodes: usize, days: usize, model: &Model) -> f64 {
    let begin = begin();
    let until = later(begin, TimeDelta::days(i64::try_from(days).unwrap_or(i64::MAX)));
    let policies = policies();
    let passes = Passes { config: config(), jump: true, outages: Vec::new(), calendar: Arc::default() };
    let started = Instant::now();
    let (next, rotations) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Pool by pool on all processors, as `simulate` plays them.
    let work = || {
        loop {
            let pool = next.fetch_add(1, Ordering::Relaxed);
            if pool >= POOLS {
                break;
            }
            let spec = spec(pool, nodes / POOLS, begin);
            let world = RefCell::new(PoolWorld::new(spec, &policies, Arc::new(model.clone()), 1, begin));
            run(&world, Some(&passes), until);
            let completed = world.borrow().history.iter().filter(|happening| happening.event == Event::Completed).count();
            rotations.fetch_add(completed, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let rotations = rotations.into_inner();
    let seconds = started.elapsed().as_secs_f64();
    println!("{nodes:>7} {days:>6} {seconds:>10.2} {rotations:>10} {:>14.0}", seconds * 1e6 / rotations.max(1) as f64);
    seconds
}

fn config() -> Config {
    reach::config("rotation", TimeDelta::minutes(1))
}

fn policies() -> BTreeMap<String, Policy> {
    let window = json!({"timezone": "Europe/Berlin", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"});
    let object = json!({
        "metadata": {"name": "weekly", "uid": "uid-weekly", "generation": 1, "resourceVersion": "1"},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window], "surge": {}},
    });
    BTreeMap::from([("weekly".to_owned(), read::policy(&object))])
}

/// A pool whose nodes have every age between none and that at which they are due.
fn spec(pool: usize, nodes: usize, begin: Time) -> PoolSpec {
    let name = format!("pool-{pool}");
    let object = json!({
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {"template": {"metadata": {}, "spec": {"expireAfter": "720h", "terminationGracePeriod": "1h"}}},
        "status": {},
    });
    let node = |index: usize| NodeSpec {
        claim: format!("{name}-old-{index}"),
        node: format!("node-{name}-{index}"),
        created: later(begin, -TimeDelta::minutes(i64::try_from(index * 21 * 24 * 60 / nodes.max(1)).unwrap_or(0))),
        expire_after: Some("720h".into()),
        grace: Some("1h".into()),
        capacity: Size::instance(8, 32),
        zone: index % 3,
    };
    let workload = |index: usize| WorkloadSpec {
        name: format!("shop-{index}"),
        replicas: 10,
        request: Size::pod(1000, 1024),
        ready_after: 10..=30,
        grace: 5,
        max_unavailable: Some(1),
        sticky: false,
    };
    PoolSpec {
        pool: serde_json::from_value(object).unwrap_or_default(),
        instances: vec![Size::instance(8, 32)],
        zones: ["a", "b", "c"].map(str::to_owned).into(),
        daemons: Size::pod(100, 128),
        nodes: (0..nodes).map(node).collect(),
        workloads: (0..nodes / 2).map(workload).collect(),
    }
}
