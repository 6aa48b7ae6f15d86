//! `kill -9` at random moments, pass after pass, while nodes are rotated and attempts fail: in the end every invariant holds,
//! and the counters say what the API server's audit log says. `make kill KILLS=500` does it for longer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use control_plane::Options;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::DeleteParams};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;

use crate::{
    chronicle::{Chronicle, History},
    passes::{NAMESPACE, Pass, Passes},
    pools::LIMIT,
    storm::{QUICK, SLOW, Told, US, fleet, policies, pool_of},
};

/// Kills where nothing else is asked for.
const KILLS: u64 = 15;
/// One kill in so many leaves its Lease to run out; the others' is deleted, to save 20 s each.
const LEFT_TO_EXPIRE: u64 = 50;

fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect(variable))
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_killed_at_random_moments_break_no_invariant() {
    let (kills, seed) = (asked("NODEROTATION_KILLS").unwrap_or(KILLS), asked("NODEROTATION_KILL_SEED").unwrap_or(9));
    let passes = Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await;
    fleet(&passes).await;
    let chronicle = Chronicle::begin(&passes.plane);
    let mut killer =
        Killer { passes: &passes, random: StdRng::seed_from_u64(seed), usual: Duration::from_secs(1), killed: 0, ended: BTreeMap::new() };
    let began = Instant::now();
    while killer.killed < kills {
        killer.pass().await;
    }
    println!("kill: seed {seed}: {} killed, the others ended {:?}, in {:?}", killer.killed, killer.ended, began.elapsed());
    killer.free_the_lease().await;
    killer.rest().await;

    let log = std::fs::read_to_string(passes.plane.audit_log()).unwrap();
    let history = chronicle.history().await;
    let told = Told::by_audit_log(&log, |claim, event| history.named("NodeClaim", claim).any(|version| shows(&version.object, event)));
    println!("kill: per pool success, failure, expired: {told:?}");
    counters_are(&passes, &told).await;
    for pool in QUICK.into_iter().chain([SLOW]) {
        assert!(history.in_flight_max()[pool] <= 1, "{pool}: two rotations at once");
    }
    for pool in QUICK {
        assert!(history.claims_max(pool) <= 2, "{pool}: {} claims at once", history.claims_max(pool));
    }
    deletions_were_earned(&history, &log);
    writes_were_ours(&log);
    told_once(&passes, &told).await;
    let left = passes.leftovers().await;
    let marks = ["active-rotation", "surge-for", "cordoned", "marked", "do-not-disrupt", "started-at", "surge-claim"];
    let left: Vec<&String> = left.iter().filter(|key| marks.iter().any(|mark| key.contains(mark))).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(passes.placeholders().await, [""; 0]);
    passes.assert_rights_sufficed();
}

struct Killer<'a> {
    passes: &'a Passes,
    random: StdRng,
    /// How long a pass takes that is let live.
    usual: Duration,
    killed: u64,
    ended: BTreeMap<i32, u32>,
}

