//! What `noderotation plan` takes over up to a thousand NodeClaims on a real API server, from its start to its end, beside clients
//! that only fetch the NodeClaims: one that reads no byte of them, and `kubectl get --raw`. One run after the other, in
//! turn, so that whatever else the machine does meets all of them. `make bench` runs it;
//! `--svg FILE` draws the curves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark ends where something unexpected happens")]

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Options};
use noderotation::kube::connect::{Target, connect};

#[path = "../chart.rs"]
mod chart;
mod fleet;

const POOLS: usize = 10;
/// Growing: one cluster is filled further and further.
const CLAIMS_PER_POOL: [usize; 3] = [25, 50, 100];
/// Where they are.
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
/// Runs of each, after one that warms up.
const RUNS: usize = 21;
/// What `plan` may take over the most claims, as a multiple of the raw list.
const AIM: f64 = 1.5;

/// This program is the benchmark, and the client that only lists.
fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list", kubeconfig] => list(Path::new(kubeconfig)),
        ["--svg", file, ..] => std::fs::write(file, drawn(&bench())).unwrap(),
        _ => drop(bench()),
    }
}

/// The bytes of the list in one answer, which nobody reads.
#[tokio::main(flavor = "current_thread")]
async fn list(kubeconfig: &Path) {
    // The same kind of connection as a plan has.
    let client = connect(&Target { kubeconfig: Some(kubeconfig.into()), ..Target::default() }).await.unwrap();
    let request = http::Request::get(CLAIMS).body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    println!("{}", text.len());
}

/// Medians over so many claims, in milliseconds: `plan` with none due, with all due, and the client that lists.
struct Seen {
    claims: usize,
    idle: f64,
    due: f64,
    list: f64,
}

fn drawn(seen: &[Seen]) -> String {
    let line = |of: fn(&Seen) -> f64| seen.iter().map(|seen| (seen.claims as f64, of(seen))).collect();
    let lines = vec![
        ("a client that lists", "#888888", line(|seen| seen.list)),
        ("plan, none due", "#1f77b4", line(|seen| seen.idle)),
        ("plan, all due", "#d62728", line(|seen| seen.due)),
    ];
    chart::curves("What plan costs, by the number of NodeClaims", &[("Wall time, ms", lines)])
}

#[tokio::main]
async fn bench() -> Vec<Seen> {
    println!("bench: starting a control plane");
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    plane.stop_karpenter(); // its CRDs stay
    plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/without-cronjob")).await.unwrap();
    let mut there = 0;
    let mut seen = Vec::new();
    for claims in CLAIMS_PER_POOL {
        println!("\nbench: making {POOLS} NodePools with {claims} NodeClaims and Nodes each");
        fleet::make(&plane, POOLS, there..claims).await;
        there = claims;
        seen.push(measure(&plane, POOLS * claims).await);
    }
    let ratio = seen.last().map_or(f64::INFINITY, |seen| seen.idle.max(seen.due) / seen.list);
    println!("\nbench: {} {AIM} times the time of a client that only lists", if ratio <= AIM { "within" } else { "ABOVE" });
    seen
}

async fn measure(plane: &ControlPlane, claims: usize) -> Seen {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let this = env::current_exe().unwrap().display().to_string();
    let listed = Command::new(&this).args(["list", &kubeconfig]).output().unwrap();
    let bytes: usize = String::from_utf8(listed.stdout).unwrap().trim().parse().unwrap();
    println!("bench: {claims} NodeClaims, {:.1} kB each", bytes as f64 / claims as f64 / 1000.0);

    let plan = [env!("CARGO_BIN_EXE_noderotation"), "plan", "--kubeconfig", &kubeconfig];
    let list = [this.as_str(), "list", &kubeconfig];
    let kubectl = plane.kubectl().get_program().to_string_lossy().into_owned();
    let raw = [kubectl.as_str(), "--kubeconfig", &kubeconfig, "get", "--raw", CLAIMS];
    let mut medians = Vec::new();
    for (what, age_threshold) in [("none of them due", "600h"), ("all of them due", "1s")] {
        plane.apply_objects(&[fleet::policy(age_threshold)]).await.unwrap();
        let [plans, lists, raws] = side_by_side([&plan, &list, &raw]);
        println!("\nOver {claims} NodeClaims, {what}; wall time, median and quartiles of {RUNS} runs each, in turn:\n");
        for (name, times) in [("noderotation plan", &plans), ("a client that lists", &lists), ("kubectl get --raw", &raws)] {
            let ratio = plans.median().as_secs_f64() / times.median().as_secs_f64();
            println!("{name:20} {}   plan takes {ratio:.2} of it", times.told());
        }
        medians.push([plans.median(), lists.median()].map(|time| time.as_secs_f64() * 1e3));
    }
    let [[idle, list], [due, _]] = medians.try_into().unwrap();
    Seen { claims, idle, due, list }
}

/// In order.
struct Times(Vec<Duration>);

impl Times {
    fn at(&self, part: usize) -> Duration {
        self.0[(self.0.len() - 1) * part / 4]
    }

    fn median(&self) -> Duration {
        self.at(2)
    }

    fn told(&self) -> String {
        let [low, median, high] = [1, 2, 3].map(|part| self.at(part).as_secs_f64() * 1000.0);
        format!("{median:>7.1} ms ({low:.1} to {high:.1})")
    }
}

/// Each command in turn, so often.
fn side_by_side<const N: usize>(commands: [&[&str]; N]) -> [Times; N] {
    let mut times = commands.map(|_| Vec::new());
    for _ in 0..=RUNS {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(time(command));
        }
    }
    times.map(|mut times| {
        times.remove(0);
        times.sort();
        Times(times)
    })
}

fn time(command: &[&str]) -> Duration {
    let start = Instant::now();
    let output = Command::new(command[0]).args(&command[1..]).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let took = start.elapsed();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    took
}
