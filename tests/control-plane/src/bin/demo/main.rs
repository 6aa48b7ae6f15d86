//! `make demo`: real Karpenter replaces three Nodes, because `noderotation run` is started again and again. Takes the
//! program's path; ends by itself, or by Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use control_plane::{ControlPlane, Error, Observer, Options, Pool, Workload, asked_to_end};
use serde_json::{Value, json};
use tokio::process::Command;

use table::Table;

mod table;

const POOL: &str = "web";
const NODES: u32 = 3;
const NAMESPACE: &str = "node-rotation-system";
/// A CronJob would take a minute.
const BETWEEN_PASSES: Duration = Duration::from_secs(3);
/// Kubernetes says in whole seconds when a Pod became Ready, so less than two is no time at all.
const POD_READY_DELAY: Duration = Duration::from_secs(3);
/// Long after it should have ended.
const PASSES_MAX: u32 = 300;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(program) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("demo: say where the program is: demo target/debug/noderotation");
        return ExitCode::from(2);
    };
    let outcome = tokio::select! {
        outcome = demo(&program) => outcome,
        () = asked_to_end() => Ok(()),
    };
    match outcome {
        Ok(()) => {
            say("ended; nothing is left behind");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("demo: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn say(what: &str) {
    println!("demo: {what}");
}

/// Dropping this future, as a signal does, ends the control plane.
async fn demo(program: &Path) -> Result<(), Error> {
    say("starting a control plane on this machine: etcd, the API server, its controllers, the scheduler,");
    say("  Karpenter, and kwok, which plays kubelets: Nodes and Pods are real objects, no container runs");
    let plane = ControlPlane::start(Options { pod_ready_delay: POD_READY_DELAY, ..Options::default() }).await?;
    say(&format!("bringing up NodePool {POOL}: {NODES} Nodes with 5 Pods each; a budget lets one Pod be away at a time"));
    let pool = Pool::new(POOL).expire_after("720h").termination_grace_period("1h");
    let workload = plane.part_filled_fleet(&pool, NODES).await?;
    let observer = plane.observe(&workload).await?;

    say("installing noderotation, all but its CronJob: kubectl apply -k kustomize/without-cronjob");
    plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kustomize/without-cronjob")).await?;
    let kubeconfig = plane.kubeconfig_for(NAMESPACE, "noderotation").await?;
    say("and a RotationPolicy: at any hour, and (for want of two weeks) what is older than 15s\n");
    plane.apply_objects(&[policy()]).await?;
    say("from here on `noderotation run` is started every few seconds, a process of its own each time;");
    say("  between them nothing of it runs\n");

    let rotated = rotate(&plane, program, &kubeconfig, &observer).await?;
    let seen = observer.observed();
    println!();
    say(&format!("{rotated} Nodes were replaced, one at a time, each by one that was Ready before the old one was drained"));
    say(&format!(
        "  never more than {} Nodes; never fewer than {} of {} Pods Ready",
        seen.claims_max,
        seen.ready_min,
        workload.replica_count()
    ));
    Ok(())
}

/// Starts pass after pass until all the first Nodes are replaced.
async fn rotate(plane: &ControlPlane, program: &Path, kubeconfig: &Path, observer: &Observer) -> Result<u64, Error> {
    let workload = Workload::new(POOL, POOL);
    let mut shown = Table::default();
    for number in 1..=PASSES_MAX {
        let table = Table::read(plane, &workload).await?;
        if !table.looks_like(&shown) {
            println!("\n{table}");
            println!("  Pods Ready: {} now, {} at the fewest\n", table.pods_ready(), observer.observed().ready_min);
            shown = table;
        }
        let told = pass(program, kubeconfig).await?;
        println!("noderotation run #{number:<3} {told}");
        let done = rotations(plane).await?;
        if done >= u64::from(NODES) {
            println!("\n{}", Table::read(plane, &workload).await?);
            return Ok(done);
        }
        tokio::time::sleep(BETWEEN_PASSES).await;
    }
    let state = plane.describe_state().await;
    Err(Error::Timeout { what: format!("{NODES} Nodes are replaced"), after: BETWEEN_PASSES * PASSES_MAX, state })
}

/// Runs one pass; answers what it says that it did.
async fn pass(program: &Path, kubeconfig: &Path) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(["run", "--log-format=json", "--cadence=3s", "--kubeconfig"]).arg(kubeconfig);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let unusable = |why: String| Error::Unreadable { what: program.display().to_string(), why };
    let output = output.map_err(|error| unusable(error.to_string()))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(Error::Command { command: "noderotation run".into(), status: output.status, output: log });
    }
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut steps = lines.filter(|line| line["nodepool"] == POOL && line["action"].is_string());
    let step = steps.next_back();
    let step = step.ok_or_else(|| unusable(format!("it says nothing of NodePool {POOL}:\n{log}")))?;
    let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
    Ok(format!("{:<12} {}", text("action"), text("message")))
}

/// The program's own count of rotations that went well.
async fn rotations(plane: &ControlPlane) -> Result<u64, Error> {
    let unreadable = |why: String| Error::Unreadable { what: format!("NodePool {POOL}"), why };
    let pool = plane.node_pools().get(POOL).await.map_err(|error| unreadable(error.to_string()))?;
    let totals = pool.metadata.annotations.unwrap_or_default().remove("noderotation.io/totals");
    let totals: Value =
        totals.map_or(Ok(Value::Null), |text| serde_json::from_str(&text)).map_err(|error| unreadable(error.to_string()))?;
    Ok(totals["success"].as_u64().unwrap_or_default())
}

fn policy() -> Value {
    json!({
        "apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy", "metadata": {"name": "demo"},
        "spec": {
            "nodePoolSelector": {},
            "maintenanceWindows": [{
                "timezone": "UTC", "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], "start": "00:00", "end": "24:00",
            }],
            "ageThreshold": "15s",
            "surge": {"readyTimeout": "20m", "cooldownAfter": "0s"},
        },
    })
}
