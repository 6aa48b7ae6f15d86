//! A ResourceQuota in the placeholders' namespace, seen by the program's passes.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    fleet::{due, run},
    gate::Gate,
    kubectl::ask,
};
use crate::{
    api::keys,
    world::{
        history::Event,
        http::{Actor, World},
    },
};

const QUOTAS: &str = "/api/v1/namespaces/rotation/resourcequotas";
const CREATE: &str = "POST /api/v1/namespaces/rotation/pods?";

async fn limit(world: &World, pods: &str) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": pods}}});
    ask(world, Method::POST, QUOTAS, quota).await.unwrap();
}

async fn lift(world: &World) {
    ask(world, Method::DELETE, &format!("{QUOTAS}/none"), Value::Null).await.unwrap();
}

/// What was said of a refused surge.
pub async fn refusals(world: &World) -> Vec<String> {
    let path = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reason=SurgeRefused";
    let events = ask(world, Method::GET, path, Value::Null).await.unwrap();
    events["items"].as_array().unwrap().iter().map(|event| event["note"].as_str().unwrap().to_owned()).collect()
}

/// Nothing is in flight, and nothing is left of it.
pub fn is_at_rest(world: &World) -> bool {
    world.look(|pools| {
        let pool = &pools[0];
        let anchored = pool.view.pools["web"].metadata.annotation(keys::ACTIVE_ROTATION).is_some();
        let stamped = pool.view.claims.values().any(|claim| claim.metadata.is_annotated());
        let held = pool.nodes().values().any(|node| node.spec.unschedulable || node.metadata.label(keys::MARKED).is_some());
        !anchored && !stamped && !held && pool.view.placeholders.is_empty()
    })
}

pub async fn rotates(world: &World) {
    for _ in 0..15 {
        let report = run(world.client(Actor::Program)).await.unwrap();
        assert!(!report.failed(), "{report:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert!(world.look(|pools| pools[0].history.iter().any(|happening| happening.event == Event::Completed)));
}

#[tokio::test(start_paused = true)]
async fn the_rehearsal_finds_a_quota_out_and_nothing_is_touched() {
    let world = due();
    limit(&world, "0").await;
    for _ in 0..3 {
        let report = run(world.client(Actor::Program)).await.unwrap();
        assert!(!report.failed(), "{report:?}");
        assert!(is_at_rest(&world));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let told = refusals(&world).await;
    assert!(!told.is_empty() && told.iter().all(|note| note.contains("exceeded quota: none, requested: pods=1")), "{told:?}");
    lift(&world).await;
    rotates(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_between_the_rehearsal_and_the_create_undoes_the_attempt() {
    let open = Gate::open_to_all();
    run(open.client(due().door(Actor::Program))).await.unwrap();
    let create = open.seen().iter().position(|line| line.starts_with(CREATE) && !line.contains("dryRun")).unwrap();
    let world = due();
    let gate = Gate::before(create);
    let pass = async {
        let report = run(gate.client(world.door(Actor::Program))).await.unwrap();
        assert!(report.failed(), "{report:?}");
    };
    let operator = async {
        gate.reached().await;
        assert!(!is_at_rest(&world));
        limit(&world, "0").await;
        gate.open();
    };
    tokio::join!(pass, operator);
    assert!(is_at_rest(&world));
    let told = refusals(&world).await;
    assert!(told.len() == 1 && told[0].contains("exceeded quota: none"), "{told:?}");
    lift(&world).await;
    rotates(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_the_placeholders_of_the_models() {
    let world = due();
    limit(&world, "1").await;
    run(world.client(Actor::Program)).await.unwrap();
    let quota = ask(&world, Method::GET, &format!("{QUOTAS}/none"), Value::Null).await.unwrap();
    assert_eq!(quota["status"], json!({"hard": {"pods": "1"}, "used": {"pods": "1"}}));
    rotates(&world).await;
}
