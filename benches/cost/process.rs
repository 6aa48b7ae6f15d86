//! What a process takes, and the middle of several.

use std::{
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use nix::sys::resource::{UsageWho, getrusage};

/// What a process took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// From its start to its end.
    pub wall: Duration,
    /// In user and system mode together.
    pub cpu: Duration,
    /// The largest resident set, in kB.
    pub memory: u64,
}

impl Cost {
    /// The middle of each.
    pub fn median(costs: &[Self]) -> Self {
        Self {
            wall: middle(costs.iter().map(|cost| cost.wall)),
            cpu: middle(costs.iter().map(|cost| cost.cpu)),
            memory: middle(costs.iter().map(|cost| cost.memory)),
        }
    }
}

/// The middle value.
pub fn middle<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values[values.len() / 2]
}

/// Runs a command with a small process in between, which answers what it took.
pub fn cost(command: &[&str]) -> Cost {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).arg("measure").args(command).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [wall, cpu, memory] = numbers[..] else { panic!("{text}") };
    Cost { wall: Duration::from_micros(wall), cpu: Duration::from_micros(cpu), memory }
}

/// The small process.
pub fn measure(program: &str, arguments: &[&str]) -> ExitCode {
    let start = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let wall = start.elapsed().as_micros();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let microseconds = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    println!("{wall} {} {}", microseconds(usage.user_time()) + microseconds(usage.system_time()), usage.max_rss());
    if output.status.success() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    ExitCode::FAILURE
}
