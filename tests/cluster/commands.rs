//! The operator's commands beside passes: what they say is what passes do, and what they change is what was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Stdio,
    time::{Duration, Instant},
};

use control_plane::{Options, Pool};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    passes::{Pass, Passes},
    policy::{policy, with},
    pools::{LIMIT, allow, fill},
};

mod files;

impl Passes {
    /// A command of the operator's, with the operator's own rights.
    pub async fn operator(&self, arguments: &[&str]) -> Pass {
        self.finish(self.operators(env!("CARGO_BIN_EXE_noderotation"), arguments)).await
    }

    /// One that needs no cluster.
    async fn operator_offline(&self, arguments: &[&str]) -> Pass {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.args(arguments).stdin(Stdio::null());
        self.finish(command).await
    }

    fn operators(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).args(["--cadence", "2s", "--kubeconfig"]).arg(self.plane.kubeconfig());
        command.env_remove("KUBECONFIG");
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// What such a command tells with `-o json`.
    pub async fn told_as_json(&self, arguments: &[&str]) -> Value {
        let told = self.operator(arguments).await;
        assert_eq!(told.code, Some(0), "{}", told.log);
        serde_json::from_str(&told.stdout).unwrap()
    }
}

/// What a pass says that it does with a pool.
fn action(pass: &Pass, pool: &str) -> String {
    let lines = pass.log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_pool = lines.filter(|line| line["nodepool"] == pool).filter_map(|line| line["action"].as_str().map(str::to_owned));
    of_pool.fold(String::new(), |_, later| later)
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_says_what_the_next_pass_does_through_a_whole_rotation() {
    let passes = Passes::start(Options::default()).await.with(&["--log-format", "json"]);
    let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
    fill(&passes.plane, &pool, 2, 1).await;
    passes.plane.apply_objects(&[with(policy("web"), "surge.cooldownAfter", json!("1h"))]).await.unwrap();

    let mut predicted = BTreeSet::new();
    passes_with_plans(&passes, &mut predicted).await;
    let expected: BTreeSet<String> = ["start", "await-surge", "drain", "await-drain", "complete", "gated"].map(String::from).into();
    assert!(predicted.is_superset(&expected), "{predicted:?}");

    let plan = passes.told_as_json(&["plan", "web", "-o", "json"]).await;
    assert_eq!(plan["pools"][0]["gates"][0]["code"], "cooldown", "{plan:#}");
    let status = passes.told_as_json(&["status", "-o", "json"]).await;
    assert_eq!(status["outcomes"][0]["success"], 1, "{status:#}");
    assert!(status["passes"]["releasedAt"].is_string(), "{status:#}");
    assert_eq!((&status["passes"]["last"]["exitCode"], &status["passes"]["last"]["failed"]), (&json!(0), &json!([])), "{status:#}");
    a_wrong_clock_changes_nothing(&passes).await;
    kubectl_completes_names_of_the_cluster(&passes).await;
}

/// By the program and the script that `completion kubectl` prints, both on the `PATH`.
async fn kubectl_completes_names_of_the_cluster(passes: &Passes) {
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_noderotation"), folder.path().join("kubectl-noderotation")).unwrap();
    let script = folder.path().join("kubectl_complete-noderotation");
    fs::write(&script, passes.operator_offline(&["completion", "kubectl"]).await.stdout).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap());
    let completed = async |words: &[&str]| {
        let mut kubectl = Command::from(passes.plane.kubectl());
        kubectl.arg("__complete").arg("noderotation").args(words).env("PATH", &path).stdin(Stdio::null());
        passes.finish(kubectl).await.stdout
    };
    assert_eq!(completed(&["plan", "w"]).await, "web\tpolicy web\n:4\n");
    assert_eq!(completed(&["status", "--policy", ""]).await, "web\tpools web\n:4\n");
    assert_eq!(completed(&["freeze", "x"]).await, ":4\n");
    let claims = passes.claims("web").await;
    let told = completed(&["rotate", "web-"]).await;
    assert!(claims.iter().all(|claim| told.contains(&format!("{}\tweb\n", claim["metadata"]["name"].as_str().unwrap()))), "{told}");
}

