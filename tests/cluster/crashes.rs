//! `kill -9` after each single write. A pass that dies holds the Lease for 20 s; the test deletes it to save that time, and
//! `lease.rs` proves that it runs out by itself.

use std::time::{Duration, Instant};

use control_plane::{Options, Pool, Workload};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    passes::{NAMESPACE, Passes},
    policy::{policy, with},
};

mod window;

/// How long one rotation with its crashes may take, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// `after-write:1`: every pass dies of its first write, and tells nothing of it. `before-write:2`: the same, but it was told.
/// The others let passes get further, so that what follows several writes is a crash, too.
const FAULTS: [&str; 7] =
    ["after-write:1", "before-write:2", "after-write:2", "after-write:3", "after-write:4", "after-write:5", "after-write:6"];

/// What a crash leaves behind while a rotation starts.
const STARTING: [&str; 4] = [
    "pool anchored signed",
    "pool anchored signed; old pending",
    "pool anchored signed; old pending frozen cordoned",
    "pool anchored signed; old pending frozen cordoned; placeholder",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_is_finished_and_counted_once_whichever_write_was_the_last_before_a_crash() {
    let passes = quick().await;
    // Room for two: else the scheduler may preempt the placeholder before a pass deletes it.
    fleet(&passes, &Pool::new("web").label("rotate", "web"), 1, "3").await;
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();

    for (fault, count) in FAULTS.into_iter().zip(1..) {
        let crash = Crashes { passes: &passes, pool: "web", fault, total: "success" };
        let told = Told::by(&passes, ["RotationStarted", "RotationCompleted"]).await;
        let left = crash.until_counted(count).await;
        if fault == "after-write:1" {
            assert_eq!(left, [&STARTING[..], &DRAINING].concat());
        }
        told.check(fault).await;
        let totals = passes.totals("web").await;
        assert_eq!((&totals["success"], &totals["failure"], &totals["expired"]), (&json!(count), &json!(0), &json!(0)), "{fault}");
        assert_eq!(passes.leftovers().await, Vec::<String>::new(), "{fault}");
    }
    assert_eq!(passes.plane.node_claims_of("web").await.unwrap().len(), 1);
}

/// What it leaves behind from the surge on.
const DRAINING: [&str; 8] = [
    "pool anchored signed; old pending frozen cordoned; host frozen; placeholder",
    "pool anchored mirrored signed; old pending frozen cordoned; host frozen; placeholder",
    "pool anchored mirrored signed; old draining frozen cordoned; host frozen; placeholder",
    "pool anchored mirrored signed; old deleted; host frozen; placeholder",
    "pool anchored mirrored signed; old deleted; host frozen",
    "pool anchored mirrored signed; old deleted",
    "pool signed; old deleted",
    "old deleted",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_finished_and_counted_once_whichever_write_was_the_last_before_a_crash() {
    let passes = quick().await;
    let pool = Pool::new("web").label("rotate", "web");
    // Each Node is tried once.
    fleet(&passes, &pool, u32::try_from(FAULTS.len()).unwrap(), "5").await;
    passes.plane.install(&pool.clone().registration_delay("24h")).await.unwrap();
    let once = with(policy("web"), "surge.retryBackoff", json!("10h"));

    for (fault, count) in FAULTS.into_iter().zip(1..) {
        // Long enough for a start of which every write is a pass.
        let timeout = if count <= 2 { "12s" } else { "4s" };
        passes.plane.apply_objects(&[with(once.clone(), "surge.readyTimeout", json!(timeout))]).await.unwrap();
        let crash = Crashes { passes: &passes, pool: "web", fault, total: "failure" };
        let told = Told::by(&passes, ["RotationStarted", "RotationFailed"]).await;
        let left = crash.until_counted(count).await;
        if fault == "after-write:1" {
            assert_eq!(left, [&STARTING[..], &FAILING].concat());
        }
        told.check(fault).await;
        let totals = passes.totals("web").await;
        assert_eq!((&totals["success"], &totals["failure"], &totals["expired"]), (&json!(0), &json!(count), &json!(0)), "{fault}");
        assert_eq!(beside_failures(&passes).await, Vec::<String>::new(), "{fault}");
    }
}

/// What it leaves behind from readyTimeout on.
const FAILING: [&str; 5] = [
    "pool anchored signed; old pending frozen cordoned",
    "pool anchored signed; old pending",
    "pool anchored signed; old failed",
    "pool signed; old failed",
    "old failed",
];

/// Leftovers without what a failure is to leave: the claim's backoff and the pool's pause.
async fn beside_failures(passes: &Passes) -> Vec<String> {
    let kept = ["state", "failed-at", "retry-count", "written-by", "last-failure-at"].map(|key| format!(": noderotation.io/{key}"));
    let mut left = passes.leftovers().await;
    left.retain(|leftover| !kept.iter().any(|kept| leftover.ends_with(kept)));
    left
}

/// Events told before a rotation, by two reasons.
struct Told<'a> {
    passes: &'a Passes,
    reasons: [&'static str; 2],
    before: [usize; 2],
}

impl<'a> Told<'a> {
    async fn by(passes: &'a Passes, reasons: [&'static str; 2]) -> Self {
        let before = [passes.count(reasons[0]).await, passes.count(reasons[1]).await];
        Self { passes, reasons, before }
    }

    /// Never twice; and exactly by the pass whose write landed: never where that dies at once, always where it lives on.
    async fn check(&self, fault: &str) {
        for (reason, before) in self.reasons.iter().zip(self.before) {
            let told = self.passes.count(reason).await - before;
            match fault {
                "after-write:1" => assert_eq!(told, 0, "{fault}: {reason}"),
                "before-write:2" => assert_eq!(told, 1, "{fault}: {reason}"),
                _ => assert!(told <= 1, "{fault}: {reason} told {told} times"),
            }
        }
    }
}

/// Pods that are Ready at once: here nobody watches the drain.
async fn quick() -> Passes {
    Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await
}

/// Pods of this many of a Node's 8 cpu.
async fn fleet(passes: &Passes, pool: &Pool, pods: u32, cpu: &str) {
    passes.plane.install(pool).await.unwrap();
    passes.plane.deploy(&Workload::new("web", pool.name()).cpu(cpu).replicas(pods)).await.unwrap();
}

/// Passes that die.
struct Crashes<'a> {
    passes: &'a Passes,
    pool: &'a str,
    fault: &'a str,
    total: &'a str,
}

