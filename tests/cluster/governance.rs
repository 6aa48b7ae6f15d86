//! Policies that go, break or tie in the middle of a rotation.

use control_plane::Options;
use serde_json::{Value, json};

use crate::{
    passes::{NAMESPACE, Passes},
    policy::{policy, with},
    pools::{LIMIT, allow, fill, fill_and_stall, is_deleting, pool, said},
};

/// No attempt of these times out, and nothing but the policy keeps the next rotation from starting.
fn patient(name: &str) -> Value {
    with(policy(name), "surge.readyTimeout", json!("20m"))
}

fn broken(name: &str) -> Value {
    let window = json!([{"timezone": "PST", "days": ["Mon"], "start": "00:00", "end": "24:00"}]); // no IANA zone
    with(patient(name), "maintenanceWindows", window)
}

fn rival(name: &str) -> Value {
    let mut rival = patient(name);
    rival["metadata"]["name"] = json!(format!("{name}-rival"));
    rival
}

const POOLS: [&str; 4] = ["pending", "draining", "broken", "tied"];

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_policy_rolls_back_and_a_broken_or_tied_one_only_stops_what_is_next() {
    let passes = Passes::start(Options::default()).await;
    let plane = &passes.plane;
    let [pending, draining, invalid, tied] = POOLS.map(pool);
    let (_, blocked, _, _) = tokio::join!(
        fill_and_stall(plane, &pending, 1, 5),
        fill(plane, &draining, 1, 0),
        fill_and_stall(plane, &invalid, 1, 5),
        fill_and_stall(plane, &tied, 1, 5)
    );
    let (mut old, mut before) = (Vec::new(), Vec::new());
    for pool in POOLS {
        let claim = passes.only_claim(pool).await;
        before.push(passes.marks(&claim).await);
        old.push(claim);
    }
    plane.apply_objects(&POOLS.map(patient)).await.unwrap();
    passes
        .until("three wait for their surge and one drains", LIMIT, async |_| {
            let is = async |index: usize, state: &str| passes.state(&old[index]).await.as_deref() == Some(state);
            let drains = passes.claim(&old[1]).await.is_some_and(|claim| is_deleting(&claim));
            drains && is(0, "pending").await && is(1, "draining").await && is(2, "pending").await && is(3, "pending").await
        })
        .await;

    lost(&passes, &old, &before[0]).await;

    plane.apply_objects(&[broken("broken"), rival("tied")]).await.unwrap();
    stopped(&passes, &old).await;
    for pool in [invalid, tied] {
        plane.install(&pool).await.unwrap();
    }
    allow(plane, &blocked, 5).await;
    let success = json!({"success": 1});
    passes.until_totals(&[("broken", success.clone()), ("tied", success.clone())]).await;
    plane.wait_for("the draining claim is gone", LIMIT, async || Ok(passes.claim(&old[1]).await.is_none())).await.unwrap();
    stopped(&passes, &old).await;

    let nothing = json!({});
    let expected = [("pending", nothing.clone()), ("draining", nothing), ("broken", success.clone()), ("tied", success)];
    passes.assert_settled(&expected).await;
    for (reason, count) in [("GovernanceLost", 2), ("RotationSwept", 0), ("RotationFailed", 0), ("RotationExpired", 0)] {
        assert_eq!(passes.told(reason, "").await.len(), count, "{reason}");
    }

    without_its_crd(&passes).await;
}

