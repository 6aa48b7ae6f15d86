//! What somebody with `kubectl` writes to the models' Pods.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    fleet::{due, idle, idle_set, run},
    kubectl::{PODS, ask, get},
};
use crate::{
    api::keys,
    world::{
        history::Event,
        http::{Actor, World},
    },
};

async fn pod_on(world: &World, node: &str) -> String {
    let pods = get(world, &format!("{PODS}?fieldSelector=spec.nodeName={node}")).await;
    format!("{PODS}/{}", pods["items"][0]["metadata"]["name"].as_str().unwrap())
}

async fn annotate(world: &World, pod: &str, value: Value) -> Value {
    ask(world, Method::PATCH, pod, json!({"metadata": {"annotations": {keys::DO_NOT_DISRUPT: value}}})).await.unwrap()
}

fn is_there(world: &World, claim: &str) -> bool {
    world.look(|pools| pools[0].view.claims.contains_key(claim))
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_are_stored_and_selected_by() {
    let world = idle();
    let pod = pod_on(&world, "node-web-0").await;
    let before = get(&world, &pod).await;
    let words = json!({"metadata": {"labels": {"team": "shop"}, "annotations": {"note": "1"}}});
    let dry = ask(&world, Method::PATCH, &format!("{pod}?dryRun=All"), words.clone()).await.unwrap();
    assert_eq!(dry["metadata"]["annotations"], json!({"note": "1"}));
    assert_eq!(get(&world, &pod).await, before);
    let patched = ask(&world, Method::PATCH, &pod, words).await.unwrap();
    assert_eq!(patched["metadata"]["labels"], json!({"app": "web-shop", "team": "shop"}));
    assert_ne!(patched["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(patched["spec"], before["spec"]);
    let selected = get(&world, &format!("{PODS}?labelSelector=team=shop")).await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let stale = json!({"metadata": {"resourceVersion": before["metadata"]["resourceVersion"], "annotations": {"note": "2"}}});
    assert_eq!(ask(&world, Method::PATCH, &pod, stale).await, Err(409));
    let cleared = ask(&world, Method::PATCH, &pod, json!({"metadata": {"labels": {"team": null}, "annotations": null}})).await.unwrap();
    assert_eq!((&cleared["metadata"]["labels"], &cleared["metadata"]["annotations"]), (&json!({"app": "web-shop"}), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn what_the_models_can_not_follow_is_refused() {
    let world = idle();
    let pod = pod_on(&world, "node-web-0").await;
    let before = get(&world, &pod).await;
    for (patch, code) in [
        (json!({"spec": {"nodeName": "node-web-1"}}), 422),
        (json!({"spec": {"nodeSelector": {"a": "b"}}}), 422),
        (json!({"spec": "nonsense"}), 422),
        (
            json!({"spec": {"containers": [{"name": "app", "image": "other", "resources": before["spec"]["containers"][0]["resources"]}]}}),
            405,
        ),
        (json!({"metadata": {"labels": {"app": "other"}}}), 405),
        (json!({"metadata": {"finalizers": ["example.com/mine"]}}), 405),
        (json!({"metadata": {"annotations": {"number": 1}}}), 400),
    ] {
        assert_eq!(ask(&world, Method::PATCH, &pod, patch.clone()).await, Err(code), "{patch}");
    }
    assert_eq!(get(&world, &pod).await, before);
    let agent = "/api/v1/namespaces/kube-system/pods/agent-node-web-0";
    assert_eq!(ask(&world, Method::PATCH, agent, json!({"metadata": {"annotations": {"a": "1"}}})).await, Err(405));
}

#[tokio::test(start_paused = true)]
async fn karpenter_leaves_a_protected_pod_until_it_is_protected_no_more() {
    let world = idle();
    let pod = pod_on(&world, "node-web-0").await;
    annotate(&world, &pod, json!("true")).await;
    ask(&world, Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/web-0", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(get(&world, &pod).await["status"]["phase"], "Running");
    let left = get(&world, &format!("{PODS}?fieldSelector=spec.nodeName=node-web-0")).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    annotate(&world, &pod, Value::Null).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!is_there(&world, "web-0"));
    assert_eq!(ask(&world, Method::GET, &pod, Value::Null).await, Err(404));
}

#[tokio::test(start_paused = true)]
async fn a_protection_for_a_while_begins_with_the_pod_and_ends_by_itself() {
    let world = idle();
    let pod = pod_on(&world, "node-web-0").await;
    annotate(&world, &pod, json!("20m")).await;
    ask(&world, Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/web-0", Value::Null).await.unwrap();
    assert_eq!(get(&world, &pod).await["status"]["startTime"], "2026-11-30T12:00:00Z");
    tokio::time::sleep(Duration::from_secs(1195)).await;
    assert!(is_there(&world, "web-0") && get(&world, &pod).await["metadata"]["deletionTimestamp"].is_null());
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(ask(&world, Method::GET, &pod, Value::Null).await, Err(404));
    // Nobody can read it as a duration.
    let world = idle();
    let pod = pod_on(&world, "node-web-0").await;
    annotate(&world, &pod, json!("for ever")).await;
    ask(&world, Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/web-0", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!is_there(&world, "web-0"));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_grace_ends_a_protected_pod_and_a_successor_is_not_protected() {
    let world = idle_set();
    let pod = pod_on(&world, "node-web-0").await;
    annotate(&world, &pod, json!("true")).await;
    ask(&world, Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/web-0", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert!(is_there(&world, "web-0"));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!is_there(&world, "web-0"));
    let successor = get(&world, &pod).await;
    assert_eq!((&successor["status"]["phase"], &successor["metadata"]["annotations"]), (&json!("Running"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn passes_name_the_protected_pod_that_a_drain_waits_for_and_end_the_rotation_once_it_goes() {
    let world = due();
    let told = async || {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reason=DrainBlocked";
        let events = get(&world, path).await;
        events["items"].as_array().unwrap().iter().map(|event| event["note"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let pods = async |minutes: u64| {
        for _ in 0..minutes {
            run(world.client(Actor::Program)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    let candidate = {
        run(world.client(Actor::Program)).await.unwrap();
        let claim = world.look(|pools| pools[0].view.pools["web"].metadata.annotation(keys::ACTIVE_ROTATION).unwrap().to_owned());
        world.look(|pools| pools[0].view.claims[&claim].node().unwrap().to_owned())
    };
    let pod = pod_on(&world, &candidate).await;
    annotate(&world, &pod, json!("true")).await;
    pods(45).await;
    let name = pod.rsplit_once('/').unwrap().1;
    let told = told().await;
    assert!(told.iter().any(|note| note.contains(&format!("Pod default/{name}: karpenter.sh/do-not-disrupt=true"))), "{told:?}");
    let completed = || world.look(|pools| pools[0].history.iter().any(|happening| happening.event == Event::Completed));
    assert!(!completed());
    annotate(&world, &pod, Value::Null).await;
    pods(10).await;
    assert!(completed());
}
