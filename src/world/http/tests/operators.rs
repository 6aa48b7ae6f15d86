//! What somebody with `kubectl` writes to objects of the models.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    fleet::{at, due, idle, idle_set, run, stateful},
    gate::Gate,
    invariants::Invariants,
    kubectl::{ask, refusal},
};
use crate::{
    api::keys,
    world::{fleet::Model, history::Event},
};

const POOL: &str = "/apis/karpenter.sh/v1/nodepools/web";
const CLAIM: &str = "/apis/karpenter.sh/v1/nodeclaims/web-0";
const NODE: &str = "/api/v1/nodes/node-web-0";

#[tokio::test(start_paused = true)]
async fn fields_that_the_models_do_not_know_survive() {
    let world = idle();
    let reference = json!({"kind": "KWOKNodeClass", "name": "default"});
    let patch = json!({"spec": {"weight": 7, "limits": {"cpu": 100}, "template": {"spec": {"nodeClassRef": reference}}}});
    ask(&world, Method::PATCH, POOL, patch).await.unwrap();
    ask(&world, Method::PATCH, POOL, json!({"metadata": {"annotations": {"mine": "1"}}})).await.unwrap();
    let pool = ask(&world, Method::GET, POOL, Value::Null).await.unwrap();
    assert_eq!(pool["spec"]["weight"], 7);
    assert_eq!(pool["spec"]["template"]["spec"]["nodeClassRef"], reference);
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "336h");
    assert_eq!(pool["metadata"]["annotations"], json!({"mine": "1"}));
    world.look(|pools| assert_eq!(pools[0].view.pools["web"].spec.limits.as_ref().unwrap()["cpu"], 100));
}

