//! The measurements in words, and whether they are within the aims.

use std::{process::ExitCode, time::Duration};

use crate::{
    fleet::Mood,
    process::Cost,
    requests::{counted, side_by_side, write_latency},
    scenario::Seen,
};

/// Wall time of an idle pass, as a multiple of the raw lists'.
const WALL: f64 = 1.35;
/// Bytes of an idle pass, likewise.
const BYTES: f64 = 1.05;
/// Requests of an idle pass besides the pages of NodeClaims.
const REQUESTS: usize = 8;
/// Peak memory of an idle pass at the largest size, in kB.
const MEMORY: u64 = 30_000;
/// How much more memory it may take with Pods than without.
const WITH_PODS: f64 = 1.05;
/// CPU time and peak memory at a hundred claims.
const SMALL: (Duration, u64) = (Duration::from_millis(60), 15_000);
/// Wall time of a pass that starts ten rotations, as a multiple of an idle pass's, besides the writes' own.
const ROTATING: f64 = 1.5;
/// The program's size in bytes.
const BINARY: u64 = 12_000_000;

impl Seen {
    /// How many of the requests are pages of NodeClaims.
    pub fn pages(&self) -> usize {
        counted(&self.requests).get("list nodeclaims").copied().unwrap_or_default()
    }

    /// Its bytes, both ways, as a multiple of the raw lists'.
    fn bytes_ratio(&self) -> f64 {
        self.traffic.both() as f64 / self.raw_traffic.both() as f64
    }

    fn wall_ratio(&self) -> f64 {
        self.pass.wall.as_secs_f64() / self.raw.wall.as_secs_f64()
    }
}

/// One measurement.
pub fn print(seen: &Seen) {
    println!("\n{:?}: {} NodeClaims, {} Pods", seen.mood, seen.claims, seen.pods);
    println!("{:18} {:>10} {:>10} {:>10} {:>9} {:>12} {:>6}", "", "wall", "CPU", "peak RSS", "requests", "bytes", "conns");
    let row = |name: &str, cost: &Cost, requests: usize, traffic: &crate::wire::Traffic| {
        let milliseconds = |span: Duration| span.as_secs_f64() * 1000.0;
        println!(
            "{name:18} {:>7.1} ms {:>7.1} ms {:>7.1} MB {requests:>9} {:>12} {:>6}",
            milliseconds(cost.wall),
            milliseconds(cost.cpu),
            cost.memory as f64 / 1000.0,
            traffic.both(),
            traffic.connections,
        );
    };
    row("noderotation run", &seen.pass, seen.requests.len(), &seen.traffic);
    row("the raw lists", &seen.raw, seen.raw_requests, &seen.raw_traffic);
    let cpu = seen.pass.cpu.as_secs_f64() / seen.raw.cpu.as_secs_f64();
    let memory = seen.pass.memory as f64 / seen.raw.memory as f64;
    println!("{:18} {:>10.2} {cpu:>10.2} {memory:>10.2} {:>9} {:>12.3}", "ratio", seen.wall_ratio(), "", seen.bytes_ratio());
    let counts: Vec<String> = counted(&seen.requests).iter().map(|(what, count)| format!("{what} {count}")).collect();
    println!("  {}", counts.join(", "));
    let refused: Vec<String> =
        seen.requests.iter().filter(|request| request.code >= 400).map(|request| format!("{} {}", request.what, request.code)).collect();
    if !refused.is_empty() {
        println!("  refused: {}", refused.join(", "));
    }
}

struct Verdict(bool);

impl Verdict {
    fn check(&mut self, what: &str, is: String, at_most: String, holds: bool) {
        println!("{what:64} {is:>12} {at_most:>12}  {}", if holds { "ok" } else { "ABOVE" });
        self.0 &= holds;
    }

    fn number(&mut self, what: &str, is: f64, at_most: f64) {
        self.check(what, format!("{is:.3}"), format!("{at_most:.2}"), is <= at_most);
    }
}

/// Everything beside its aim. Fails where one is missed.
pub fn verdict(seen: &[Seen], without_pods: &Seen, program: &str) -> ExitCode {
    let mut verdict = Verdict(true);
    let at = |mood: Mood, claims: usize| seen.iter().find(|seen| seen.mood == mood && seen.claims == claims).unwrap();
    let (first, last) = (seen[0].claims, seen[seen.len() - 1].claims);
    println!("\n{:64} {:>12} {:>12}", "", "measured", "at most");
    let large = at(Mood::Outside, last);
    verdict.number(&format!("idle at {last} claims: wall / raw lists"), large.wall_ratio(), WALL);
    verdict.number(&format!("idle at {last} claims: bytes / raw lists"), large.bytes_ratio(), BYTES);
    let besides = large.requests.len() - large.pages();
    verdict.number("idle: requests besides the pages of NodeClaims", besides as f64, REQUESTS as f64);
    verdict.number(&format!("idle at {last} claims: peak RSS in MB"), large.pass.memory as f64 / 1000.0, MEMORY as f64 / 1000.0);
    let ratio = large.pass.memory as f64 / without_pods.pass.memory as f64;
    verdict.number(&format!("idle: peak RSS with {} Pods / without", large.pods), ratio, WITH_PODS);
    let small = at(Mood::Outside, first);
    verdict.number(&format!("idle at {first} claims: CPU in ms"), small.pass.cpu.as_secs_f64() * 1e3, SMALL.0.as_secs_f64() * 1e3);
    verdict.number(&format!("idle at {first} claims: peak RSS in MB"), small.pass.memory as f64 / 1000.0, SMALL.1 as f64 / 1000.0);
    verdict.number("the stripped program in MB", std::fs::metadata(program).unwrap().len() as f64 / 1e6, BINARY as f64 / 1e6);
    for claims in seen.iter().filter(|seen| seen.mood == Mood::Rotating).map(|seen| seen.claims) {
        let (rotating, gated) = (at(Mood::Rotating, claims), at(Mood::Gated, claims));
        let latency = write_latency(&rotating.requests);
        let bound = gated.pass.wall.mul_f64(ROTATING) + latency;
        println!("ten pools at {claims} claims: {} writes; one pool's take {latency:.1?} together at most", writes(rotating));
        verdict.number(
            &format!("ten pools at {claims} claims: wall in ms"),
            rotating.pass.wall.as_secs_f64() * 1e3,
            bound.as_secs_f64() * 1e3,
        );
        let (most, two_of_one) = side_by_side(&rotating.requests);
        verdict.check("  real writes of different pools under way at once, at most", most.to_string(), String::new(), most > 1);
        verdict.check("  two real writes of one pool at once", two_of_one.to_string(), String::new(), !two_of_one);
    }
    for pair in seen.iter().filter(|seen| seen.mood == Mood::Outside).collect::<Vec<_>>().windows(2) {
        let (more, cpu) = (pair[1].claims as f64 / pair[0].claims as f64, pair[1].pass.cpu.as_secs_f64() / pair[0].pass.cpu.as_secs_f64());
        let doubling = cpu.powf(1.0 / more.log2());
        verdict.number(&format!("CPU per doubling, {} to {} claims", pair[0].claims, pair[1].claims), doubling, 2.0);
    }
    println!("\nbench: {}", if verdict.0 { "within the aims" } else { "ABOVE AN AIM" });
    if verdict.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn writes(seen: &Seen) -> usize {
    seen.requests.iter().filter(|request| request.is_write).count()
}
