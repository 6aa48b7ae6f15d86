//! `simulate`: what would become of a fleet, with noderotation and without, told by the real engine on a simulated cluster.

use std::{num::NonZeroUsize, path::PathBuf};

use chrono::{TimeDelta, Timelike};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{
    ExitCode,
    reach::{self, ReachArgs},
    screen::{Screen, structured},
    span,
};
use crate::{
    api::time::{Time, later},
    clock::Clock,
    world::scenario::{forecast::Forecast, invent::Numbers},
};

mod cluster;
mod files;
mod html;
mod progress;
mod question;
mod text;
pub mod typed;

use typed::When;

/// Forecast what becomes of nodes, with noderotation and without
///
/// Plays some weeks of a cluster in a moment: the real engine, on models of Karpenter, the scheduler and the workloads. Without
/// arguments the fleet and the policy are made up; with -f they are read from what `kubectl get -o yaml` prints, with
/// --from-cluster from the cluster itself. What is missing is assumed, and told. The same program, question and --seed give the
/// same answer, byte for byte.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    #[command(flatten)]
    fleet: FleetArgs,

    #[command(flatten)]
    policy: PolicyArgs,

    #[command(flatten)]
    trial: TrialArgs,

    #[command(flatten)]
    told: ToldArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Whose nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Fleet")]
struct FleetArgs {
    /// Read NodePools, NodeClaims, Nodes, Pods, PodDisruptionBudgets and RotationPolicies; - is standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "from_cluster")]
    files: Vec<PathBuf>,

    /// Read them from the cluster of the kubeconfig; nothing is written
    #[arg(long)]
    from_cluster: bool,

    /// Nodes of all pools together, where none are read [default: 56]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Option<u32>,

    /// NodePools, where none are read [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pools: Option<u32>,

    /// Their expireAfter, or one to try instead of what is read: a duration or Never [default: 336h]
    #[arg(long, value_name = "DURATION", value_parser = typed::expire_after)]
    expire_after: Option<String>,

    /// Their terminationGracePeriod, or one to try instead of what is read [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = typed::tgp)]
    tgp: Option<String>,

    /// Pods on a node, where none are read [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pods_per_node: Option<u32>,

    /// maxUnavailable of the workloads' PodDisruptionBudgets, where none are read [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    max_unavailable: Option<u32>,
}

/// Under which policies.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
struct PolicyArgs {
    /// Take the RotationPolicies of this file instead of those that are read; can be given more than once
    #[arg(long = "policy", value_name = "FILE", conflicts_with = "windows")]
    policies: Vec<PathBuf>,

    /// Take a policy for every pool with this window, such as "Wed,Sat 02:00-06:00 Europe/Berlin"; can be given more than once
    #[arg(long = "window", value_name = "WINDOW", value_parser = typed::window)]
    windows: Vec<Value>,
}

/// When, and what goes wrong.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time and what-ifs")]
struct TrialArgs {
    /// When it begins: a day or an instant [default: the next midnight in UTC; with --from-cluster, now]
    #[arg(long, value_name = "TIME", value_parser = typed::instant)]
    from: Option<Time>,

    /// How many days it lasts
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(i64).range(1..=366))]
    days: i64,

    /// No instance is to be had: 02:00-03:00 of each day (in the zone of the windows, unless one follows), or FROM/TO
    #[arg(long, value_name = "HOURS", value_parser = typed::hours)]
    fail_capacity: Vec<When>,

    /// Every drain takes at least so long
    #[arg(long, value_name = "DURATION", value_parser = span::positive)]
    drain: Option<TimeDelta>,

    /// No pass runs for so long, from the opening of the first window on; or FROM/TO
    #[arg(long, value_name = "DURATION", value_parser = typed::outage)]
    outage: Vec<When>,

    /// How many rotations passes let be in flight in the cluster, granted by earliest deadline [default: one in each NodePool]
    #[arg(long, value_name = "N", env = "NODEROTATION_MAX_IN_FLIGHT", hide_env_values = true)]
    max_in_flight: Option<NonZeroUsize>,

    /// Decides what is left to chance: how long instances, Pods and drains take
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// How to tell it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct ToldArgs {
    /// How to tell it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    /// Every event of the timeline, not a line a day; the same as -o wide
    #[arg(long)]
    timeline: bool,

    /// Write a page for a browser, too: one file that needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A shape of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// For people: a line a day, and the sums.
    #[default]
    Text,
    /// The same with every event.
    Wide,
    /// JSON; the shape is in docs/commands.md.
    Json,
    /// The same as YAML.
    Yaml,
}

