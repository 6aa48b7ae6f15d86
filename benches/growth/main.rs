//! How what a pass works out grows with what it governs, apart from all that it reads. `make bench` runs it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark ends where something unexpected happens")]

use std::{process::ExitCode, time::Instant};

mod decide;
mod policies;

/// Runs of each.
const RUNS: usize = 25;

fn main() -> ExitCode {
    let within = [policies::bench(), decide::bench()];
    println!("bench: {}", if within == [true; 2] { "within the aims" } else { "ABOVE AN AIM" });
    if within == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The least time of the runs, in milliseconds: whatever else the machine does only adds.
fn least(mut run: impl FnMut()) -> f64 {
    let mut timed = || {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64() * 1e3
    };
    (0..RUNS).map(|_| timed()).fold(f64::INFINITY, f64::min)
}
