//! Drains that don't end, deletions without a surge, and pools that take none.

use control_plane::{Options, Pool};
use noderotation::api::time::parse_annotation;
use serde_json::{Value, json};

use crate::{
    passes::{Pass, Passes},
    policy::{policy, with},
    pools::{LIMIT, allow, fill, is_deleting, name, pool, said},
};

/// A policy under which one success ends the test.
fn once(name: &str) -> Value {
    with(policy(name), "surge.cooldownAfter", json!("1h"))
}

/// Whether a pass exported this sample.
fn exports(pass: &Pass, metric: &str, pool: &str, value: i64) -> bool {
    let sample = format!("{metric}{{nodepool=\"{pool}\"}} {value}");
    pass.stdout.lines().any(|line| line == sample)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_does_not_end_is_told_with_what_blocks_it_and_holds_the_gate() {
    let passes = Passes::start(Options::default()).await.with(&["--metrics-file", "-"]);
    let plane = &passes.plane;
    let held = Pool::new("held").label("rotate", "held").expire_after("720h"); // no terminationGracePeriod
    let workload = fill(plane, &held, 2, 0).await;
    let quick = with(with(once("held"), "surge.drainTimeout", json!("10s")), "surge.drainEstimate", json!("5s"));
    plane.apply_objects(&[quick]).await.unwrap();

    passes
        .until("a claim drains", LIMIT, async |_| {
            let claim = passes.anchor("held").await;
            claim.is_some() && passes.pool_annotation("held", "active-rotation-state").await.as_deref() == Some("draining")
        })
        .await;
    let claim = passes.anchor("held").await.unwrap();
    let node = passes.claim(&claim).await.unwrap()["status"]["nodeName"].as_str().unwrap().to_owned();

    let seen = passes.until("the drain is stuck", LIMIT, async |_| !passes.told("DrainStuck", &claim).await.is_empty()).await;
    let blocked = seen.iter().find(|pass| exports(pass, "noderotation_drain_blocked", "held", 1)).expect("blocked comes first");
    assert!(exports(blocked, "noderotation_drain_stuck", "held", 0), "{}", blocked.stdout);
    let last = passes.idle(3).await.pop().unwrap();
    assert!(exports(&last, "noderotation_drain_stuck", "held", 1), "{}", last.stdout);
    assert!(exports(&last, "noderotation_in_progress", "held", 1), "{}", last.stdout);
    let started = passes.claim(&claim).await.unwrap()["metadata"]["annotations"]["noderotation.io/started-at"].as_str().unwrap().to_owned();
    let started = chrono::DateTime::parse_from_rfc3339(&started).unwrap().timestamp();
    assert!(exports(&last, "noderotation_in_progress_since_timestamp", "held", started), "{started}: {}", last.stdout);

    let pods = plane.pods_by_node(&workload).await.unwrap().remove(&node).unwrap();
    for reason in ["DrainBlocked", "DrainStuck"] {
        let told = passes.told(reason, &claim).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(pods.iter().any(|pod| told[0].contains(&format!("Pod default/{pod}"))), "{told:?}");
        assert!(told[0].contains("PodDisruptionBudget held allows no disruption"), "{told:?}");
    }
    assert_eq!(pods.len(), 5, "nothing is forced");
    assert_eq!(passes.anchor("held").await.as_ref(), Some(&claim), "the gate is held");
    assert_eq!(passes.told("RotationStarted", "").await.len(), 1, "no second rotation");
    status_tells_of_the_stuck_drain(&passes, &claim, &node, &pods).await;

    allow(plane, &workload, 5).await;
    passes.until_totals(&[("held", json!({"success": 1}))]).await;
    let after = passes.idle(1).await.pop().unwrap();
    assert!(exports(&after, "noderotation_drain_blocked", "held", 0) && exports(&after, "noderotation_drain_stuck", "held", 0));
    passes.assert_settled(&[("held", json!({"success": 1}))]).await;
}

async fn status_tells_of_the_stuck_drain(passes: &Passes, claim: &str, node: &str, pods: &[String]) {
    let status = passes.told_as_json(&["status", "-o", "json"]).await;
    let [flight] = &status["inFlight"].as_array().unwrap()[..] else { panic!("{status:#}") };
    let told = (&flight["claim"], &flight["node"], &flight["state"], &flight["next"], &flight["blocked"], &flight["stuck"]);
    let expected = (&json!(claim), &json!(node), &json!("draining"), &json!("await-drain"), &json!(true), &json!(true));
    assert_eq!(told, expected, "{status:#}");
    assert_eq!(flight["until"], Value::Null, "without a terminationGracePeriod nothing is ever forced");
    let waits = flight["waitingFor"].as_str().unwrap();
    assert!(pods.iter().any(|pod| waits.contains(&format!("Pod default/{pod}"))), "{waits}");
    assert!(waits.contains("PodDisruptionBudget held allows no disruption"), "{waits}");
    let table = passes.operator(&["status", "held"]).await;
    assert_eq!(table.code, Some(0), "{}", table.log);
    assert!(table.stdout.lines().any(|line| line.contains(claim) && line.contains("draining, stuck")), "{}", table.stdout);
}

/// `t_rot` is 1m + 7m + 8s, so the claims are due at 108 s, and 4 s later a surge comes too late.
fn urgent(pool: &str, fallback: bool) -> Value {
    let policy = with(with(once(pool), "ageThreshold", json!("auto")), "surge.readyTimeout", json!("1m"));
    with(policy, "surge.forcefulFallback", json!({"enabled": fallback}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_too_near_to_its_deadline_is_deleted_without_a_surge_where_that_is_enabled_and_a_static_pool_starts_nothing() {
    let passes = Passes::start(Options::default()).await;
    let plane = &passes.plane;
    let short = |name: &str| pool(name).expire_after("10m").termination_grace_period("7m");
    let (forceful, patient, fixed) = (short("forceful"), short("patient"), pool("fixed").replicas(1));
    tokio::join!(fill(plane, &forceful, 1, 5), fill(plane, &patient, 1, 5), async { plane.install(&fixed).await.unwrap() });
    plane.wait_for_claims("fixed", 1, "Initialized").await.unwrap();
    plane.apply_objects(&[once("fixed")]).await.unwrap();
    let (old, other) = (passes.only_claim("forceful").await, passes.only_claim("patient").await);

    static_gate(&passes).await;
    for claim in [&old, &other] {
        let created = passes.claim(claim).await.unwrap()["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
        let due = parse_annotation(&created).unwrap() + std::time::Duration::from_secs(115);
        let left = due - passes.server_time().await;
        tokio::time::sleep(left.to_std().unwrap_or_default()).await;
    }
    plane.apply_objects(&[urgent("forceful", true), urgent("patient", false)]).await.unwrap();

    let first = passes.idle(1).await;
    assert!(said(&first, "forceful").iter().any(|line| line.contains("forceful-fallback")), "{}", first[0].log);
    assert_eq!(passes.outcomes("forceful").await, json!({"fallback": 1}));
    assert_eq!(passes.anchor("forceful").await.as_ref(), Some(&old));
    assert_eq!(passes.pool_annotation("forceful", "rotation-mode").await.as_deref(), Some("forceful-fallback"));
    assert_eq!(passes.pool_annotation("forceful", "active-rotation-state").await.as_deref(), Some("draining"));
    assert!(passes.pool_annotation("forceful", "draining-at").await.is_some());
    assert_eq!(passes.writes_on("nodepools", "forceful"), ["patch"], "anchor, mode, mirror and total are one write");
    assert!(passes.claim(&old).await.is_none_or(|claim| is_deleting(&claim)));
    assert_eq!(passes.anchor("patient").await.as_ref(), Some(&other), "without the flag the surge is tried all the same");
    assert_eq!(passes.placeholders().await, [format!("noderotation-surge-{other}")], "the fallback asks for no surge");

    let expected = [("forceful", json!({"fallback": 1, "success": 1})), ("patient", json!({"success": 1})), ("fixed", json!({}))];
    passes.until_totals(&expected).await;
    assert_eq!(passes.told("ForcefulFallback", "").await.len(), 1);
    assert_eq!(passes.told("ForcefulFallback", &old).await.len(), 1);
    assert_eq!(passes.told("RotationStarted", &other).await.len(), 1);
    assert_eq!(passes.told("RotationStarted", &old).await.len(), 0);
    assert_eq!(passes.totals("forceful").await["surgeWait"]["count"], 0);
    passes.assert_settled(&expected).await;
}

/// Both paths to an attempt: the start, and the retry of an anchored failed claim, as a crash leaves it.
async fn static_gate(passes: &Passes) {
    let claim = passes.only_claim("fixed").await;
    let idle = passes.idle(2).await;
    assert!(said(&idle, "fixed").iter().all(|line| line.contains("static-pool") && line.contains("eligible 1")), "{}", idle[0].log);
    assert_eq!(passes.told("StaticNodePool", "").await.len(), 1);

    let before = passes.marks(&claim).await;
    let mark = async |kind: &str, name: &str, keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("noderotation.io/{key}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        passes.plane.run_kubectl(&[&["annotate", kind, name], &keys[..]].concat(), "").await.unwrap();
    };
    let then = "2026-01-01T00:00:00Z";
    mark("nodeclaim", &claim, &["state=failed", &format!("failed-at={then}"), "retry-count=1"]).await;
    mark("nodepool", "fixed", &[&format!("active-rotation={claim}"), &format!("last-failure-at={then}")]).await;
    passes.until("the anchor is released", LIMIT, async |_| passes.anchor("fixed").await.is_none()).await;
    let idle = passes.idle(1).await;
    assert!(said(&idle, "fixed").iter().all(|line| line.contains("static-pool")), "{}", idle[0].log);
    assert_eq!(passes.state(&claim).await.as_deref(), Some("failed"));
    assert_eq!((passes.marks(&claim).await, passes.placeholders().await), (before, Vec::new()));
    assert_eq!(name(&passes.claims("fixed").await[0]), claim);
    mark("nodeclaim", &claim, &["state-", "failed-at-", "retry-count-", "written-by-"]).await;
}
