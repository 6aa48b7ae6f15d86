//! What a pass costs that has nothing to do: CPU time and peak memory of `noderotation run` over a hundred NodeClaims on a
//! real API server, side by side with a client that only fetches the same lists. `make bench` runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark ends where something unexpected happens")]

use std::{
    env, fmt,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Options};
use kube::{
    Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
    core::Request,
};
use nix::sys::resource::{UsageWho, getrusage};

mod fleet;

const POOLS: usize = 5;
const CLAIMS_PER_POOL: usize = 20;
/// Runs of each, after one that warms up.
const RUNS: usize = 21;
/// What a pass may cost.
const AIM: Cost = Cost { cpu: Duration::from_millis(60), memory: 20_000, wall: Duration::ZERO };

/// This program plays three roles: the benchmark, the client that only lists, and what stands between the benchmark and
/// a process that it measures. A process's peak memory counts that of its parent before `exec`, so the parent is small.
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list", kubeconfig] => list(Path::new(kubeconfig)),
        ["measure", program, rest @ ..] => return measure(program, rest),
        _ => bench(),
    }
    ExitCode::SUCCESS
}

#[tokio::main]
async fn bench() {
    println!("bench: starting a control plane");
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    plane.stop_karpenter(); // its CRDs stay
    plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/without-cronjob")).await.unwrap();
    println!("bench: making {POOLS} NodePools with {CLAIMS_PER_POOL} NodeClaims and Nodes each");
    fleet::make(&plane, POOLS, CLAIMS_PER_POOL).await;
    let kubeconfig = plane.kubeconfig_for("node-rotation-system", "noderotation").await.unwrap();

    let this = env::current_exe().unwrap().display().to_string();
    let kubeconfig = kubeconfig.display().to_string();
    let pass = [env!("CARGO_BIN_EXE_noderotation"), "run", "--kubeconfig", &kubeconfig];
    let list = [this.as_str(), "list", &kubeconfig];
    let (mut passes, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..=RUNS {
        passes.push(cost(&this, &pass));
        lists.push(cost(&this, &list));
    }
    let (pass, list) = (median(&passes[1..]), median(&lists[1..]));
    println!("\nAn idle pass over {} NodeClaims; medians of {RUNS} runs, one after the other:\n", POOLS * CLAIMS_PER_POOL);
    println!("{:16} {:>10} {:>14} {:>10}", "", "CPU time", "peak memory", "wall time");
    println!("{:16} {pass}\n{:16} {list}", "noderotation run", "the same lists");
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let memory = pass.memory as f64 / list.memory as f64;
    println!("{:16} {:>10.2} {memory:>14.2} {:>10.2}", "ratio", ratio(pass.cpu, list.cpu), ratio(pass.wall, list.wall));
    println!("{:16} {:>7} ms {:>11} MB", "aim", AIM.cpu.as_millis(), AIM.memory / 1000);
    let verdict = if pass.cpu <= AIM.cpu && pass.memory <= AIM.memory { "within the aim" } else { "ABOVE THE AIM" };
    println!("\nbench: {verdict}");
}

/// What a process took.
#[derive(Clone, Copy)]
struct Cost {
    /// In user and system mode together.
    cpu: Duration,
    /// The largest resident set, in kB.
    memory: u64,
    /// From its start to its end.
    wall: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |span: Duration| span.as_secs_f64() * 1000.0;
        let memory = self.memory as f64 / 1000.0;
        write!(formatter, "{:>7.1} ms {memory:>11.1} MB {:>7.1} ms", milliseconds(self.cpu), milliseconds(self.wall))
    }
}

fn median(costs: &[Cost]) -> Cost {
    fn middle<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
        let mut values: Vec<T> = values.collect();
        values.sort();
        values[values.len() / 2]
    }
    Cost {
        cpu: middle(costs.iter().map(|cost| cost.cpu)),
        memory: middle(costs.iter().map(|cost| cost.memory)),
        wall: middle(costs.iter().map(|cost| cost.wall)),
    }
}

/// Runs a command with a small process in between, which answers what it took.
fn cost(this: &str, command: &[&str]) -> Cost {
    let output = Command::new(this).arg("measure").args(command).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [cpu, memory, wall] = numbers[..] else { panic!("{text}") };
    Cost { cpu: Duration::from_micros(cpu), memory, wall: Duration::from_micros(wall) }
}

fn measure(program: &str, arguments: &[&str]) -> ExitCode {
    let start = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let wall = start.elapsed().as_micros();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let microseconds = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    println!("{} {} {wall}", microseconds(usage.user_time()) + microseconds(usage.system_time()), usage.max_rss());
    if output.status.success() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    ExitCode::FAILURE
}

/// As little as can be done to fetch what a pass has to know: the bytes of both lists, which nobody reads.
#[tokio::main(flavor = "current_thread")]
async fn list(kubeconfig: &Path) {
    let _already_chosen = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    for plural in ["nodepools", "nodeclaims"] {
        let request = Request::new(format!("/apis/karpenter.sh/v1/{plural}")).list(&ListParams::default().limit(500)).unwrap();
        let text = client.request_text(request).await.unwrap();
        assert!(text.contains("\"items\""));
    }
}
