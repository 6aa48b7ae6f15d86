//! A LimitRange in the placeholders' namespace, seen by the program's passes.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    fleet::{due, run},
    kubectl::ask,
    quota::{is_at_rest, refusals, rotates},
};
use crate::world::http::{Actor, World};

const RANGES: &str = "/api/v1/namespaces/rotation/limitranges";

async fn bounded(item: Value) -> World {
    let world = due();
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [item]}});
    ask(&world, Method::POST, RANGES, range).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn the_rehearsal_finds_out_that_a_placeholder_is_too_large_and_nothing_is_touched() {
    for (item, words) in [
        (json!({"type": "Container", "max": {"cpu": "1"}}), "must be less than or equal to cpu limit of 1"),
        (json!({"type": "Container", "default": {"memory": "1Gi"}}), "must be less than or equal to memory limit of 1Gi"),
        (json!({"type": "Pod", "max": {"cpu": "1"}}), "maximum cpu usage per Pod is 1.  No limit is specified"),
    ] {
        let world = bounded(item).await;
        for _ in 0..3 {
            let report = run(world.client(Actor::Program)).await.unwrap();
            assert!(!report.failed(), "{report:?}");
            assert!(is_at_rest(&world), "{words}");
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let told = refusals(&world).await;
        assert!(!told.is_empty() && told.iter().all(|note| note.contains(words)), "{told:?}");
        ask(&world, Method::DELETE, &format!("{RANGES}/small"), Value::Null).await.unwrap();
        rotates(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_a_placeholder_keeps_are_given_to_it_and_it_rotates() {
    let world = bounded(json!({"type": "Container", "max": {"cpu": "16", "memory": "64Gi"}})).await;
    run(world.client(Actor::Program)).await.unwrap();
    let pods = ask(&world, Method::GET, "/api/v1/namespaces/rotation/pods", Value::Null).await.unwrap();
    let resources = &pods["items"][0]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": "16", "memory": "64Gi"}));
    rotates(&world).await;
}