/// The real API server would do all of this.
#[tokio::test(start_paused = true)]
async fn what_the_world_can_not_do_is_refused_with_the_reason() {
    let world = idle();
    for (method, path, body, why) in [
        (Method::DELETE, POOL, Value::Null, "no nodepools deleted that its models know"),
        (
            Method::PATCH,
            "/apis/apps/v1/namespaces/default/deployments/web-shop",
            json!({"spec": {"paused": true}}),
            "makes deployments anew when they are read",
        ),
        (
            Method::PATCH,
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web-shop",
            json!({"spec": {"maxUnavailable": "50%"}}),
            "a whole number as spec.maxUnavailable only",
        ),
        (Method::DELETE, "/api/v1/namespaces/kube-system/pods/agent-node-web-0", Value::Null, "a DaemonSet's Pods end with their Nodes"),
        (Method::PUT, POOL, json!({}), "the server does not allow this method on the requested resource"),
    ] {
        let refused = refusal(&world, method, path, body).await;
        assert_eq!((refused.code, refused.reason.as_str()), (405, "MethodNotAllowed"));
        assert!(refused.message.contains(why), "{}", refused.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cordon_and_a_delete_mean_to_the_models_what_they_say() {
    let world = idle();
    ask(&world, Method::PATCH, NODE, json!({"spec": {"unschedulable": true}})).await.unwrap();
    world.look(|pools| assert!(pools[0].hosts.iter().any(|(_, host)| host.node == "node-web-0" && host.cordoned)));
    let going = ask(&world, Method::DELETE, CLAIM, Value::Null).await.unwrap();
    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-11-30T12:00:00Z");
    assert_eq!(going["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(ask(&world, Method::GET, CLAIM, Value::Null).await, Err(404));
    let events = |event| world.look(|pools| pools[0].history.iter().filter(|happening| happening.event == event).count());
    assert_eq!((events(Event::Deleted), events(Event::Draining), events(Event::Gone)), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_others_keeps_a_claim_that_karpenter_is_done_with() {
    let world = idle();
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.sh/termination", "example.com/mine"]}});
    ask(&world, Method::PATCH, CLAIM, finalizers).await.unwrap();
    ask(&world, Method::DELETE, CLAIM, Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.look(|pools| assert!(!pools[0].view.claims.contains_key("web-0")));
    let kept = ask(&world, Method::GET, CLAIM, Value::Null).await.unwrap();
    assert_eq!(kept["metadata"]["finalizers"], json!(["example.com/mine"]));
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    ask(&world, Method::PATCH, CLAIM, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert_eq!(ask(&world, Method::GET, CLAIM, Value::Null).await, Err(404));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_ends_in_its_grace_and_its_controller_makes_another() {
    let world = idle();
    let pods = "/api/v1/namespaces/default/pods";
    let names = async || {
        let list = ask(&world, Method::GET, pods, Value::Null).await.unwrap();
        let is_going = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let items = list["items"].as_array().unwrap().clone();
        let going = items.iter().filter(is_going).count();
        (items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), going)
    };
    let (before, _) = names().await;
    let path = format!("{pods}/{}", before[0]);
    let dry = ask(&world, Method::DELETE, &format!("{path}?dryRun=All"), Value::Null).await.unwrap();
    assert!(dry["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(names().await, (before.clone(), 0));
    let uid = json!({"preconditions": {"uid": "another"}});
    assert_eq!(ask(&world, Method::DELETE, &path, uid).await, Err(409));
    ask(&world, Method::DELETE, &path, Value::Null).await.unwrap();
    assert_eq!((names().await.0.len(), names().await.1), (before.len() + 1, 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (after, going) = names().await;
    assert_eq!((after.len(), going, after.contains(&before[0])), (before.len(), 0, false));
    assert_eq!(ask(&world, Method::DELETE, &path, Value::Null).await, Err(404));
    world.look(|pools| assert_eq!(pools[0].ready_pods()["web-shop"], (10, 10)));
}

#[tokio::test(start_paused = true)]
async fn controllers_are_listed_and_scaled() {
    let world = idle();
    let path = "/apis/apps/v1/namespaces/default/deployments/web-shop";
    let seen = async || {
        let deployment = ask(&world, Method::GET, path, Value::Null).await.unwrap();
        (deployment["spec"]["replicas"].clone(), deployment["status"]["readyReplicas"].clone())
    };
    assert_eq!(seen().await, (json!(10), json!(10)));
    let sets = ask(&world, Method::GET, "/apis/apps/v1/replicasets", Value::Null).await.unwrap();
    let pods = ask(&world, Method::GET, "/api/v1/namespaces/default/pods?limit=1", Value::Null).await.unwrap();
    let (set, pod) = (&sets["items"][0]["metadata"], &pods["items"][0]["metadata"]);
    assert_eq!((&pod["ownerReferences"][0]["uid"], &set["ownerReferences"][0]["name"]), (&set["uid"], &json!("web-shop")));
    assert_eq!(ask(&world, Method::GET, "/apis/apps/v1/statefulsets", Value::Null).await.unwrap()["items"], json!([]));
    for replicas in [13, 4, 0, 2] {
        ask(&world, Method::PATCH, path, json!({"spec": {"replicas": replicas}})).await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(seen().await, (json!(replicas), json!(replicas)));
        let pods = ask(&world, Method::GET, "/api/v1/namespaces/default/pods", Value::Null).await.unwrap();
        assert_eq!(pods["items"].as_array().unwrap().len(), replicas);
    }
    assert_eq!(ask(&world, Method::GET, path, Value::Null).await.unwrap()["metadata"]["generation"], 5);
    assert_eq!(ask(&world, Method::PATCH, path, json!({"spec": {"paused": true}})).await, Err(405));
}

/// Such a number would hold the world for ever, in earnest as in a dry run; the answer has the API server's form.
#[tokio::test(start_paused = true)]
async fn replicas_that_nobody_could_play_are_refused() {
    let deployments = idle();
    let sets = idle_set();
    for (world, path, kind) in [
        (&deployments, "/apis/apps/v1/namespaces/default/deployments/web-shop", "Deployment"),
        (&sets, "/apis/apps/v1/namespaces/default/statefulsets/web-db", "StatefulSet"),
    ] {
        let before = ask(world, Method::GET, path, Value::Null).await.unwrap();
        let most = "must be a whole number between 0 and 1000, inclusive: the embedded world runs no more Pods of one workload";
        for (replicas, right) in [
            (json!(2_000_000_000), most),
            (json!(1001), most),
            (json!(u64::MAX), most),
            (json!(1.5), most),
            (json!("3"), most),
            (json!(-1), "must be greater than or equal to 0"),
        ] {
            for dry in ["", "?dryRun=All"] {
                let refused = refusal(world, Method::PATCH, &format!("{path}{dry}"), json!({"spec": {"replicas": replicas}})).await;
                let name = path.rsplit_once('/').unwrap().1;
                let why = format!("Invalid value: {replicas}: {right}");
                assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
                assert_eq!(refused.message, format!("{kind}.apps \"{name}\" is invalid: spec.replicas: {why}"));
                let cause = &refused.details.unwrap().causes[0];
                assert_eq!((cause.field.as_str(), cause.message.as_str()), ("spec.replicas", why.as_str()));
            }
        }
        assert_eq!(ask(world, Method::GET, path, Value::Null).await.unwrap(), before);
        let most = json!({"spec": {"replicas": 1000}});
        assert_eq!(ask(world, Method::PATCH, &format!("{path}?dryRun=All"), most).await.unwrap()["spec"]["replicas"], 1000);
    }
    let spec = json!({"replicas": 1001, "selector": {"matchLabels": {"app": "new"}}});
    let new = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": spec});
    let refused = refusal(&deployments, Method::POST, "/apis/apps/v1/namespaces/default/deployments", new).await;
    assert_eq!(refused.code, 422);
}

/// Pods that come while a placeholder keeps room for others take that room, and the rotation has to see it through.
#[tokio::test(start_paused = true)]
async fn a_workload_that_is_scaled_in_mid_rotation_does_no_harm() {
    for (minutes, replicas) in [(0, 12), (0, 20), (1, 20), (2, 20), (0, 2), (1, 2)] {
        let world = due();
        let invariants = Invariants::in_trouble(&world);
        let passes = Gate::open_to_all().client(invariants.door());
        for minute in 0..50 {
            run(passes.clone()).await.unwrap();
            if minute == minutes {
                world.look(|pools| assert!(pools[0].view.pools["web"].metadata.annotation(keys::ACTIVE_ROTATION).is_some()));
                let path = "/apis/apps/v1/namespaces/default/deployments/web-shop";
                ask(&world, Method::PATCH, path, json!({"spec": {"replicas": replicas}})).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let words = format!("{replicas} after {minutes} minutes");
        invariants.assert(&words);
        world.look(|pools| {
            let told = |event| pools[0].history.iter().filter(|happening| happening.event == event).count();
            assert!(told(Event::Completed) > 0, "{words}: {:?}", pools[0].history);
            assert_eq!(pools[0].ready_pods()["web-shop"], (replicas, replicas), "{words}");
        });
    }
}

/// A StatefulSet is scaled and its Pods are protected for a while in mid-rotation, whose own Pods go on in their zones.
#[tokio::test(start_paused = true)]
async fn a_stateful_set_that_is_scaled_and_protected_in_mid_rotation_does_no_harm() {
    for (minutes, replicas, protect) in [(0, 7, "15m"), (1, 16, "false"), (0, 1, "true"), (1, 0, "10m"), (2, 0, "true")] {
        let world = stateful(&Model::default(), 1, at("2026-12-02T02:05:00Z"));
        let invariants = Invariants::in_trouble(&world);
        let passes = Gate::open_to_all().client(invariants.door());
        let annotate = async |value: Value| {
            let words = json!({"metadata": {"annotations": {keys::DO_NOT_DISRUPT: value}}});
            ask(&world, Method::PATCH, "/api/v1/namespaces/default/pods/web-db-0", words).await
        };
        for minute in 0..50 {
            run(passes.clone()).await.unwrap();
            if minute == minutes {
                world.look(|pools| assert!(pools[0].view.pools["web"].metadata.annotation(keys::ACTIVE_ROTATION).is_some()));
                annotate(json!(protect)).await.unwrap();
                let path = "/apis/apps/v1/namespaces/default/statefulsets/web-db";
                ask(&world, Method::PATCH, path, json!({"spec": {"replicas": replicas}})).await.unwrap();
            }
            if minute == 20 && replicas > 0 {
                annotate(Value::Null).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let words = format!("{replicas} after {minutes} minutes, {protect}");
        invariants.assert(&words);
        world.look(|pools| {
            let told = |event| pools[0].history.iter().filter(|happening| happening.event == event).count();
            assert!(told(Event::Completed) > 0, "{words}: {:?}", pools[0].history);
            assert_eq!(pools[0].ready_pods()["web-db"], (replicas, replicas), "{words}");
        });
    }
}
