//! Surges that never come: all is put back, and tried again.

use std::time::Duration;

use control_plane::Options;
use noderotation::api::time::parse_annotation;
use serde_json::{Value, json};

use crate::{
    passes::{Passes, annotation},
    policy::{policy, with},
    pools::{LIMIT, fill, fill_and_stall, is, is_deleting, name, pool},
};

/// A policy under which an attempt fails soon, and one success ends the test.
fn hasty(name: &str, ready_timeout: &str, retry_backoff: &str) -> Value {
    let policy = with(policy(name), "surge.readyTimeout", json!(ready_timeout));
    with(with(policy, "surge.retryBackoff", json!(retry_backoff)), "surge.cooldownAfter", json!("1h"))
}

/// A Pod of somebody else's, on this very Node.
fn intruder(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "intruder", "namespace": "default"},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.invalid/pause"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
    })
}

const POOLS: [&str; 4] = ["late", "unregistered", "unready", "shared"];

/// `late` gets no NodeClaim, `unregistered` one that never registers, `unready` and `shared` a Node that never becomes
/// Ready; that of `shared` holds a Pod of somebody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_surge_that_never_comes_is_undone_and_tried_again() {
    // Stamps have whole seconds: what came for an attempt is told from what was there by a second that is later.
    let passes = Passes::start(Options { batch_idle: Duration::from_secs(1), ..Options::default() }).await;
    let plane = &passes.plane;
    let [late, unregistered, unready, shared] = POOLS.map(pool);
    tokio::join!(
        fill_and_stall(plane, &late, 1, 5),
        fill(plane, &unregistered, 1, 5),
        fill(plane, &unready, 1, 5),
        fill(plane, &shared, 1, 5)
    );
    plane.install(&unregistered.clone().registration_delay("24h")).await.unwrap();
    plane.hold_new_nodes().unwrap();
    let (mut old, mut before) = (Vec::new(), Vec::new());
    for pool in POOLS {
        let claim = passes.only_claim(pool).await;
        before.push(passes.marks(&claim).await);
        old.push(claim);
    }
    let policies = POOLS.map(|name| hasty(name, "30s", if name == "late" { "30s" } else { "1h" }));
    plane.apply_objects(&policies).await.unwrap();

    passes
        .until("the Nodes of unready and shared have registered", LIMIT, async |_| {
            let registered = async |pool: usize| passes.newcomer(POOLS[pool], &old[pool]).await.is_some_and(|came| is(&came, "Registered"));
            registered(2).await && registered(3).await
        })
        .await;
    let spared = passes.newcomer("shared", &old[3]).await.unwrap();
    plane.apply_objects(&[intruder(spared["status"]["nodeName"].as_str().unwrap())]).await.unwrap();
    let reaped = name(&passes.newcomer("unready", &old[2]).await.unwrap());
    assert!(passes.marks(&old[0]).await["unschedulable"] == true, "the Node is held while the surge is awaited");

    let failed = json!({"failure": 1});
    passes.until_totals(&POOLS.map(|pool| (pool, failed.clone()))).await;
    for (index, pool) in POOLS.iter().enumerate() {
        rolled_back(&passes, pool, &old[index], &before[index]).await;
    }
    status_tells_of_the_backoff(&passes, &old).await;
    spares_and_reaps(&passes, &old, &reaped, &name(&spared)).await;

    backoff_holds(&passes, &late, &old[0]).await;

    plane.apply_objects(&[hasty("unregistered", "3m", "1s"), hasty("unready", "3m", "1s"), hasty("shared", "3m", "1s")]).await.unwrap();
    plane.install(&unregistered).await.unwrap();
    passes.delete_claim(&name(&passes.newcomer("unregistered", &old[1]).await.unwrap())).await;
    plane.release_new_nodes().unwrap();
    let both = json!({"failure": 1, "success": 1});
    passes.until_totals(&POOLS.map(|pool| (pool, both.clone()))).await;
    for claim in &old {
        assert_eq!(passes.claim(claim).await, None);
        assert_eq!(passes.told("RotationFailed", claim).await.len(), 1);
        assert_eq!(passes.told("RotationCompleted", claim).await.len(), 1);
    }
    passes.assert_settled(&POOLS.map(|pool| (pool, both.clone()))).await;
}