const EXAMPLES: &str = "\
Examples:
  noderotation simulate
  noderotation simulate --nodes 200 --pools 5 --expire-after 480h --window \"Sat,Sun 01:00-05:00 Europe/Berlin\"
  noderotation simulate --from-cluster --html forecast.html
  kubectl get nodepools,nodeclaims,nodes,rotationpolicies,pods,pdb -A -o yaml | noderotation simulate -f -
  noderotation simulate --fail-capacity 02:00-03:00 --drain 45m --outage 6h      what if?

Exit codes:
  0  the forecast was told, whatever it says
  1  the output, or the page, can't be written
  2  bad usage, or a file can't be read
  3  --from-cluster: no connection, or what is needed can't be read";

/// Plays and tells.
pub fn run(args: SimulateArgs) -> ExitCode {
    let mut found = question::Found::default();
    if args.fleet.from_cluster {
        let code = reach::run(async |stop| {
            found = cluster::load(&args.reach, stop).await?;
            Ok(ExitCode::Done)
        });
        if code != ExitCode::Done {
            return code;
        }
    }
    match forecast(&args, found) {
        Ok(forecast) => tell(&args.told, &forecast),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::Usage
        }
    }
}

fn forecast(args: &SimulateArgs, found: question::Found) -> Result<Forecast, String> {
    let scenario = question::scenario(args, found)?;
    let progress = progress::Progress::new(2 * scenario.pools.len());
    let forecast = scenario.play(&|parts| progress.done(parts));
    progress.clear();
    Ok(forecast)
}

fn tell(told: &ToldArgs, forecast: &Forecast) -> ExitCode {
    if let Some(path) = &told.html {
        let written = html::page(forecast).and_then(|page| std::fs::write(path, page).map_err(|error| error.to_string()));
        if let Err(why) = written {
            eprintln!("error: writing {}: {why}", path.display());
            return ExitCode::Failed;
        }
    }
    let screen = Screen::stdout(true);
    let text = match told.output {
        Format::Text => Ok(text::text(forecast, told.timeline, screen)),
        Format::Wide => Ok(text::text(forecast, true, screen)),
        Format::Json => structured(forecast, false),
        Format::Yaml => structured(forecast, true),
    };
    match text {
        Ok(text) => super::print(&text),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::Failed
        }
    }
}

impl FleetArgs {
    fn numbers(&self) -> Numbers {
        let ordinary = Numbers::default();
        let count = |given: Option<u32>, otherwise: usize| given.map_or(otherwise, |given| usize::try_from(given).unwrap_or(otherwise));
        Numbers {
            nodes: count(self.nodes, ordinary.nodes),
            pools: count(self.pools, ordinary.pools),
            expire_after: self.expire_after.clone().unwrap_or(ordinary.expire_after),
            grace: self.tgp.clone().or(ordinary.grace),
            pods_per_node: self.pods_per_node.unwrap_or(ordinary.pods_per_node),
            max_unavailable: self.max_unavailable.unwrap_or(ordinary.max_unavailable),
        }
    }
}

/// The midnight in UTC that comes next.
fn next_midnight() -> Time {
    let now = Clock::local().now();
    let since = TimeDelta::seconds(i64::from(now.num_seconds_from_midnight()));
    later(typed::whole(now), TimeDelta::days(1) - since)
}

#[cfg(test)]
mod tests;
