//! What operators ask for: a claim by name, a policy that waits, days on which nothing starts, their own words on a Node, and
//! a limit for the whole cluster.
//!
//! One control plane with a pool for each wish; the limit comes last, when all others are done.

use chrono::TimeDelta;
use control_plane::{Options, Workload};
use noderotation::{
    api::time::{later, to_annotation},
    clock::Clock,
};
use serde_json::{Value, json};

use crate::{
    chronicle::{Chronicle, History},
    metrics::sample,
    passes::{Passes, annotation},
    policy::{policy, with},
    pools::{is_deleting, name, pool},
};

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// What an operator may have there, which opts no Node out.
const THEIRS: &str = "30m";

#[tokio::test(flavor = "multi_thread")]
async fn what_operators_wish_is_done_and_what_they_wrote_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noderotation.prom");
    let passes = Passes::start(Options::default()).await.with(&["--log-format", "json", "--metrics-file", file.to_str().unwrap()]);
    let plane = &passes.plane;
    let (_, _, _, _, host, _, _) = tokio::join!(
        fill(&passes, "asked"),
        fill(&passes, "suspended"),
        fill(&passes, "holiday"),
        fill(&passes, "undone"),
        fill_with_host(&passes),
        fill(&passes, "far"),
        fill(&passes, "near"),
    );
    let asked = passes.only_claim("asked").await;
    let undone = passes.only_claim("undone").await;
    for claim in [&undone, &host] {
        let node = node_of(&passes, claim).await;
        plane.run_kubectl(&["annotate", "node", &node, &format!("{DO_NOT_DISRUPT}={THEIRS}")], "").await.unwrap();
    }
    plane.install(&pool("undone").registration_delay("24h")).await.unwrap();
    let before = [passes.marks(&undone).await, passes.marks(&host).await];
    assert!(before.iter().all(|marks| marks["annotations"][DO_NOT_DISRUPT] == THEIRS), "{before:?}");
    let chronicle = Chronicle::begin(plane);

    plane.apply_objects(&[waiting_for_a_wish(), suspended(), holiday(), hasty("40s", "1h"), once("hosts")]).await.unwrap();
    waits(&passes).await;
    let metrics = std::fs::read_to_string(&file).unwrap();
    for (pool, expected) in [("suspended", 1.0), ("holiday", 0.0), ("asked", 0.0)] {
        assert_eq!(sample(&metrics, "noderotation_suspended", &[("nodepool", pool)]), Some(expected), "{pool}");
    }
    let held = passes.marks(&undone).await;
    let marks = [DO_NOT_DISRUPT, "noderotation.io/do-not-disrupt-was"].map(|key| held["annotations"][key].clone());
    assert_eq!(marks, ["true", THEIRS], "{held}");

    let wish = format!("noderotation.io/rotate-requested={}", to_annotation(passes.server_time().await));
    plane.run_kubectl(&["annotate", "nodeclaim", &asked, &wish], "").await.unwrap();
    plane.apply_objects(&[once("suspended"), once("holiday")]).await.unwrap();
    let success = json!({"success": 1});
    let lifted = ["asked", "suspended", "holiday", "hosts"].map(|pool| (pool, success.clone()));
    passes.until_totals(&[&lifted[..], &[("undone", json!({"failure": 1}))]].concat()).await;
    assert_eq!(passes.claim(&asked).await, None);
    assert_eq!([passes.marks(&undone).await, passes.marks(&host).await], before, "byte for byte as their operators left them");
    let history = chronicle.history().await;
    hosted(&passes, &history, &host).await;

    plane.install(&pool("undone")).await.unwrap();
    let stuck = passes.newcomer("undone", &undone).await.unwrap();
    if !is_deleting(&stuck) {
        passes.delete_claim(&name(&stuck)).await;
    }
    plane.apply_objects(&[hasty("3m", "1s")]).await.unwrap();
    let both = ("undone", json!({"failure": 1, "success": 1}));
    passes.until_totals(std::slice::from_ref(&both)).await;

    let passes = passes.with(&["--max-in-flight", "1"]);
    one_after_the_other(&passes, &chronicle).await;
    let limited = ["far", "near"].map(|pool| (pool, success.clone()));
    passes.assert_settled(&[&lifted[..], &limited[..], &[both]].concat()).await;
    passes.assert_rights_sufficed();
}

async fn fill(passes: &Passes, name: &str) {
    let pool = match name {
        "asked" => pool(name).expire_after("Never"),
        // Its claim's deadline comes first.
        "near" => pool(name).expire_after("360h"),
        _ => pool(name),
    };
    passes.plane.install(&pool).await.unwrap();
    passes.plane.deploy(&Workload::new(name, name).cpu("5")).await.unwrap();
    passes.plane.wait_for_claims(name, 1, "Initialized").await.unwrap();
}

