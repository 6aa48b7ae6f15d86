//! What a pass costs on a real API server, as whole processes: wall and CPU time, peak memory, requests and bytes, each beside
//! a client that does nothing but fetch the same lists. `make bench-cluster` runs it at three sizes, `make bench` at one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark ends where something unexpected happens")]

use std::{env, path::Path, process::ExitCode};

#[path = "../chart.rs"]
mod chart;
mod curves;
mod fleet;
mod objects;
mod process;
mod raw;
mod report;
mod requests;
mod scenario;
mod wire;

/// What is typed after `--`.
#[derive(Debug, Clone)]
pub struct Flags {
    /// NodeClaims (and Nodes), growing.
    sizes: Vec<usize>,
    /// Pods per NodeClaim.
    pods: usize,
    /// Measured runs of each, after one that warms up.
    runs: usize,
    /// Where the curves go.
    svg: Option<String>,
}

impl Flags {
    fn read(arguments: &[&str]) -> Self {
        let mut flags = Self { sizes: vec![100, 1000, 5000], pods: 10, runs: 9, svg: None };
        let mut rest = arguments.iter().filter(|argument| **argument != "--bench");
        while let Some(flag) = rest.next() {
            let value = *rest.next().unwrap_or_else(|| panic!("{flag} needs a value"));
            match *flag {
                "--sizes" => flags.sizes = value.split(',').map(|size| size.parse().unwrap()).collect(),
                "--pods-per-claim" => flags.pods = value.parse().unwrap(),
                "--runs" => flags.runs = value.parse().unwrap(),
                "--svg" => flags.svg = Some(value.into()),
                other => panic!("{other}: there are --sizes N,N, --pods-per-claim N, --runs N and --svg FILE"),
            }
        }
        assert!(flags.sizes.is_sorted(), "--sizes has to grow: one cluster is filled further and further");
        flags
    }
}

/// This program plays three roles: the benchmark, the client that only lists, and what stands between the benchmark and
/// a process that it measures. A process's peak memory counts that of its parent before `exec`, so the parent is small.
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list", kubeconfig, page] => raw::list(Path::new(kubeconfig), page.parse().unwrap()),
        ["measure", program, rest @ ..] => return process::measure(program, rest),
        typed => return scenario::bench(&Flags::read(typed)),
    }
    ExitCode::SUCCESS
}