impl Killer<'_> {
    /// One pass: two out of three are killed at a moment of their life.
    async fn pass(&mut self) {
        let began = Instant::now();
        let mut child = self.passes.command().spawn().unwrap();
        if self.random.random_bool(0.67) {
            let moment = self.usual.mul_f64(self.random.random_range(0.0..1.2));
            if tokio::time::timeout(moment, child.wait()).await.is_err() {
                child.start_kill().unwrap();
                let status = child.wait().await.unwrap();
                if status.code().is_none() {
                    self.killed += 1;
                    // What it had sent may still be on its way; a real Lease would run for longer.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    return self.free_the_lease().await;
                }
            }
        }
        let pass = Pass::of(child.wait_with_output().await.unwrap());
        self.ended_well(&pass);
        self.usual = (self.usual * 3 + began.elapsed()) / 4;
    }

    /// A machine that stalls for longer than a Lease lives makes a pass end early, and that is right.
    fn ended_well(&mut self, pass: &Pass) {
        let code = pass.code.unwrap();
        assert!([0, 1, 3, 4].contains(&code) && !pass.log.contains("panicked"), "exit {code}:\n{}", pass.log);
        *self.ended.entry(code).or_default() += 1;
    }

    /// No start any more, and passes until nothing is in flight.
    async fn rest(&mut self) {
        self.passes.plane.apply_objects(&policies(true)).await.unwrap();
        let began = Instant::now();
        loop {
            let pass = self.passes.pass().await;
            self.ended_well(&pass);
            let mut anchored = 0;
            for pool in QUICK.into_iter().chain([SLOW]) {
                anchored += usize::from(self.passes.pool_annotation(pool, "active-rotation").await.is_some());
            }
            // What was swept is gone a pass later.
            if anchored == 0 && pass.code == Some(0) && self.passes.pass().await.code == Some(0) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "{}\n{}", pass.log, self.passes.plane.describe_state().await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The dead pass's Lease: it runs out by itself, or is deleted to save that time.
    async fn free_the_lease(&mut self) {
        if self.killed > 0 && self.killed.is_multiple_of(LEFT_TO_EXPIRE) {
            let mut command = self.passes.command();
            command.args(["--wait-for-lease", "40s"]);
            let pass = self.passes.finish(command).await;
            return self.ended_well(&pass);
        }
        let leases: Api<Lease> = Api::namespaced(self.passes.plane.client(), NAMESPACE);
        // Killed before it took one: there is none.
        let _ = leases.delete("noderotation", &DeleteParams::default()).await;
    }
}

async fn counters_are(passes: &Passes, told: &Told) {
    let mut counted = Told::default();
    for pool in QUICK.into_iter().chain([SLOW]) {
        let totals = passes.totals(pool).await;
        let count = |outcome: &str| totals[outcome].as_u64().unwrap_or(0);
        counted.add(pool, count("success"), count("failure"), count("expired"));
    }
    assert_eq!(counted.0, told.0, "what was counted, and what the audit log says");
    let rotated: u64 = told.0.values().map(|outcomes| outcomes[0]).sum();
    assert!(rotated >= 1, "nothing was rotated: {told:?}");
}

/// Whether an object is as a request of the audit log left it: a pass signs what it writes.
fn shows(object: &Value, request: &Value) -> bool {
    let body = &request["requestObject"];
    if request["verb"] == "delete" {
        return object["metadata"]["deletionTimestamp"].is_string();
    }
    let annotations = body["metadata"]["annotations"].as_object().into_iter().flatten();
    let mut shown = annotations.map(|(key, value)| object["metadata"]["annotations"].get(key).unwrap_or(&Value::Null) == value).peekable();
    shown.peek().is_some() && shown.all(|shown| shown)
}

/// The stored writes of a pass on a resource.
fn stored<'a>(log: &'a str, verb: &'a str) -> impl Iterator<Item = Value> + 'a {
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(move |event| {
        let dry = event["requestURI"].as_str().unwrap_or_default().contains("dryRun") || event["requestObject"]["dryRun"].is_array();
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        event["user"]["username"] == US && event["verb"] == verb && !dry && (200..300).contains(&code)
    })
}

/// Each claim that we marked as draining was deleted by us once, when its placeholder ran on another Ready Node.
fn deletions_were_earned(history: &History, log: &str) {
    let (mut deleted, mut draining) = (BTreeMap::<String, u32>::new(), BTreeSet::new());
    let name = |event: &Value| event["objectRef"]["name"].as_str().unwrap_or_default().to_owned();
    for event in stored(log, "delete").filter(|event| event["objectRef"]["resource"] == "nodeclaims") {
        *deleted.entry(name(&event)).or_default() += 1;
    }
    for event in stored(log, "patch").filter(|event| event["objectRef"]["resource"] == "nodeclaims") {
        if event["requestObject"]["metadata"]["annotations"]["noderotation.io/state"] == "draining" {
            draining.insert(name(&event));
        }
    }
    for (claim, times) in &deleted {
        assert_eq!(*times, 1, "{claim}");
        if draining.contains(claim) {
            history.surge_node(pool_of(claim), claim);
        } else {
            assert_eq!(pool_of(claim), SLOW, "{claim} was reaped, and no attempt of its pool ever failed");
        }
    }
}

/// Nothing but our keys, the protection and the cordon was ever written on anything but our own Pods.
fn writes_were_ours(log: &str) {
    for event in stored(log, "patch") {
        let (resource, body) = (event["objectRef"]["resource"].as_str().unwrap_or_default(), &event["requestObject"]);
        if !["nodepools", "nodeclaims", "nodes"].contains(&resource) {
            continue;
        }
        let keys = ["annotations", "labels"]
            .into_iter()
            .flat_map(|part| body["metadata"][part].as_object().into_iter().flat_map(|keys| keys.keys()));
        let ours = |key: &String| key.starts_with("noderotation.io/") || (resource == "nodes" && key == "karpenter.sh/do-not-disrupt");
        assert!(keys.clone().all(ours), "{body}");
        let fields = body["spec"].as_object().into_iter().flat_map(|fields| fields.keys());
        assert!(fields.clone().all(|field| resource == "nodes" && field == "unschedulable"), "{body}");
    }
}

/// What landed is told once at most, and nothing is told that did not land.
async fn told_once(passes: &Passes, told: &Told) {
    for (reason, index) in [("RotationCompleted", 0), ("RotationExpired", 2)] {
        let notes: Vec<String> = passes.events().await.into_iter().filter(|(told, _)| told == reason).map(|(_, note)| note).collect();
        assert_eq!(notes.iter().collect::<BTreeSet<_>>().len(), notes.len(), "{notes:#?}");
        let happened: u64 = told.0.values().map(|outcomes| outcomes[index]).sum();
        assert!(notes.len() as u64 <= happened, "{reason} told {} times of {happened}", notes.len());
    }
}
