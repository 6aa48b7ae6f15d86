//! The main path: nodes are replaced one after another, and nobody notices.

use std::{collections::BTreeSet, time::Duration};

use control_plane::{Options, Pool, Pushgateway, Workload};
use serde_json::{Value, json};

use crate::{
    chronicle::{Chronicle, History},
    metrics::sample,
    passes::{Passes, annotation},
    policy::{policy, with},
};

/// Three Nodes are replaced here, and one Node of another pool beside them.
const POOLS: [(&str, usize); 2] = [("web", 3), ("api", 1)];
const PODS: [(&str, i64); 3] = [("front", 9), ("back", 6), ("api", 5)];
const LIMIT: Duration = Duration::from_secs(600);

/// One control plane, since filling Nodes takes time: three part-filled Nodes of `web`, and one of `api`, whose limits have
/// room for exactly one Node more. What is told of it is told by a Pushgateway, a file, Events and statuses.
#[tokio::test(flavor = "multi_thread")]
async fn three_part_filled_nodes_are_replaced_one_after_another() {
    let mut gateway = Pushgateway::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noderotation.prom");
    let passes = Passes::start(Options::default()).await.with(&["--pushgateway", &gateway.url(), "--metrics-file", file.to_str().unwrap()]);
    fill(&passes).await;
    let before = [passes.pool("web").await, passes.pool("api").await];
    let chronicle = Chronicle::begin(&passes.plane);
    passes.plane.apply_objects(&[derived("web"), derived("api")]).await.unwrap();

    rotate(&passes).await;
    let history = chronicle.history().await;
    for (pool, nodes) in POOLS {
        check_pool(&history, pool, nodes);
    }
    check_workloads(&passes, &history).await;
    check_side_by_side(&history);
    check_leftovers(&passes, &before).await;
    check_events(&passes).await;
    check_deletes(&passes, &history);

    let numbers = check_metrics(&gateway.metrics().await.unwrap());
    assert_eq!(check_metrics(&std::fs::read_to_string(&file).unwrap()), numbers);
    check_durable(&passes, &mut gateway, &numbers).await;
    check_ungoverned(&passes, &gateway).await;
    passes.assert_rights_sufficed();
}

