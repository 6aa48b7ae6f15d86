//! The zonal volumes of a StatefulSet, as objects.

use std::{collections::BTreeMap, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::{
    fleet::{at, idle_set, run_until, stateful},
    kubectl::{PODS, ask, get, names},
};
use crate::{
    api::keys,
    world::{fleet::Model, history::Event, http::World},
};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const SET: &str = "/apis/apps/v1/namespaces/default/statefulsets/web-db";

/// Of each Pod with a Node: its uid, its Node's zone, and the volume behind its claim.
async fn placed(world: &World) -> BTreeMap<String, (String, String, String)> {
    let mut placed = BTreeMap::new();
    for pod in get(world, PODS).await["items"].as_array().unwrap() {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (Some(node), Some(claim)) = (text("/spec/nodeName"), text("/spec/volumes/0/persistentVolumeClaim/claimName")) else { continue };
        let node = get(world, &format!("/api/v1/nodes/{node}")).await;
        let claim = get(world, &format!("{CLAIMS}/{claim}")).await;
        let zone = node["metadata"]["labels"][keys::ZONE_LABEL].as_str().unwrap().to_owned();
        let volume = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
        placed.insert(text("/metadata/name").unwrap(), (text("/metadata/uid").unwrap(), zone, volume));
    }
    placed
}

fn zone_of(volume: &Value) -> &Value {
    &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0]
}

#[tokio::test(start_paused = true)]
async fn each_replica_has_a_claim_bound_to_a_volume_in_the_zone_of_its_node() {
    let world = idle_set();
    let claims: Vec<String> = (0..4).map(|ordinal| format!("data-web-db-{ordinal}")).collect();
    assert_eq!(names(&world, CLAIMS).await, claims);
    let placed = placed(&world).await;
    assert_eq!(placed.keys().cloned().collect::<Vec<_>>(), (0..4).map(|ordinal| format!("web-db-{ordinal}")).collect::<Vec<_>>());
    for (pod, (_, zone, name)) in &placed {
        let claim = get(&world, &format!("{CLAIMS}/data-{pod}")).await;
        assert_eq!((&claim["kind"], &claim["status"]["phase"]), (&json!("PersistentVolumeClaim"), &json!("Bound")));
        let volume = get(&world, &format!("{VOLUMES}/{name}")).await;
        assert_eq!(zone_of(&volume), zone);
        let bound = &volume["spec"]["claimRef"];
        assert_eq!(
            (&bound["namespace"], &bound["name"], &bound["uid"]),
            (&json!("default"), &claim["metadata"]["name"], &claim["metadata"]["uid"])
        );
        assert_eq!(volume["spec"]["capacity"]["storage"], claim["spec"]["resources"]["requests"]["storage"]);
    }
    let zones: std::collections::BTreeSet<&String> = placed.values().map(|(_, zone, _)| zone).collect();
    assert_eq!(zones.len(), 2);
    let set = get(&world, SET).await;
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], "data");
    assert_eq!(set["spec"]["template"]["spec"]["volumes"], Value::Null);
    let pod = get(&world, &format!("{PODS}/web-db-0")).await;
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-db-0"}}]));
}