impl Crashes<'_> {
    /// Runs passes, each with the fault, until the total has moved and all is cleaned up; answers what each crash left,
    /// where it differs from what the one before left (when the induced claim is noted varies, and is not told). The pool is frozen from the count on, so that no further rotation begins.
    async fn until_counted(&self, count: usize) -> Vec<String> {
        let (start, mut left, mut logs) = (Instant::now(), Vec::new(), String::new());
        let (mut old, mut counted) = (String::new(), false);
        loop {
            let mut command = self.passes.command();
            command.env("NODEROTATION_FAULT", self.fault);
            let pass = self.passes.finish(command).await;
            logs.push_str(&pass.log);
            if let Some(anchor) = self.passes.pool_annotation(self.pool, "active-rotation").await {
                old = anchor;
            }
            match pass.code {
                None => left.push(window::left(&self.passes.plane, self.pool, &old).await),
                code => assert_eq!(code, Some(0), "{}: {logs}", self.fault),
            }
            if counted && pass.code.is_some() {
                self.freeze(Value::Null).await;
                left.dedup();
                return left;
            }
            self.free_lease().await;
            if !counted && self.passes.totals(self.pool).await[self.total] == count {
                counted = true;
                self.freeze(json!("2100-01-01T00:00:00Z")).await;
            }
            assert!(start.elapsed() < LIMIT, "{}: {left:#?}\n{logs}\n{}", self.fault, self.passes.plane.describe_state().await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn free_lease(&self) {
        let leases: Api<Lease> = Api::namespaced(self.passes.plane.client(), NAMESPACE);
        match leases.delete("noderotation", &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("delete the Lease: {error}"),
        }
    }

    async fn freeze(&self, until: Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"noderotation.io/freeze": until}}}));
        self.passes.plane.node_pools().patch(self.pool, &PatchParams::default(), &patch).await.unwrap();
    }
}