/// A lifetime of 20m30s against a lead time of 2 x 2s + 10m + 10m + 8s: exactly the claims that are there now are past
/// their age threshold of 18s. Then the pools' lifetime is raised, as people do: what comes later is young for a month.
/// (Karpenter would call the old Nodes drifted; its budget of zero keeps it from acting on that.)
async fn fill(passes: &Passes) {
    let pool = |name: &str, expire_after: &str| {
        let pool = Pool::new(name)
            .label("rotate", name)
            .label("team", "shop")
            .expire_after(expire_after)
            .termination_grace_period("10m")
            .spec("disruption", json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
        // Limits would hide a Node too many, so only one of the two has them.
        if name == "api" { pool.limits(json!({"cpu": "16", "nodes": 2})) } else { pool }
    };
    let [web, api] = POOLS.map(|(name, _)| pool(name, "20m30s"));
    let (two, one) = tokio::join!(
        passes.plane.part_fill_two(&web, [Workload::new("front", "web"), Workload::new("back", "web")], 3),
        passes.plane.part_fill(&api, Workload::new("api", "api").max_unavailable(2), 1),
    );
    two.unwrap();
    one.unwrap();
    for (name, _) in POOLS {
        passes.plane.install(&pool(name, "720h")).await.unwrap();
    }
}

fn derived(name: &str) -> Value {
    with(with(policy(name), "ageThreshold", json!("auto")), "surge.readyTimeout", json!("10m"))
}

/// Runs passes until all old Nodes are gone, and looks at the statuses meanwhile. Then a few passes more: nothing else is
/// past its threshold.
async fn rotate(passes: &Passes) {
    let mut rotating = BTreeSet::new();
    let done = passes.until("all rotations have succeeded", LIMIT, async |_| {
        rotating.insert(passes.status("web").await["rotatingNodePools"].as_i64().unwrap());
        passes.totals("web").await["success"] == 3 && passes.totals("api").await["success"] == 1
    });
    let log: String = done.await.into_iter().map(|pass| pass.log).collect();
    assert_eq!(rotating, BTreeSet::from([0, 1]));
    for name in ["web", "api"] {
        let status = passes.status(name).await;
        assert_eq!([&status["matchedNodePools"], &status["rotatingNodePools"]], [1, 0], "{status}");
    }
    let started = log.lines().filter(|line| line.contains("RotationStarted")).count();
    assert_eq!(started, 4, "{log}");
    for _ in 0..3 {
        let pass = passes.pass().await;
        assert_eq!(pass.code, Some(0), "{}", pass.log);
        assert_eq!(pass.log.lines().filter(|line| line.contains("action=\"idle\"")).count(), 2, "{}", pass.log);
    }
}

fn check_pool(history: &History, pool: &str, nodes: usize) {
    let first: BTreeSet<String> = history
        .of("NodeClaim")
        .filter(|claim| {
            claim.object["metadata"]["labels"]["karpenter.sh/nodepool"] == pool && claim.object["spec"]["expireAfter"] == "20m30s"
        })
        .map(|claim| claim.name().to_owned())
        .collect();
    let rotated = history.rotations(pool);
    assert_eq!(rotated.iter().cloned().collect::<BTreeSet<_>>(), first, "exactly those that were there first");
    assert_eq!((rotated.len(), first.len()), (nodes, nodes), "each of them once");
    assert_eq!(history.claims_max(pool), nodes + 1);
    assert_eq!(history.in_flight_max()[pool], 1, "one after another");
    for claim in &rotated {
        let host = history.surge_node(pool, claim);
        let deleted_at = history.deleted_at(claim);
        let frozen = history.before("Node", &host, deleted_at).unwrap();
        assert_eq!(frozen.object["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true", "{host} was not held for {claim}");
    }
}

async fn check_workloads(passes: &Passes, history: &History) {
    for (name, replicas) in PODS {
        let budget = if name == "api" { 2 } else { 1 };
        assert!(history.ready_min(name) >= replicas - budget, "{name}: {} of {replicas} Ready", history.ready_min(name));
        let pool = if name == "api" { "api" } else { "web" };
        passes.plane.wait_for_pods(&Workload::new(name, pool).replicas(replicas.unsigned_abs().try_into().unwrap())).await.unwrap();
    }
}

fn check_side_by_side(history: &History) {
    let [web, api] = POOLS.map(|(name, _)| history.anchored(name));
    let overlap = |(begun, ended): &(u64, u64)| api.iter().any(|(other_begun, other_ended)| begun < other_ended && other_begun < ended);
    assert!(web.iter().any(overlap), "{web:?} and {api:?}");
}

async fn check_leftovers(passes: &Passes, before: &[Value; 2]) {
    assert_eq!(passes.leftovers().await, Vec::<String>::new());
    let plain = |object: &Value| {
        let annotations = object["metadata"]["annotations"].as_object().unwrap().clone();
        // Karpenter's hash of the spec comes when Karpenter does, which may be after this pool was looked at first.
        let is_theirs = |key: &str| !key.starts_with("noderotation.io/") && key != "karpenter.sh/nodepool-hash";
        let theirs = annotations.into_iter().filter(|(key, _)| is_theirs(key));
        (object["metadata"]["labels"].clone(), theirs.collect::<Vec<_>>(), object["spec"].clone())
    };
    for (before, (name, _)) in before.iter().zip(POOLS) {
        let after = passes.pool(name).await;
        assert_eq!(plain(&after), plain(before));
        assert!(annotation(&after, "last-rotation-at").is_some());
    }
}

async fn check_events(passes: &Passes) {
    for reason in ["RotationStarted", "RotationCompleted"] {
        assert_eq!(passes.count(reason).await, 4, "{reason}");
    }
    let findings =
        ["RotationFailed", "RotationExpired", "RotationSwept", "RotationReleased", "SurgeRefused", "DeleteRefused", "StateUnreadable"];
    for reason in findings {
        assert_eq!(passes.count(reason).await, 0, "{reason}");
    }
}

/// The passes deleted exactly the old NodeClaims and their placeholders. (The audit log doesn't tell a rehearsed delete from
/// the real one.)
fn check_deletes(passes: &Passes, history: &History) {
    let of = |resource: &str| {
        let mut names: Vec<String> = passes
            .requests()
            .into_iter()
            .filter(|request| request.verb == "delete" && request.resource == resource)
            .map(|request| request.name)
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let mut rotated: Vec<String> = POOLS.iter().flat_map(|(pool, _)| history.rotations(pool)).collect();
    rotated.sort();
    assert_eq!(of("nodeclaims"), rotated);
    assert_eq!(of("pods"), rotated.iter().map(|claim| format!("noderotation-surge-{claim}")).collect::<Vec<_>>());
}

/// The numbers that a complete pass tells; answers those that the totals hold.
fn check_metrics(text: &str) -> Vec<(String, f64)> {
    let mut numbers = Vec::new();
    for (pool, nodes) in POOLS {
        let mut is = |name: &str, labels: &[(&str, &str)], expected: Option<f64>| {
            let value = sample(text, name, &[&[("nodepool", pool)], labels].concat())
                .unwrap_or_else(|| panic!("{name} {labels:?} is missing:\n{text}"));
            assert!(expected.is_none_or(|expected| value == expected), "{pool}: {name} {labels:?} is {value}, not {expected:?}");
            numbers.push((format!("{pool} {name} {labels:?}"), value));
        };
        for (outcome, count) in [("success", nodes as f64), ("failure", 0.0), ("expired", 0.0)] {
            is("noderotation_completed_total", &[("outcome", outcome)], Some(count));
        }
        for phase in ["surge_wait", "drain"] {
            is("noderotation_duration_seconds_count", &[("phase", phase)], Some(nodes as f64));
            is("noderotation_duration_seconds_bucket", &[("phase", phase), ("le", "+Inf")], Some(nodes as f64));
            is("noderotation_duration_seconds_sum", &[("phase", phase)], None);
        }
        is("noderotation_in_progress", &[], Some(0.0));
        is("noderotation_blocked", &[], Some(0.0));
        is("noderotation_window_active", &[], Some(1.0));
    }
    assert!(sample(text, "noderotation_pass_success_timestamp_seconds", &[]).is_some());
    assert_eq!(sample(text, "noderotation_pass_errors", &[("stage", "execute")]), Some(0.0));
    numbers
}

/// A Pushgateway that has forgotten everything says the same again after the next pass; one that is down costs nothing.
async fn check_durable(passes: &Passes, gateway: &mut Pushgateway, numbers: &[(String, f64)]) {
    gateway.stop();
    let pass = passes.pass().await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    assert!(pass.log.contains("the metrics were not pushed"), "{}", pass.log);
    gateway.restart().await.unwrap();
    assert_eq!(
        sample(&gateway.metrics().await.unwrap(), "noderotation_completed_total", &[("nodepool", "web"), ("outcome", "success")]),
        None
    );
    assert_eq!(passes.pass().await.code, Some(0));
    assert_eq!(check_metrics(&gateway.metrics().await.unwrap()), numbers);
}

/// A pool that no policy matches any more has no series after the next pass; the other stays.
async fn check_ungoverned(passes: &Passes, gateway: &Pushgateway) {
    passes.plane.run_kubectl(&["label", "nodepool", "api", "rotate-"], "").await.unwrap();
    let pass = passes.pass().await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    let text = gateway.metrics().await.unwrap();
    assert!(!text.contains("nodepool=\"api\""), "{text}");
    assert_eq!(sample(&text, "noderotation_completed_total", &[("nodepool", "web"), ("outcome", "success")]), Some(3.0));
    assert_eq!(passes.status("api").await["matchedNodePools"], 0);
}
