//! `check`: policies judged offline, for a laptop and for the CI of a repository that holds them.

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::{Args, ValueEnum};

use super::{ExitCode, screen::Screen, span};
use crate::{
    api::time::{Time, parse_annotation, parse_duration},
    clock::Clock,
    schedule::derive::Lifetime,
};

mod diagnostic;
mod envelope;
mod files;
mod judge;
mod sarif;
mod show;
pub(in crate::cli) mod yaml;

use diagnostic::Severity;
use judge::{Terms, judge};

/// Validate RotationPolicy files without a cluster
///
/// Reads all YAML documents of the files, and of the .yaml, .yml and .json files in folders, hidden ones apart; documents of
/// other kinds are passed over. Each problem is told with its place, the field and what would be right. NodePools in the same or other files are judged with the policy that would govern them; without
/// any, --expire-after and --tgp stand for one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Files or folders to read; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The expireAfter of nodes to judge every policy against: a duration or Never
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expire_after: Option<Life>,

    /// Their terminationGracePeriod [default: unset]
    #[arg(long, value_name = "DURATION", value_parser = grace, requires = "expire_after")]
    tgp: Option<TimeDelta>,

    /// The number of nodes of each pool, for the findings on throughput
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    nodes: usize,

    /// How often passes are started; deadlines leave room for four of them
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span::positive)]
    cadence: TimeDelta,

    /// The instant to look at windows from, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    at: Option<Time>,

    /// How to tell it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Exit codes:
  0  the API server would accept every policy, and rotations would start
  1  a policy is invalid, a finding is fatal, or a pool is in conflict
  2  bad usage, a file can't be read, or there is none

Examples:
  noderotation check policies/
  noderotation check --expire-after 336h --tgp 1h --nodes 40 nights.yaml
  kubectl get nodepools,rotationpolicies -o yaml | noderotation check -
  noderotation check -o github policies/     # annotations in a GitHub workflow";

/// How diagnostics are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// For people, with the windows and what follows from them.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Workflow commands of GitHub Actions.
    Github,
}

/// An `expireAfter`; `None` is `Never`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Life(Option<TimeDelta>);

pub(in crate::cli) fn lifetime(text: &str) -> Result<Life, &'static str> {
    if text == "Never" {
        return Ok(Life(None));
    }
    grace(text).map(|span| Life(Some(span))).map_err(|_| "write Never, or a duration such as 336h or 720h0m0s")
}

pub(in crate::cli) fn grace(text: &str) -> Result<TimeDelta, &'static str> {
    parse_duration(text).filter(|span| *span > TimeDelta::zero()).ok_or("write a duration such as 1h or 30m")
}

fn instant(text: &str) -> Result<Time, &'static str> {
    parse_annotation(text).ok_or("write an instant such as 2030-01-07T06:00:00Z")
}

/// Reads, judges and tells.
pub fn run(args: CheckArgs) -> ExitCode {
    let files = match files::gather(&args.files) {
        Ok(files) => files,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::Usage;
        }
    };
    let now = args.at.unwrap_or_else(|| Clock::local().now());
    let lifetime = args.expire_after.map(|Life(expire_after)| Lifetime { expire_after, grace: args.tgp });
    let terms = Terms { now, cadence: args.cadence, nodes: args.nodes, lifetime };
    let verdict = judge(&files, &terms);
    let text = match args.output {
        Format::Text => show::text(&verdict, &terms, Screen::stdout(true)),
        Format::Json => show::json(&verdict, &terms),
        Format::Sarif => sarif::sarif(&verdict),
        Format::Github => show::github(&verdict),
    };
    let bad = verdict.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    match super::print(&text) {
        ExitCode::Done if bad => ExitCode::Failed,
        code => code,
    }
}

#[cfg(test)]
mod tests;
