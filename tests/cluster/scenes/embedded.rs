//! The scenes in the embedded world, behind its HTTP door, with the real client and a clock that jumps.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

use chrono::TimeDelta;
use kube::api::{DynamicObject, PostParams};
use noderotation::{
    api::{
        karpenter::NodePool,
        time::{Time, later, parse_annotation},
    },
    cli::reach,
    kube::{
        session::{Session, Terms},
        stop::Stop,
    },
    pass::pass,
    rotation::scene::Config,
    world::{
        fleet::{Model, NodeSpec, PoolSpec, WorkloadSpec},
        http::{Actor, World},
        pool::PoolWorld,
        size::Size,
    },
};

use super::{
    operator::Operator,
    scene::{CADENCE, Deed, Scene, Stall},
    story::{Row, Teller, look},
};
use crate::passes::NAMESPACE;

/// An instance of the only type that there is.
const CPUS: u32 = 8;
/// By then every scene has come to its end, or never will, in seconds.
const LIMIT: i64 = 180;
/// So long the last one's end is looked after: nothing else may happen.
const IDLE: i64 = 6;

/// What the control plane is set to. None of it is measured: what is no setting of ours is a second or none.
pub fn model() -> Model {
    let exactly = |seconds: i64| -> RangeInclusive<i64> { seconds..=seconds };
    Model {
        batch: super::BATCH.as_secs().cast_signed(),
        launch: exactly(0),
        initialize: exactly(1),
        pause: exactly(super::POD_READY.as_secs().cast_signed()),
        terminate: exactly(0),
        consolidate_after: None,
        ..Model::default()
    }
}

/// Plays them, and tells of each pool.
pub fn play(scenes: &[Scene], model: &Model) -> BTreeMap<String, Vec<Row>> {
    let (scenes, model) = (scenes.to_vec(), model.clone());
    // Its clock jumps, and that of whoever asks must not.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play_here(&scenes, &model))
    });
    thread.join().unwrap()
}

fn begin() -> Time {
    parse_annotation("2026-12-01T00:00:00Z").unwrap()
}

async fn play_here(scenes: &[Scene], model: &Model) -> BTreeMap<String, Vec<Row>> {
    let pools = scenes.iter().map(|scene| pool(scene, model)).collect();
    let world = World::new(pools, begin());
    let client = world.client(Actor::Operator);
    let names: Vec<&str> = scenes.iter().map(|scene| scene.name).collect();
    let mut teller = Teller::new(&names, look(&client).await);
    let mut operator = Operator::new(client.clone(), scenes);
    prepare(scenes, &operator, &teller).await;
    let mut left = LIMIT;
    for second in 0.. {
        teller.see_all(world.now(), look(&client).await);
        operator.act(world.now(), &teller).await;
        teller.see_all(world.now(), look(&client).await);
        if second % CADENCE == 0 {
            run(world.client(Actor::Program)).await;
            teller.see_all(world.now(), look(&client).await);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let has_ended = |scene: &Scene| teller.rows(scene.name).iter().any(|row| row.head() == scene.end);
        let most = if scenes.iter().all(has_ended) { IDLE } else { LIMIT };
        left = left.min(most) - 1;
        if left == 0 {
            break;
        }
    }
    teller.into_rows()
}

async fn prepare(scenes: &[Scene], operator: &Operator, teller: &Teller) {
    for scene in scenes {
        let nodes = if scene.spare { 2 } else { 1 };
        if let Some(patch) = scene.stalled(nodes * CPUS) {
            operator.perform(scene.name, &Deed::Pool(patch), teller).await;
        }
        if scene.spare {
            operator.perform(scene.name, &Deed::Protect("b"), teller).await;
        }
        let policy: DynamicObject = serde_json::from_value(scene.policy()).unwrap();
        operator.all("noderotation.io", "v1alpha1", "RotationPolicy").create(&PostParams::default(), &policy).await.unwrap();
    }
}

/// One pass, as `run` makes it.
async fn run(client: kube::Client) {
    let terms = Terms { namespace: NAMESPACE.into(), deadline: Duration::from_secs(50), request_timeout: None, stop: Stop::never() };
    let mut session = Session::open(client, terms).await.unwrap();
    assert!(session.take_lease(Duration::ZERO).await.unwrap().is_none(), "nobody else has the Lease");
    let config = Config { rehearse: true, ..reach::config(NAMESPACE, TimeDelta::seconds(CADENCE)) };
    let report = pass(&session, &config, 8).await;
    assert!(!report.failed(), "{report:?}");
    session.close().await;
}

fn pool(scene: &Scene, model: &Model) -> PoolWorld {
    let pool: NodePool = serde_json::from_value(with_what_every_object_has(scene.pool().objects().remove(1))).unwrap();
    let node = |index: u32| NodeSpec {
        claim: format!("{}-{index}", scene.name),
        node: format!("node-{}-{index}", scene.name),
        created: later(begin(), -TimeDelta::minutes(1)),
        expire_after: pool.spec.template.spec.expire_after.clone(),
        grace: pool.spec.template.spec.termination_grace_period.clone(),
        capacity: Size::instance(CPUS.into(), 16),
        zone: 0,
    };
    let (replicas, cpus) = scene.pods;
    let workload = WorkloadSpec {
        name: scene.name.into(),
        replicas,
        request: Size::pod(i64::from(cpus) * 1000, 0),
        ready_after: model.pause.clone(),
        grace: 0,
        max_unavailable: Some(scene.away),
        sticky: false,
    };
    let mut model = Model { register: scene.registration..=scene.registration, ..model.clone() };
    if scene.stall == Stall::NeverReady {
        // Until after the first attempt and before the second.
        model.one_in_never_ready = 1;
        model.sound_from = Some(later(begin(), TimeDelta::seconds(18)));
    }
    let spec = PoolSpec {
        instances: vec![Size::instance(CPUS.into(), 16)],
        zones: vec!["test-zone-a".into()],
        daemons: Size::default(),
        nodes: (0..if scene.spare { 2 } else { 1 }).map(node).collect(),
        workloads: vec![workload],
        pool: pool.clone().into(),
    };
    PoolWorld::new(spec, &BTreeMap::new(), Arc::new(model), 1, begin())
}

fn with_what_every_object_has(mut object: serde_json::Value) -> serde_json::Value {
    object["metadata"]["uid"] = "".into();
    object
}