async fn rolled_back(passes: &Passes, pool: &str, claim: &str, before: &Value) {
    assert_eq!(passes.marks(claim).await, *before, "{pool}: the Node is as it was");
    let object = passes.claim(claim).await.unwrap();
    assert!(!is_deleting(&object), "{pool}");
    assert_eq!(annotation(&object, "state").as_deref(), Some("failed"), "{pool}");
    assert_eq!(annotation(&object, "retry-count").as_deref(), Some("1"), "{pool}");
    assert_eq!(annotation(&object, "started-at"), None, "{pool}");
    assert_eq!(annotation(&object, "surge-claim"), None, "{pool}");
    let pause = passes.pool_annotation(pool, "last-failure-at").await;
    assert_eq!(pause, annotation(&object, "failed-at"), "{pool}");
    assert!(pause.is_some(), "{pool}");
    assert_eq!(passes.anchor(pool).await, None, "{pool}");
    let told = passes.told("RotationFailed", claim).await;
    assert_eq!(told.len(), 1, "{pool}: {told:?}");
    assert!(
        told[0].starts_with(&format!("Attempt 1 on NodeClaim {claim} failed and was rolled back: no Ready surge within readyTimeout 30s"))
    );
}

async fn status_tells_of_the_backoff(passes: &Passes, old: &[String]) {
    let status = passes.told_as_json(&["status", "-o", "json"]).await;
    assert_eq!(status["inFlight"], json!([]), "{status:#}");
    for (pool, claim) in POOLS.iter().zip(old) {
        let failed = status["failed"].as_array().unwrap().iter().find(|failed| failed["claim"] == **claim).unwrap();
        assert_eq!((&failed["pool"], &failed["state"], &failed["attempts"]), (&json!(pool), &json!("failed"), &json!(1)), "{status:#}");
        assert_eq!(failed["failedAt"].as_str().map(str::to_owned), annotation(&passes.claim(claim).await.unwrap(), "failed-at"));
        if *pool != "late" {
            let instant = |key: &str| parse_annotation(failed[key].as_str().unwrap()).unwrap();
            assert_eq!((instant("backoffUntil") - instant("failedAt")).num_seconds(), 3600, "{status:#}");
        }
        let outcomes = status["outcomes"].as_array().unwrap().iter().find(|outcomes| outcomes["pool"] == *pool).unwrap();
        assert_eq!((&outcomes["failure"], &outcomes["lastFailureAt"]), (&json!(1), &failed["failedAt"]), "{status:#}");
    }
    let table = passes.operator(&["status", "unready"]).await;
    let row = table.stdout.lines().find(|line| line.contains(&old[2])).unwrap_or_else(|| panic!("{}", table.stdout));
    assert!(row.contains("failed") && row.contains("(in 59m"), "{row}");
}

/// Only a Node that registered and holds nothing of anybody's is ended.
async fn spares_and_reaps(passes: &Passes, old: &[String], reaped: &str, spared: &str) {
    passes
        .plane
        .wait_for("the Node that never became Ready is ended", LIMIT, async || Ok(passes.claim(reaped).await.is_none()))
        .await
        .unwrap();
    assert!(!is_deleting(&passes.claim(spared).await.unwrap()));
    let told = passes.told("SurgeNodeNotReady", "").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(spared), "{told:?}");
    let unregistered = passes.newcomer("unregistered", &old[1]).await.unwrap();
    assert!(!is(&unregistered, "Registered") && !is_deleting(&unregistered));
    assert_eq!(passes.newcomer("late", &old[0]).await, None);
}

/// Capacity is there at once, and still nothing starts until the backoff of 30 s is over.
async fn backoff_holds(passes: &Passes, late: &control_plane::Pool, claim: &str) {
    let failed = annotation(&passes.claim(claim).await.unwrap(), "failed-at").unwrap();
    passes.plane.install(late).await.unwrap();
    passes.plane.apply_objects(&[hasty("late", "3m", "30s")]).await.unwrap();
    passes.until("late is tried again", LIMIT, async |_| passes.anchor("late").await.is_some()).await;
    let started = annotation(&passes.claim(claim).await.unwrap(), "started-at").unwrap();
    let waited = parse_annotation(&started).unwrap() - parse_annotation(&failed).unwrap();
    assert!(waited.num_seconds() >= 30, "{failed} to {started}");
}
