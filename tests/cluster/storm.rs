//! Two hundred passes through a proxy that loses, repeats and refuses requests at random: in the end the counters say what
//! the API server's audit log says happened, each outcome once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use control_plane::{Options, Pool, Workload};
use serde_json::{Value, json};

use crate::{
    faulty_proxy::FaultyProxy,
    passes::Passes,
    policy::{policy, with},
};

const PASSES: usize = 200;
pub const QUICK: [&str; 3] = ["red", "green", "blue"];
/// Its nodes come too late for its policy: attempts are rolled back.
pub const SLOW: &str = "slow";
pub const US: &str = "system:serviceaccount:node-rotation-system:noderotation";

#[tokio::test(flavor = "multi_thread")]
async fn counters_equal_the_audit_log_whatever_is_lost_on_the_way() {
    let seed = std::env::var("NODEROTATION_STORM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    println!("NODEROTATION_STORM_SEED={seed}");
    let passes = Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await;
    fleet(&passes).await;
    let proxy = FaultyProxy::start(&passes.plane, seed).await;
    let passes = passes.by(|kubeconfig| proxy.kubeconfig(kubeconfig));
    let (mut codes, began) = (BTreeMap::<i32, u32>::new(), Instant::now());
    for _ in 0..PASSES {
        let pass = passes.pass().await;
        let code = pass.code.unwrap();
        assert!([0, 1, 3, 4].contains(&code) && !pass.log.contains("panicked"), "exit {code}:\n{}", pass.log);
        *codes.entry(code).or_default() += 1;
    }
    println!("{PASSES} passes in {:?}: exit codes {codes:?}, faults {:?}", began.elapsed(), proxy.injected());
    proxy.calm();
    settle(&passes).await;

    let told = Told::by_audit_log(&std::fs::read_to_string(passes.plane.audit_log()).unwrap(), |_, _| false);
    println!("{told:?}");
    let mut counted = Told::default();
    for pool in QUICK.into_iter().chain([SLOW]) {
        let totals = passes.totals(pool).await;
        let count = |outcome: &str| totals[outcome].as_u64().unwrap_or(0);
        counted.add(pool, count("success"), count("failure"), count("expired"));
    }
    assert_eq!(counted.0, told.0, "what was counted, and what the audit log says");
    let sum = |index: usize| told.0.values().map(|outcomes| outcomes[index]).sum::<u64>();
    assert!(sum(0) >= 10 && sum(1) >= 2, "a storm in which too little happens: {told:?}");

    let completed: Vec<String> =
        passes.events().await.into_iter().filter(|(reason, _)| reason == "RotationCompleted").map(|(_, note)| note).collect();
    assert_eq!(completed.iter().collect::<BTreeSet<_>>().len(), completed.len(), "each completion is told at most once: {completed:#?}");
    assert!(completed.len() as u64 <= sum(0), "{completed:#?}");
    let left = passes.leftovers().await;
    let rotating: Vec<&String> =
        left.iter().filter(|key| ["active-rotation", "surge-for", "cordoned", "marked"].iter().any(|part| key.contains(part))).collect();
    assert!(rotating.is_empty(), "{rotating:#?}");
}

/// One Pod on one node in each pool.
pub async fn fleet(passes: &Passes) {
    let workloads: Vec<Workload> =
        QUICK.into_iter().chain([SLOW]).map(|pool| Workload::new(pool, pool).replicas(1).without_budget()).collect();
    for workload in &workloads {
        passes.plane.install(&pool(workload.pool())).await.unwrap();
        passes.plane.deploy(workload).await.unwrap();
    }
    for workload in &workloads {
        passes.plane.wait_for_pods(workload).await.unwrap();
    }
    passes.plane.install(&pool(SLOW).registration_delay("12s")).await.unwrap();
    passes.plane.apply_objects(&policies(false)).await.unwrap();
}

fn pool(name: &str) -> Pool {
    let policy = if name == SLOW { SLOW } else { "quick" };
    Pool::new(name).label("rotate", policy).expire_after("720h").termination_grace_period("10m")
}

pub fn policies(suspended: bool) -> [Value; 2] {
    let slow = with(with(policy(SLOW), "surge.readyTimeout", json!("5s")), "surge.retryBackoff", json!("2s"));
    [policy("quick"), slow].map(|policy| with(policy, "suspend", json!(suspended)))
}

/// No start any more, and passes until nothing is in flight.
async fn settle(passes: &Passes) {
    passes.plane.apply_objects(&policies(true)).await.unwrap();
    let idle = async |_: &control_plane::ControlPlane| {
        for pool in QUICK.into_iter().chain([SLOW]) {
            if passes.pool_annotation(pool, "active-rotation").await.is_some() {
                return false;
            }
        }
        true
    };
    passes.until("nothing is in flight", Duration::from_secs(180), idle).await;
}

/// Per pool: successes, failures, and claims that others deleted.
#[derive(Debug, Default)]
pub struct Told(pub BTreeMap<String, [u64; 3]>);

impl Told {
    pub fn add(&mut self, pool: &str, success: u64, failure: u64, expired: u64) {
        let outcomes = self.0.entry(pool.into()).or_default();
        *outcomes = [outcomes[0] + success, outcomes[1] + failure, outcomes[2] + expired];
    }

    /// Success: a claim that we marked as draining and deleted. Failure: each time a claim was stored as failed with one
    /// retry more. Expired: a claim that we found deleted by others.
    ///
    /// Of a request whose client died before it had its answer the log says 504, whether it was stored or not:
    /// `stored_unanswered` tells, by the claim and the log's entry.
    pub fn by_audit_log(log: &str, stored_unanswered: impl Fn(&str, &Value) -> bool) -> Self {
        let (mut draining, mut deleted, mut expired, mut told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), Self::default());
        for pool in QUICK.into_iter().chain([SLOW]) {
            told.add(pool, 0, 0, 0);
        }
        for line in log.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let tried = event["requestURI"].as_str().unwrap().contains("dryRun=All");
            if event["user"]["username"] != US || event["objectRef"]["resource"] != "nodeclaims" || tried {
                continue;
            }
            let Some(claim) = event["objectRef"]["name"].as_str().map(str::to_owned) else { continue };
            match event["responseStatus"]["code"].as_u64() {
                Some(200) => {}
                Some(504) if stored_unanswered(&claim, &event) => {}
                _ => continue,
            }
            let annotations = &event["requestObject"]["metadata"]["annotations"];
            let tried = event["requestObject"]["dryRun"].is_array();
            match (event["verb"].as_str().unwrap(), annotations["noderotation.io/state"].as_str()) {
                ("delete", _) if !tried => drop(deleted.insert(claim)),
                ("patch", Some("draining")) => drop(draining.insert(claim)),
                ("patch", Some("expired")) => drop(expired.insert(claim)),
                ("patch", Some("failed")) if annotations["noderotation.io/retry-count"].is_string() => told.add(pool_of(&claim), 0, 1, 0),
                _ => {}
            }
        }
        draining.intersection(&deleted).for_each(|claim| told.add(pool_of(claim), 1, 0, 0));
        expired.iter().for_each(|claim| told.add(pool_of(claim), 0, 0, 1));
        told
    }
}

/// Karpenter names a claim after its pool.
pub fn pool_of(claim: &str) -> &str {
    claim.rsplit_once('-').map_or(claim, |(pool, _)| pool)
}