#[tokio::test(start_paused = true)]
async fn they_are_selected_and_paged_as_other_objects() {
    let world = idle_set();
    assert_eq!(names(&world, &format!("{CLAIMS}?labelSelector=app=web-db&fieldSelector=metadata.name=data-web-db-2")).await.len(), 1);
    assert_eq!(names(&world, &format!("{CLAIMS}?labelSelector=app=other")).await, Vec::<String>::new());
    assert_eq!(names(&world, "/api/v1/namespaces/elsewhere/persistentvolumeclaims").await, Vec::<String>::new());
    assert_eq!(names(&world, "/api/v1/persistentvolumeclaims").await.len(), 4);
    let all = names(&world, VOLUMES).await;
    let (mut read, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("{VOLUMES}?limit=3&continue={next}");
        read.extend(names(&world, &path).await);
        next = get(&world, &path).await["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!((read.len(), read), (4, all));
    assert_eq!(ask(&world, Method::GET, &format!("{CLAIMS}/absent"), Value::Null).await, Err(404));
    assert_eq!(ask(&world, Method::DELETE, &format!("{CLAIMS}/data-web-db-0"), Value::Null).await, Err(405));
    let other = json!({"spec": {"storageClassName": "other"}});
    assert_eq!(ask(&world, Method::PATCH, &format!("{CLAIMS}/data-web-db-0"), other).await, Err(422));
}

#[tokio::test(start_paused = true)]
async fn a_successor_has_the_name_and_the_volume_of_the_pod_that_went() {
    let world = idle_set();
    let (before, volumes) = (placed(&world).await, names(&world, VOLUMES).await);
    ask(&world, Method::DELETE, &format!("{PODS}/web-db-1"), Value::Null).await.unwrap();
    // The old one is still ending: a second of its name can't be.
    assert_eq!(names(&world, PODS).await.iter().filter(|name| *name == "web-db-1").count(), 1);
    assert!(get(&world, &format!("{PODS}/web-db-1")).await["metadata"]["deletionTimestamp"].is_string());
    tokio::time::sleep(Duration::from_secs(120)).await;
    let after = placed(&world).await;
    assert_ne!(after["web-db-1"].0, before["web-db-1"].0);
    assert_eq!((&after["web-db-1"].1, &after["web-db-1"].2), (&before["web-db-1"].1, &before["web-db-1"].2));
    assert_eq!(names(&world, VOLUMES).await, volumes);
}

#[tokio::test(start_paused = true)]
async fn scaling_ends_the_highest_ordinals_and_leaves_their_volumes() {
    let world = idle_set();
    let before = placed(&world).await;
    let pods = async || {
        let mut pods = names(&world, PODS).await;
        pods.retain(|name| name.starts_with("web-db"));
        pods
    };
    let scale = async |replicas: u32| {
        ask(&world, Method::PATCH, SET, json!({"spec": {"replicas": replicas}})).await.unwrap();
    };
    scale(2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(pods().await, ["web-db-0", "web-db-1"]);
    assert_eq!(names(&world, CLAIMS).await.len(), 4);
    // Up again while those that are wanted no more still end.
    scale(0).await;
    scale(3).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(pods().await, ["web-db-0", "web-db-1", "web-db-2"]);
    scale(6).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let after = placed(&world).await;
    assert_eq!(after.len(), 6);
    for (pod, (_, zone, volume)) in &before {
        assert_eq!((&after[pod].1, &after[pod].2), (zone, volume), "{pod}");
    }
    assert_eq!((names(&world, CLAIMS).await.len(), names(&world, VOLUMES).await.len()), (6, 6));
    world.look(|pools| assert_eq!(pools[0].ready_pods()["web-db"], (6, 6)));
}

/// Its zone has no room: the other zone's room is no use, until a Node comes in its own.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_node_in_the_zone_of_its_volume() {
    let outage = Model { no_capacity: vec![(at("2026-11-30T12:00:00Z"), at("2026-11-30T13:00:00Z"))], ..Model::default() };
    let world = stateful(&outage, 1, at("2026-11-30T12:00:00Z"));
    let before = placed(&world).await;
    let (pod, (_, zone, volume)) = before.iter().find(|(_, (_, zone, _))| zone == "b").unwrap();
    ask(&world, Method::DELETE, "/apis/karpenter.sh/v1/nodeclaims/web-1", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let waiting = get(&world, &format!("{PODS}/{pod}")).await;
    assert_eq!((&waiting["status"]["phase"], &waiting["spec"]["nodeName"]), (&json!("Pending"), &Value::Null));
    assert_eq!(get(&world, &format!("{CLAIMS}/data-{pod}")).await["spec"]["volumeName"], volume.as_str());
    world.look(|pools| assert!(pools[0].hosts.iter().any(|(_, host)| host.takes_pods() && host.free().cpu > 1000)));
    tokio::time::sleep(Duration::from_secs(2700)).await;
    let after = placed(&world).await;
    assert_eq!((&after[pod].1, &after[pod].2), (zone, volume));
    let launched = world.look(|pools| pools[0].history.iter().filter(|happening| happening.event == Event::Ready).count());
    assert_eq!(launched, 1);
}

#[tokio::test(start_paused = true)]
async fn a_rotation_takes_no_pod_out_of_the_zone_of_its_volume() {
    let world = stateful(&Model::default(), 1, at("2026-12-02T02:00:00Z"));
    let before = placed(&world).await;
    run_until(&world, at("2026-12-02T03:30:00Z")).await;
    let after = placed(&world).await;
    let zones = |placed: &BTreeMap<String, (String, String, String)>| {
        placed.iter().map(|(pod, (_, zone, volume))| (pod.clone(), zone.clone(), volume.clone())).collect::<Vec<_>>()
    };
    assert_eq!(zones(&after), zones(&before));
    assert!(after.values().zip(before.values()).any(|((is, ..), (was, ..))| is != was));
    assert!(world.look(|pools| pools[0].history.iter().any(|happening| happening.event == Event::Completed)));
}
