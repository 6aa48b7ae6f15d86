//! NodeClaims that somebody else deletes in the middle of their rotation.

use control_plane::Options;
use serde_json::{Value, json};

use crate::{
    passes::Passes,
    policy::{policy, with},
    pools::{LIMIT, allow, fill_and_stall, is_deleting, name, pool},
};

/// A policy under which one success ends the test.
fn once(name: &str) -> Value {
    with(with(policy(name), "surge.readyTimeout", json!("10m")), "surge.cooldownAfter", json!("1h"))
}

/// `pending` is deleted while its surge is awaited and drains slowly; `gone` is gone before the next pass; `failed` is
/// deleted after its retry was anchored and the pass was killed. The surges of all three are stalled.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_somebody_else_deletes_counts_as_expired_and_the_next_one_is_rotated() {
    let passes = Passes::start(Options::default()).await;
    let plane = &passes.plane;
    let (pending, gone, failed) = (pool("pending"), pool("gone"), pool("failed"));
    let (slow, _, stuck) =
        tokio::join!(fill_and_stall(plane, &pending, 2, 0), fill_and_stall(plane, &gone, 1, 5), fill_and_stall(plane, &failed, 1, 0));
    let hasty = with(with(once("failed"), "surge.readyTimeout", json!("5s")), "surge.retryBackoff", json!("1h"));
    plane.apply_objects(&[once("pending"), once("gone"), hasty]).await.unwrap();

    passes
        .until("all three wait for their surge, and one has failed", LIMIT, async |_| {
            let waits = passes.anchor("pending").await.is_some() && passes.anchor("gone").await.is_some();
            waits && passes.outcomes("failed").await == json!({"failure": 1}) && passes.anchor("failed").await.is_none()
        })
        .await;
    let deleted = while_pending(&passes).await;
    let vanished = between_passes(&passes).await;
    let retried = while_failed(&passes).await;

    for (pool, claim) in [("pending", &deleted), ("gone", &vanished), ("failed", &retried)] {
        let told = passes.told("RotationExpired", claim).await;
        assert_eq!(told.len(), 1, "{pool}: {told:?}");
        assert_eq!(passes.told("RotationCompleted", claim).await, [""; 0], "{pool}");
    }
    for pool in [pending, gone, failed] {
        plane.install(&pool).await.unwrap();
    }
    allow(plane, &slow, 5).await;
    allow(plane, &stuck, 5).await;
    let expected = [
        ("pending", json!({"expired": 1, "success": 1})),
        ("gone", json!({"expired": 1, "success": 1})),
        ("failed", json!({"expired": 1, "failure": 1, "success": 1})),
    ];
    passes.until_totals(&expected).await;
    for claim in [&deleted, &vanished, &retried] {
        plane.wait_for("the deleted claim is gone", LIMIT, async || Ok(passes.claim(claim).await.is_none())).await.unwrap();
        assert_eq!(passes.told("RotationExpired", claim).await.len(), 1);
    }
    passes.assert_settled(&expected).await;
}

/// A budget that allows nothing keeps the claim draining for as long as it takes.
async fn while_pending(passes: &Passes) -> String {
    let claim = passes.anchor("pending").await.unwrap();
    let other = name(&passes.newcomer("pending", &claim).await.unwrap());
    let untouched = passes.marks(&other).await;
    passes.delete_claim(&claim).await;
    passes.until_totals(&[("pending", json!({"expired": 1}))]).await;
    let object = passes.claim(&claim).await.unwrap();
    assert!(is_deleting(&object), "it still drains");
    assert_eq!(passes.state(&claim).await.as_deref(), Some("expired"));
    let status = passes.told_as_json(&["status", "pending", "-o", "json"]).await;
    let [expired] = &status["failed"].as_array().unwrap()[..] else { panic!("{status:#}") };
    assert_eq!((&expired["claim"], &expired["state"]), (&json!(claim), &json!("expired")), "{status:#}");
    assert_eq!((&expired["failedAt"], &expired["backoffUntil"]), (&Value::Null, &Value::Null), "{status:#}");
    assert_eq!(status["outcomes"][0]["expired"], 1, "{status:#}");
    let marks = passes.marks(&claim).await.to_string();
    assert!(!marks.contains("noderotation.io/") && !marks.contains("do-not-disrupt"), "{marks}");
    passes.until("the next candidate is rotated", LIMIT, async |_| passes.anchor("pending").await.as_ref() == Some(&other)).await;
    assert_eq!(passes.state(&claim).await.as_deref(), Some("expired"));
    assert_ne!(passes.marks(&other).await, untouched, "the next candidate is held");
    claim
}

/// No pass sees it deleting.
async fn between_passes(passes: &Passes) -> String {
    let claim = passes.anchor("gone").await.unwrap();
    passes.delete_claim(&claim).await;
    passes.plane.wait_for("the claim is gone", LIMIT, async || Ok(passes.claim(&claim).await.is_none())).await.unwrap();
    assert_eq!(passes.anchor("gone").await.as_ref(), Some(&claim));
    passes.until_totals(&[("gone", json!({"expired": 1}))]).await;
    claim
}

/// Only a crash between the anchor of a retry and its attempt leaves an anchored `failed` claim.
async fn while_failed(passes: &Passes) -> String {
    let claim = passes.only_claim("failed").await;
    // The others must have nothing to write, so that the anchor is the first write of the pass.
    let freeze = "noderotation.io/freeze=2100-01-01T00:00:00Z";
    passes.plane.run_kubectl(&["annotate", "nodepool", "pending", "gone", freeze], "").await.unwrap();
    passes.idle(1).await;
    passes.plane.apply_objects(&[with(once("failed"), "surge.retryBackoff", json!("1s"))]).await.unwrap();
    passes
        .plane
        .wait_for("a pass is killed after the anchor of the retry", LIMIT, async || {
            let mut command = passes.command();
            command.env("NODEROTATION_FAULT", "after-write:1");
            let killed = passes.finish(command).await;
            assert!(matches!(killed.code, None | Some(0)), "{}", killed.log);
            Ok(killed.code.is_none())
        })
        .await
        .unwrap();
    assert_eq!(passes.anchor("failed").await.as_ref(), Some(&claim));
    assert_eq!(passes.state(&claim).await.as_deref(), Some("failed"));
    let status = passes.told_as_json(&["status", "failed", "-o", "json"]).await;
    let flight = &status["inFlight"][0];
    assert_eq!((&flight["claim"], &flight["state"], &flight["attempt"]), (&json!(claim), &json!("failed"), &json!(2)), "{status:#}");
    passes.delete_claim(&claim).await;
    passes.until_totals(&[("failed", json!({"expired": 1, "failure": 1}))]).await;
    assert!(is_deleting(&passes.claim(&claim).await.unwrap()), "it still drains");
    assert_eq!(passes.state(&claim).await.as_deref(), Some("expired"));
    passes.plane.run_kubectl(&["annotate", "nodepool", "pending", "gone", "noderotation.io/freeze-"], "").await.unwrap();
    claim
}