/// Plan, pass, plan, pass, …: each plan's action is the pass's, unless what is awaited came in between.
async fn passes_with_plans(passes: &Passes, predicted: &mut BTreeSet<String>) {
    let start = Instant::now();
    let (mut gated, mut waited) = (0, BTreeMap::new());
    while gated < 2 {
        assert!(start.elapsed() < LIMIT, "{predicted:?}\n{}", passes.plane.describe_state().await);
        let plan = passes.told_as_json(&["plan", "web", "-o", "json"]).await;
        let planned = plan["pools"][0]["step"]["action"].as_str().unwrap().to_owned();
        // Once what is awaited has come, the plan has to say so before a pass does it.
        let looks: &mut u32 = waited.entry(planned.clone()).or_default();
        *looks += 1;
        if planned.starts_with("await-") && *looks > 2 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        }
        let pass = passes.pass().await;
        assert_eq!(pass.code, Some(0), "{}", pass.log);
        let done = action(&pass, "web");
        let came = matches!((planned.as_str(), done.as_str()), ("await-surge", "drain") | ("await-drain" | "drain", "complete"));
        assert!(planned == done || came, "planned {planned}, done {done}:\n{plan:#}\n{}", pass.log);
        if planned == done {
            gated += usize::from(done == "gated");
            predicted.insert(done);
        }
    }
}

