//! Small fleets, policies and operators, by seed.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use noderotation::{
    api::time::{Time, later, parse_annotation},
    cli::reach,
    policy::{Policy, read},
    rotation::scene::Config,
    world::{
        fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
        pool::PoolWorld,
        size::Size,
    },
};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

/// A Tuesday.
pub fn begin() -> Time {
    parse_annotation("2026-12-01T00:00:00Z").unwrap()
}

pub fn config() -> Config {
    reach::config("rotation", TimeDelta::minutes(1))
}

/// What a world is made from.
#[derive(Clone)]
pub struct Scenario {
    pub seed: u64,
    pub config: Config,
    /// The spec of the one policy.
    pub policy: Value,
    pub pools: Vec<PoolSpec>,
    pub model: Model,
    /// Faults and incidents come only in the first so many days; then the world is left alone.
    pub trouble: TimeDelta,
    /// How long it goes on.
    pub length: TimeDelta,
    /// One write in so many meets a fault; 0 for none.
    pub one_in_faults: u32,
    /// What the operator does, in order of time.
    pub meddling: Vec<(Time, Meddling)>,
    /// The operator spoils our own annotations: then counters can't be held to anything.
    pub vandal: bool,
    /// Nothing goes wrong at all.
    pub calm: bool,
}

/// What an operator does.
#[derive(Debug, Clone, PartialEq)]
pub enum Meddling {
    /// Freezes the pool for so many minutes.
    Freeze(i64),
    /// Cordons, or uncordons, the Node of this index.
    Cordon(usize, bool),
    /// Sets or removes do-not-disrupt on the Node of this index.
    Protect(usize, Option<&'static str>),
    /// Deletes the claim of this index.
    Delete(usize),
    /// Deletes the claim whose rotation is in flight.
    DeleteInFlight,
    /// Asks for the claim of this index.
    Ask(usize),
    /// Takes the policies away, and gives them back after so many minutes.
    Ungovern(i64),
    /// Changes the policy.
    Edit(&'static str, Value),
    /// Allows no placeholder, by a ResourceQuota, for so many minutes.
    Quota(i64),
    /// Bounds the placeholders' containers or themselves, by the LimitRange of this index, for so many minutes.
    Limit(usize, i64),
    /// Deletes the placeholders; with minutes, under such a quota.
    DeletePlaceholders(Option<i64>),
    /// Deletes a workload's Pod on the Node of this index.
    DeletePod(usize),
    /// Scales the workload of this index.
    Scale(usize, u32),
    /// Sets or removes do-not-disrupt on a workload's Pod on the Node of this index.
    ProtectPod(usize, Option<&'static str>),
    /// Does it so many seconds after the next rotation has begun.
    InFlight(i64, Box<Meddling>),
    /// Writes something into one of our own annotations: kind of object (0 pool, 1 claim, 2 Node), its index, which key.
    Spoil(usize, usize, usize, &'static str),
}

pub fn policies(spec: &Value, generation: i64) -> BTreeMap<String, Policy> {
    let object = json!({
        "metadata": {"name": "weekly", "uid": "uid-weekly", "generation": generation, "resourceVersion": generation.to_string()},
        "spec": spec,
    });
    BTreeMap::from([("weekly".to_owned(), read::policy(&object))])
}

impl Scenario {
    pub fn pools(&self) -> BTreeMap<String, RefCell<PoolWorld>> {
        let policies = policies(&self.policy, 1);
        let model = Arc::new(self.model.clone());
        let world = |spec: &PoolSpec| RefCell::new(PoolWorld::new(spec.clone(), &policies, Arc::clone(&model), self.seed, begin()));
        self.pools.iter().map(|spec| (spec.pool.metadata.name.clone(), world(spec))).collect()
    }

    /// Three part-filled nodes of one pool that are due one after another, and nothing that goes wrong.
    pub fn quiet() -> Self {
        Self {
            seed: 1,
            config: config(),
            policy: json!({
                "nodePoolSelector": {},
                "maintenanceWindows": [{"timezone": "UTC", "days": ["Tue", "Thu", "Sat"], "start": "02:00", "end": "04:00"}],
                "surge": {"readyTimeout": "10m", "cooldownAfter": "5m", "retryBackoff": "30m"},
            }),
            pools: vec![pool("web", 3, "168h", Some("1h"), 40)],
            model: Model::default(),
            trouble: TimeDelta::zero(),
            length: TimeDelta::hours(12 * 24 + 12),
            one_in_faults: 0,
            meddling: Vec::new(),
            vandal: false,
            calm: true,
        }
    }

    /// The scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = <Pcg64Mcg as rand::SeedableRng>::seed_from_u64(seed);
        let rng = &mut rng;
        let calm = seed.is_multiple_of(4);
        let vandal = seed % 7 == 3;
        let days = [["Tue", "Thu", "Sat"], ["Mon", "Wed", "Fri"]][usize::from(rng.random_bool(0.5))];
        let start = rng.random_range(0..24);
        let end = (start + rng.random_range(2..8)) % 24;
        let zone = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata"][rng.random_range(0..4)];
        let mut surge = json!({
            "readyTimeout": format!("{}m", rng.random_range(4..20)),
            "cooldownAfter": format!("{}m", rng.random_range(0..15)),
            "retryBackoff": format!("{}m", rng.random_range(10..60)),
            "wholeNodeReservation": rng.random_bool(0.2),
        });
        if rng.random_bool(0.3) {
            surge["forcefulFallback"] = json!({"enabled": true});
        }
        if rng.random_bool(0.2) {
            surge["matchNodeRequirements"] = json!({"required": []});
        }
        let mut policy = json!({
            "nodePoolSelector": {},
            "maintenanceWindows": [{"timezone": zone, "days": days, "start": format!("{start:02}:00"), "end": format!("{end:02}:00")}],
            "minRotationChances": rng.random_range(1..3),
            "surge": surge,
        });
        if rng.random_bool(0.2) {
            policy["blackouts"] = json!([{"timezone": zone, "from": "2026-12-05", "to": "2026-12-06", "reason": "market days"}]);
        }
        let trouble = TimeDelta::days(8);
        let model = troubled(rng, trouble, calm);
        let pools = (0..rng.random_range(1..3)).map(|index| {
            let grace = if rng.random_bool(0.7) { Some(["20m", "1h"][usize::from(rng.random_bool(0.5))]) } else { None };
            pool(["web", "batch"][index], rng.random_range(1..5), "168h", grace, rng.random_range(10..45))
        });
        let mut pools: Vec<PoolSpec> = pools.collect();
        // Without the zone, volumes leave a placeholder's room unused, and the nodes are more than calm allows.
        let is_zonal = policy["surge"]["matchNodeRequirements"].is_null() || !calm;
        for pool in &mut pools {
            pool.workloads[1].sticky = rng.random_bool(0.5) && is_zonal;
        }
        let meddling = if calm { Vec::new() } else { meddling(rng, trouble, vandal) };
        Self {
            seed,
            config: Config {
                rehearse: rng.random_bool(0.5),
                max_in_flight: [None, Some(1)][usize::from(rng.random_bool(0.3))],
                ..config()
            },
            policy,
            pools,
            model,
            trouble,
            length: TimeDelta::days(12),
            one_in_faults: if calm { 0 } else { [0, 8, 20][rng.random_range(0..3)] },
            meddling,
            vandal: vandal && !calm,
            calm,
        }
    }
}

/// Models in which things go wrong for so long, unless it is calm.
fn troubled(rng: &mut Pcg64Mcg, trouble: TimeDelta, calm: bool) -> Model {
    let mut model = Model { sound_from: Some(later(begin(), trouble)), ..Model::default() };
    if !calm {
        model.one_in_never_ready = [0, 0, 3][rng.random_range(0..3)];
        model.one_in_refused = [0, 0, 4][rng.random_range(0..3)];
        if rng.random_bool(0.3) {
            let from = later(begin(), TimeDelta::hours(rng.random_range(0..150)));
            model.no_capacity.push((from, later(from, TimeDelta::hours(rng.random_range(1..30)))));
        }
        model.drain = [0, 0, 1500][rng.random_range(0..3)];
    }
    model
}

fn meddling(rng: &mut Pcg64Mcg, trouble: TimeDelta, vandal: bool) -> Vec<(Time, Meddling)> {
    let mut meddling: Vec<(Time, Meddling)> = (0..rng.random_range(0..12))
        .map(|_| {
            let at = later(begin(), TimeDelta::minutes(rng.random_range(0..trouble.num_minutes())));
            let index = rng.random_range(0..4);
            let what = match rng.random_range(0..17) {
                0 => Meddling::Freeze(rng.random_range(1..600)),
                1 => Meddling::Cordon(index, rng.random_bool(0.7)),
                2 => Meddling::Protect(index, [Some("true"), Some("30m"), Some("false"), None][rng.random_range(0..4)]),
                3 => Meddling::Delete(index),
                4 => Meddling::DeleteInFlight,
                5 => Meddling::Ask(index),
                6 => Meddling::Ungovern(rng.random_range(1..300)),
                7 => Meddling::Edit("suspend", json!(rng.random_bool(0.5))),
                8 => Meddling::Quota(rng.random_range(1..3000)),
                9..12 => Meddling::InFlight(rng.random_range(0..300), Box::new(in_flight(rng, index))),
                12 => scale(rng, index),
                13 => protect_pod(rng, index),
                14 => Meddling::Limit(rng.random_range(0..LIMITS), rng.random_range(1..3000)),
                _ if vandal => {
                    let value =
                        ["", "nonsense", "2999-01-01T00:00:00Z", "-1", "draining", "web-0", "{}", "\u{1F600}"][rng.random_range(0..8)];
                    Meddling::Spoil(rng.random_range(0..3), index, rng.random_range(0..64), value)
                }
                _ => Meddling::DeleteInFlight,
            };
            (at, what)
        })
        .collect();
    if vandal {
        let more = meddling.len() * 3;
        for _ in 0..more {
            let at = later(begin(), TimeDelta::minutes(rng.random_range(0..trouble.num_minutes())));
            let value = ["", "nonsense", "2999-01-01T00:00:00Z", "-1", "draining", "web-0", "{}", "pending"][rng.random_range(0..8)];
            meddling.push((at, Meddling::Spoil(rng.random_range(0..3), rng.random_range(0..4), rng.random_range(0..64), value)));
        }
    }
    meddling.sort_by_key(|(at, _)| *at);
    meddling
}

/// How many LimitRanges there are.
const LIMITS: usize = 4;

/// What a LimitRange demands: it refuses every placeholder, refuses large ones and gives the others limits, gives all of them limits
/// that hurt nobody, or makes them ask for more than they did.
pub fn limits(index: usize) -> Vec<Value> {
    let items: [Value; LIMITS] = [
        json!({"type": "Pod", "max": {"cpu": "1"}}),
        json!({"type": "Container", "max": {"cpu": "3500m", "memory": "64Gi"}}),
        json!({"type": "Container", "default": {"cpu": "16", "memory": "64Gi"}, "defaultRequest": {"cpu": "10m"}}),
        json!({"type": "Container", "min": {"ephemeral-storage": "1Gi"}, "max": {"ephemeral-storage": "8Gi"}}),
    ];
    vec![items[index].clone()]
}

/// Up, down or to nothing: a node takes seven of their Pods.
fn scale(rng: &mut Pcg64Mcg, index: usize) -> Meddling {
    Meddling::Scale(index, [0, 1, rng.random_range(0..10), rng.random_range(0..30)][rng.random_range(0..4)])
}

fn protect_pod(rng: &mut Pcg64Mcg, index: usize) -> Meddling {
    Meddling::ProtectPod(index, [Some("true"), Some("30m"), Some("6h"), Some("false"), None][rng.random_range(0..5)])
}

/// What an operator does while a rotation is in flight.
fn in_flight(rng: &mut Pcg64Mcg, index: usize) -> Meddling {
    match rng.random_range(0..15) {
        0 => Meddling::DeletePlaceholders(None),
        1 => Meddling::DeletePlaceholders(Some(rng.random_range(1..90))),
        2 => Meddling::DeletePod(index),
        3 => Meddling::Quota(rng.random_range(1..90)),
        4 => Meddling::Freeze(rng.random_range(1..90)),
        5 => Meddling::Cordon(index, true),
        6 => Meddling::DeleteInFlight,
        7 => Meddling::Ungovern(rng.random_range(1..90)),
        8..11 => scale(rng, index),
        11..13 => protect_pod(rng, index),
        13 => Meddling::Limit(rng.random_range(0..LIMITS), rng.random_range(1..90)),
        _ => Meddling::Edit("suspend", json!(true)),
    }
}

/// A pool whose nodes are of different ages and part-filled, so that a third node shows.
pub fn pool(name: &str, nodes: usize, expire_after: &str, grace: Option<&str>, step: i64) -> PoolSpec {
    let spec = json!({"expireAfter": expire_after, "terminationGracePeriod": grace});
    let object = json!({"metadata": {"name": name, "labels": {}, "annotations": {}}, "spec": {"template": {"metadata": {}, "spec": spec}}});
    let node = |index: usize| NodeSpec {
        claim: format!("{name}-{index}"),
        node: format!("node-{name}-{index}"),
        created: later(begin(), -TimeDelta::hours(10 + step * i64::try_from(index).unwrap())),
        expire_after: Some(expire_after.into()),
        grace: grace.map(str::to_owned),
        capacity: Size::instance(8, 32),
        zone: index % 2,
    };
    let workload = |index: usize| WorkloadSpec {
        name: format!("{name}-app-{index}"),
        replicas: u32::try_from(nodes).unwrap() * if index == 0 { 4 } else { 1 },
        request: Size::pod(1000, 1024),
        ready_after: 10..=40,
        grace: 5,
        max_unavailable: [Some(1), None][index],
        sticky: false,
    };
    PoolSpec {
        pool: serde_json::from_value(object).unwrap(),
        instances: vec![Size::instance(8, 32)],
        zones: vec!["a".into(), "b".into()],
        daemons: Size::pod(100, 128),
        nodes: (0..nodes).map(node).collect(),
        workloads: (0..2).map(workload).collect(),
    }
}
