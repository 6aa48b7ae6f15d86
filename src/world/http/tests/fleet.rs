//! Small fleets, and the program's passes on them through the HTTP door.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::{
    api::time::{Time, later, parse_annotation},
    cli::reach,
    kube::{
        session::{Session, Terms},
        stop::Stop,
    },
    pass::{PassReport, Unready, pass_over, ready},
    policy::{Policy, read},
    rotation::scene::Config,
    world::{
        fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
        http::{
            Actor, World,
            resource::{Key, POLICIES},
        },
        pool::PoolWorld,
        size::Size,
    },
};

/// The namespace of the Lease and the placeholders.
pub const NAMESPACE: &str = "rotation";

pub fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

pub fn config() -> Config {
    Config { rehearse: true, ..reach::config(NAMESPACE, TimeDelta::minutes(1)) }
}

/// A window on Wednesdays and Saturdays, two hours from two o'clock on.
pub fn policy() -> Value {
    let window = json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "04:00"});
    json!({
        "apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy",
        "metadata": {"name": "weekly", "uid": "uid-weekly", "generation": 1, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window], "surge": {"readyTimeout": "10m", "cooldownAfter": "5m"}},
    })
}

pub fn policies() -> BTreeMap<String, Policy> {
    BTreeMap::from([("weekly".to_owned(), read::policy(&policy()))])
}

/// A pool of part-filled nodes, some of them due.
pub fn spec(name: &str, nodes: usize, begin: Time) -> PoolSpec {
    let pool = json!({
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {"template": {"metadata": {}, "spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}},
        "status": {},
    });
    let node = |index: usize| NodeSpec {
        claim: format!("{name}-{index}"),
        node: format!("node-{name}-{index}"),
        created: later(begin, -TimeDelta::hours(i64::try_from(300 - index * 40 % 300).unwrap())),
        expire_after: Some("336h".into()),
        grace: Some("1h".into()),
        capacity: Size::instance(8, 32),
        zone: 0,
    };
    let workload = WorkloadSpec {
        name: format!("{name}-shop"),
        replicas: u32::try_from(nodes * 5).unwrap(),
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

pub fn pools(names: &[&str], nodes: usize, model: &Model, seed: u64, begin: Time) -> Vec<PoolWorld> {
    let pool = |name: &&str| PoolWorld::new(spec(name, nodes, begin), &policies(), Arc::new(model.clone()), seed, begin);
    names.iter().map(pool).collect()
}

/// The same behind the HTTP door.
pub fn world(names: &[&str], nodes: usize, model: &Model, seed: u64, begin: Time) -> World {
    behind_the_door(pools(names, nodes, model, seed, begin), begin)
}

/// Two nodes, one in each of two zones, and a StatefulSet of four replicas.
pub fn stateful(model: &Model, seed: u64, begin: Time) -> World {
    let mut spec = spec("web", 2, begin);
    spec.zones = vec!["a".into(), "b".into()];
    spec.nodes[1].zone = 1;
    spec.workloads[0] = WorkloadSpec { name: "web-db".into(), replicas: 4, sticky: true, ..spec.workloads[0].clone() };
    behind_the_door(vec![PoolWorld::new(spec, &policies(), Arc::new(model.clone()), seed, begin)], begin)
}

/// Two nodes, days before anything is due.
pub fn idle() -> World {
    world(&["web"], 2, &Model::default(), 1, at("2026-11-30T12:00:00Z"))
}

/// The same with a StatefulSet across zones.
pub fn idle_set() -> World {
    stateful(&Model::default(), 1, at("2026-11-30T12:00:00Z"))
}

/// Two nodes in an open window, of which one is due.
pub fn due() -> World {
    world(&["web"], 2, &Model::default(), 1, at("2026-12-02T02:05:00Z"))
}

fn behind_the_door(pools: Vec<PoolWorld>, begin: Time) -> World {
    let world = World::new(pools, begin);
    let mut state = world.state();
    state.put(POLICIES, Key::of(POLICIES, "", "weekly"), policy());
    drop(state);
    world
}

pub fn terms() -> Terms {
    Terms { namespace: NAMESPACE.into(), deadline: Duration::from_secs(50), request_timeout: None, stop: Stop::never() }
}

/// One run of the program, as `run` does it; `None` while another holds the Lease.
pub async fn run(client: kube::Client) -> Option<PassReport> {
    let mut session = Session::begin(client, terms());
    let look = match ready(&mut session, &config(), Duration::ZERO).await {
        Err(Unready::Held(_)) => return None,
        look => look.unwrap(),
    };
    let report = pass_over(&session, 8, look).await;
    session.close().await;
    Some(report)
}

/// A run at every minute until then; each has to succeed.
pub async fn run_until(world: &World, until: Time) {
    let client = world.client(Actor::Program);
    while world.now() <= until {
        let report = run(client.clone()).await.unwrap();
        assert!(!report.failed(), "{report:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}
