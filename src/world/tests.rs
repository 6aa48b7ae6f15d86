use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use serde_json::json;

use super::{
    fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
    history::Event,
    pool::PoolWorld,
    run::{Passes, run},
    size::Size,
};
use crate::{
    api::time::{Time, later, parse_annotation, to_annotation},
    cli::reach,
    policy::{Policy, read},
    rotation::scene::Config,
};

pub(super) fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

fn config() -> Config {
    reach::config("rotation", TimeDelta::minutes(1))
}

fn policies() -> BTreeMap<String, Policy> {
    let window = json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"});
    let object = json!({
        "metadata": {"name": "weekly", "uid": "uid-weekly", "generation": 1, "resourceVersion": "1"},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window], "surge": {}},
    });
    BTreeMap::from([("weekly".to_owned(), read::policy(&object))])
}

fn spec(nodes: usize, begin: Time) -> PoolSpec {
    let pool = json!({
        "metadata": {"name": "web", "labels": {}, "annotations": {}},
        "spec": {"template": {"metadata": {}, "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}},
        "status": {},
    });
    let node = |index: usize| NodeSpec {
        claim: format!("web-{index}"),
        node: format!("node-{index}"),
        created: later(begin, -TimeDelta::hours(i64::try_from(index * 20 % 300).unwrap())),
        expire_after: Some("336h".into()),
        grace: Some("1h".into()),
        capacity: Size::instance(8, 32),
        zone: 0,
    };
    let replicas = u32::try_from(nodes * 5).unwrap();
    let workload = WorkloadSpec {
        name: "shop".into(),
        replicas,
        request: Size::pod(1000, 1024),
        ready_after: 10..=30,
        grace: 5,
        max_unavailable: Some(1),
        sticky: false,
    };
    PoolSpec {
        pool: serde_json::from_value(pool).unwrap(),
        instances: vec![Size::instance(8, 32)],
        zones: vec!["a".into()],
        daemons: Size::pod(100, 128),
        nodes: (0..nodes).map(node).collect(),
        workloads: vec![workload],
    }
}

#[test]
fn a_month_rotates_everything_inside_the_windows() {
    let begin = at("2026-12-01T00:00:00Z");
    let until = later(begin, TimeDelta::days(30));
    let world = || RefCell::new(PoolWorld::new(spec(6, begin), &policies(), Arc::new(Model::default()), 1, begin));
    let passes = Passes { config: config(), jump: true, outages: Vec::new(), calendar: Arc::default() };
    let with = world();
    run(&with, Some(&passes), until);
    let with = with.into_inner();
    for happening in &with.history {
        eprintln!("{} {} {} {}", to_annotation(happening.at), happening.claim, happening.event.as_str(), happening.detail);
    }
    let count = |world: &PoolWorld, event| world.history.iter().filter(|happening| happening.event == event).count();
    assert_eq!(count(&with, Event::Expired), 0);
    assert!(count(&with, Event::Completed) > 6);
    let without = world();
    run(&without, None, until);
    assert!(count(&without.into_inner(), Event::Expired) > 6);
}