/// What waits is undone, in an order that keeps the way back until the last; what drains is left to its end, and no later
/// sweep takes either for a failure.
async fn lost(passes: &Passes, old: &[String], before: &Value) {
    let host = passes.newcomer("draining", &old[1]).await.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(passes.marks(&host).await.to_string().contains("noderotation.io/surge-for"), "the surge is protected");
    let written = passes.writes().len();
    passes.plane.run_kubectl(&["delete", "rotationpolicy", "pending", "draining"], "").await.unwrap();
    passes
        .until("both anchors are released", LIMIT, async |_| {
            passes.anchor("pending").await.is_none() && passes.anchor("draining").await.is_none()
        })
        .await;
    let node = passes.claim(&old[0]).await.unwrap()["status"]["nodeName"].as_str().unwrap().to_owned();
    let placeholder = format!("delete pods noderotation-surge-{}", old[0]);
    let mut steps = vec![placeholder, format!("patch nodes {node}"), format!("patch nodeclaims {}", old[0])];
    steps.push("patch nodepools pending".into());
    let mut writes = passes.writes().split_off(written);
    writes.retain(|write| steps.contains(write));
    writes.dedup();
    assert_eq!(writes, steps);

    for _ in 0..3 {
        passes.idle(1).await;
        assert_eq!(passes.state(&old[0]).await, None);
        assert_eq!(passes.state(&old[1]).await.as_deref(), Some("draining"));
    }
    assert!(is_deleting(&passes.claim(&old[1]).await.unwrap()), "it drains on");
    assert_eq!(passes.marks(&old[0]).await, *before, "the Node is as it was");
    assert!(!passes.marks(&host).await.to_string().contains("noderotation.io/"), "the surge is protected no longer");
    for (pool, claim) in ["pending", "draining"].iter().zip(old) {
        assert_eq!(passes.told("GovernanceLost", claim).await.len(), 1, "{pool}");
        assert_eq!(passes.totals(pool).await, Value::Null, "{pool}");
        assert_eq!(passes.pool_annotation(pool, "last-rotation-at").await, None, "{pool}");
        assert_eq!(passes.pool_annotation(pool, "last-failure-at").await, None, "{pool}");
    }
}

/// What is in flight is not touched, nothing new starts, and both policies say why.
async fn stopped(passes: &Passes, old: &[String]) {
    let idle = passes.idle(2).await;
    for (pool, claim) in ["broken", "tied"].iter().zip(&old[2..]) {
        let in_flight = passes.claim(claim).await.is_some();
        assert_eq!(passes.anchor(pool).await.as_ref(), in_flight.then_some(claim), "{pool}");
        let gate = if *pool == "tied" { "no start (conflict)" } else { "no start (invalid-policy)" };
        let lines = said(&idle, pool);
        assert!(lines.iter().all(|line| line.contains(if in_flight { "await-surge" } else { gate })), "{lines:?}");
    }
    let (status, reason, message) = passes.verdict("broken").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"));
    assert!(message.starts_with("spec.maintenanceWindows[0].timezone: \"PST\": an IANA zone name"), "{message}");
    for policy in ["tied", "tied-rival"] {
        let (status, reason, message) = passes.verdict(policy).await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Conflict"), "{policy}");
        assert!(message.starts_with("another policy is equally specific for tied"), "{message}");
    }
    let (invalid, conflict) = (passes.told("PolicyInvalid", "").await, passes.told("PolicyConflict", "").await);
    assert_eq!((invalid.len(), conflict.len()), (1, 1), "{invalid:?} {conflict:?}");
    assert!(invalid[0].contains("spec.maintenanceWindows[0].timezone"), "{invalid:?}");
    assert!(conflict[0].contains("tied, tied-rival"), "{conflict:?}");
}

/// Last, since it takes all policies with it.
async fn without_its_crd(passes: &Passes) {
    passes.plane.run_kubectl(&["delete", "crd", "rotationpolicies.noderotation.io"], "").await.unwrap();
    passes
        .plane
        .wait_for("a pass misses the CRD", LIMIT, async || {
            let pass = passes.pass().await;
            Ok(pass.code == Some(3) && pass.log.contains("does not serve rotationpolicies.noderotation.io/v1alpha1"))
        })
        .await
        .unwrap();
    let left = passes.plane.run_kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "name"], "").await.unwrap();
    assert_eq!(left, "");
}