async fn a_wrong_clock_changes_nothing(passes: &Passes) {
    let right = passes.told_as_json(&["plan", "-o", "json"]).await;
    let still = |plan: &Value| {
        (
            plan["now"].as_str().unwrap()[..13].to_owned(),
            plan["pools"][0]["step"]["action"].clone(),
            plan["pools"][0]["gates"][0]["until"].clone(),
        )
    };
    let program = env!("CARGO_BIN_EXE_noderotation");
    for (shift, told) in [("+1d", "ahead of the API server's"), ("-1d", "behind the API server's")] {
        let wrong = passes.finish(passes.operators("faketime", &["-f", shift, program, "plan", "-o", "json"])).await;
        assert_eq!(wrong.code, Some(0), "{shift}: {}", wrong.log);
        assert!(wrong.log.contains(told), "{shift}: {}", wrong.log);
        let wrong: Value = serde_json::from_str(&wrong.stdout).unwrap();
        assert_eq!(still(&right), still(&wrong), "{shift}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_rotation_can_be_aborted_under_passes_and_a_draining_one_can_not() {
    let passes = Passes::start(Options::default()).await;
    let plane = &passes.plane;
    let pool = |name: &str| Pool::new(name).label("rotate", name).expire_after("720h").termination_grace_period("10m");
    fill(plane, &pool("stuck"), 2, 1).await;
    let workload = fill(plane, &pool("drains"), 2, 0).await;

    // What comes for the one is never Ready, what goes of the other is never drained.
    plane.apply_objects(&[with(policy("drains"), "surge.drainEstimate", json!("1s"))]).await.unwrap();
    let is_draining =
        async |passes: &Passes| passes.pool_annotation("drains", "active-rotation-state").await.as_deref() == Some("draining");
    passes.until("one drains", LIMIT, async |_| is_draining(&passes).await).await;
    plane.hold_new_nodes().unwrap();
    plane.apply_objects(&[policy("stuck")]).await.unwrap();
    passes.until("the other is pending", LIMIT, async |_| passes.pool_annotation("stuck", "active-rotation").await.is_some()).await;
    passes.idle(2).await;

    let status = passes.told_as_json(&["status", "-o", "json"]).await;
    let [drains, stuck] = [&status["inFlight"][0], &status["inFlight"][1]];
    assert_eq!((&drains["pool"], &drains["state"], &drains["blocked"]), (&json!("drains"), &json!("draining"), &json!(true)), "{status:#}");
    assert!(drains["waitingFor"].as_str().unwrap().contains("PodDisruptionBudget drains allows no disruption"), "{status:#}");
    assert_eq!((&stuck["pool"], &stuck["state"], &stuck["attempt"]), (&json!("stuck"), &json!("pending"), &json!(1)), "{status:#}");
    assert!(!stuck["waitingFor"].as_str().unwrap().is_empty() && stuck["until"].is_string(), "{status:#}");

    let refused = passes.operator(&["abort", "drains", "--yes"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.log);
    assert!(refused.log.contains("that can't be taken back"), "{}", refused.log);

    let frozen = passes.operator(&["freeze", "stuck", "--for", "1h", "--yes"]).await;
    assert_eq!(frozen.code, Some(0), "{}", frozen.log);
    let unasked = passes.operator(&["abort", "stuck"]).await;
    assert_eq!(unasked.code, Some(2), "{}", unasked.log);
    let (aborted, passed) = futures::join!(passes.operator(&["abort", "stuck", "--yes"]), passes.pass());
    assert_eq!((aborted.code, passed.code), (Some(0), Some(0)), "{}\n{}", aborted.log, passed.log);
    assert_eq!(passes.totals("stuck").await["failure"], 1);
    passes.idle(2).await;
    assert_eq!(passes.pool_annotation("stuck", "active-rotation").await, None, "a frozen pool starts nothing");
    assert_eq!(passes.count("RotationFailed").await, 1);

    plane.release_new_nodes().unwrap();
    let thawed = passes.operator(&["unfreeze", "stuck", "--yes"]).await;
    assert_eq!((thawed.code, passes.pool_annotation("stuck", "freeze").await), (Some(0), None), "{}", thawed.log);
    let plan = passes.told_as_json(&["plan", "stuck", "-o", "json"]).await;
    let last = plan["pools"][0]["candidates"].as_array().unwrap().last().unwrap()["node"].as_str().unwrap().to_owned();
    let asked = passes.operator(&["rotate", &last, "--yes"]).await;
    assert_eq!(asked.code, Some(0), "{}", asked.log);
    let plan = passes.told_as_json(&["plan", "stuck", "-o", "json"]).await;
    let first = &plan["pools"][0]["candidates"][0];
    assert_eq!((&first["node"], &first["askedFor"]), (&json!(last), &json!(true)), "{plan:#}");
    allow(plane, &workload, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn simulate_forecasts_the_cluster_and_writes_nothing() {
    let passes = Passes::start(Options::default()).await;
    let pool = Pool::new("web").label("rotate", "web").expire_after("336h").termination_grace_period("1h");
    fill(&passes.plane, &pool, 2, 1).await;
    let windows = json!([{"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"}]);
    let weekly = with(with(policy("web"), "maintenanceWindows", windows), "ageThreshold", json!("auto"));
    passes.plane.apply_objects(&[with(weekly, "surge.cooldownAfter", json!("1h"))]).await.unwrap();
    let versions = async || {
        let told =
            passes.plane.run_kubectl(&["get", "nodepools,nodeclaims,rotationpolicies,leases", "-A", "-o", "name"], "").await.unwrap();
        told.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let before = versions().await;
    let told = passes.told_as_json(&["simulate", "--from-cluster", "--days", "15", "-o", "json"]).await;
    let [web] = told["pools"].as_array().unwrap().as_slice() else { panic!("{told:#}") };
    assert_eq!((&web["name"], &web["policy"], &web["nodes"]), (&json!("web"), &json!("web"), &json!(2)), "{told:#}");
    assert_eq!((&web["forcedWithout"], &web["with"]["expired"]), (&json!(2), &json!(0)), "{web:#}");
    assert!(web["outcomes"]["success"].as_u64().unwrap() >= 2, "{web:#}");
    assert_eq!(told["assumed"], json!([]), "{told:#}");
    assert_eq!(versions().await, before);
}