/// `hosts`, with a younger Node whose Pod has gone: its claim.
async fn fill_with_host(passes: &Passes) -> String {
    let plane = &passes.plane;
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]});
    plane.install(&pool("hosts").requirement(zone)).await.unwrap();
    plane.deploy(&Workload::new("hosts", "hosts").cpu("5")).await.unwrap();
    let old = passes.only_claim("hosts").await;
    plane.deploy(&Workload::new("other", "hosts").cpu("5")).await.unwrap();
    plane.wait_for_claims("hosts", 2, "Initialized").await.unwrap();
    plane.run_kubectl(&["delete", "deployment", "other"], "").await.unwrap();
    plane.wait_for_pods(&Workload::new("other", "hosts").replicas(0)).await.unwrap();
    name(&passes.newcomer("hosts", &old).await.unwrap())
}

async fn node_of(passes: &Passes, claim: &str) -> String {
    passes.claim(claim).await.unwrap()["status"]["nodeName"].as_str().unwrap().to_owned()
}

/// A policy under which a pool rotates one Node and then rests.
fn once(name: &str) -> Value {
    with(policy(name), "surge.cooldownAfter", json!("1h"))
}

/// Under which nothing that never expires is ever due.
fn waiting_for_a_wish() -> Value {
    with(once("asked"), "ageThreshold", json!("auto"))
}

fn suspended() -> Value {
    with(once("suspended"), "suspend", json!(true))
}

/// No start from yesterday to tomorrow.
fn holiday() -> Value {
    let day = |days: i64| later(Clock::local().now(), TimeDelta::days(days)).format("%Y-%m-%d").to_string();
    with(once("holiday"), "blackouts", json!([{"timezone": "UTC", "from": day(-1), "to": day(1), "reason": "Holidays"}]))
}

/// The policy of `undone`.
fn hasty(ready_timeout: &str, retry_backoff: &str) -> Value {
    let policy = with(once("undone"), "surge.readyTimeout", json!(ready_timeout));
    with(policy, "surge.retryBackoff", json!(retry_backoff))
}

/// Nothing starts before it is asked for, in several passes; each says why.
async fn waits(passes: &Passes) {
    for pass in passes.idle(2).await {
        assert_eq!(pass.summary("asked")["action"], "idle", "{}", pass.log);
        for (pool, why) in [
            ("suspended", "no start (suspended): suspended: spec.suspend of RotationPolicy suspended is true"),
            ("holiday", "no start (blackout): blackout (Holidays), until 20"),
        ] {
            let summary = pass.summary(pool);
            assert_eq!(summary["action"], "gated", "{summary}");
            let message = summary["message"].as_str().unwrap();
            assert!(message.starts_with(why), "{message}");
            assert!(!message.contains("; "), "no other gate: {message}");
        }
    }
    for pool in ["asked", "suspended", "holiday"] {
        assert_eq!(passes.anchor(pool).await, None, "{pool}");
    }
}

/// The operator's value waited beside ours while the Node took the Pods, and no new Node came.
async fn hosted(passes: &Passes, history: &History, host: &str) {
    let node = node_of(passes, host).await;
    let held = history.named("Node", &node).any(|version| {
        version.object["metadata"]["annotations"][DO_NOT_DISRUPT] == "true"
            && annotation(&version.object, "do-not-disrupt-was").as_deref() == Some(THEIRS)
    });
    assert!(held, "{node} was held");
    assert!(history.values("NodePool", "hosts", "surge-path").contains(&Some("absorbed".into())));
    assert_eq!(history.claims_max("hosts"), 2);
    for pool in ["asked", "suspended", "holiday"] {
        let [told, was] = history.surge_path(pool);
        assert_eq!(told, was, "{pool}");
    }
}

/// Two pools with a due claim each, and a limit of one: the earlier deadline first, though its pool's name comes last.
async fn one_after_the_other(passes: &Passes, chronicle: &Chronicle) {
    passes.plane.apply_objects(&[once("far"), once("near")]).await.unwrap();
    let first = passes.idle(1).await.remove(0);
    assert_eq!(first.summary("near")["action"], "start", "{}", first.log);
    let second = passes.idle(1).await.remove(0);
    for pass in [&first, &second] {
        let gated = pass.summary("far");
        let message = gated["message"].as_str().unwrap();
        let why = "no start (max-in-flight): at most 1 rotations may be in flight in the cluster (--max-in-flight)";
        assert!(message.starts_with(why), "{message}");
    }
    let success = json!({"success": 1});
    passes.until_totals(&[("far", success.clone()), ("near", success)]).await;
    let history = chronicle.history().await;
    let [near, far] = ["near", "far"].map(|pool| history.anchored(pool));
    assert_eq!((near.len(), far.len()), (1, 1), "{near:?} {far:?}");
    assert!(near[0].1 < far[0].0, "two anchors at once: {near:?} {far:?}");
}
