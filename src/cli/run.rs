//! `run`: one pass. The arguments as they were typed become [`RunOptions`], which every value in them makes sense in.

use std::num::NonZeroUsize;

use chrono::TimeDelta;
use clap::{
    Args, CommandFactory,
    builder::{BoolishValueParser, NonEmptyStringValueParser},
    error::ErrorKind,
};

use super::{Cli, ExitCode, connect::ConnectOptions, span};
use crate::{
    api::keys::DEFAULT_NAMESPACE,
    report::{
        grouping::{self, Grouping},
        log::LogFormat,
        push::{Gateway, MetricsFile},
    },
};

mod execute;
mod steps;

/// The image that placeholders run, where nothing else is asked for.
pub const DEFAULT_PLACEHOLDER_IMAGE: &str = "registry.k8s.io/pause:3.10";

/// Do one pass: look at every NodePool, take at most one step in each, report, end
///
/// A pass finds the nodes that are due, and takes each governed NodePool one step further: it starts a rotation, waits for a
/// surge, begins or watches a drain, or cleans up. It never waits for a cluster: what is in flight is written on the objects,
/// and the next pass goes on from there. Start one every minute; the CronJob in kustomize/ does.
///
/// Every flag can be given as the environment variable named beside it; a flag wins.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct RunArgs {
    /// Print the step that each pool would take, and write nothing to the cluster
    #[arg(long, env = "NODEROTATION_DRY_RUN", hide_env_values = true, value_parser = BoolishValueParser::new())]
    dry_run: bool,

    /// With --dry-run: ask the API server by dry run whether it would agree to a start; needs the right to write
    ///
    /// Passes always ask before they touch anything.
    #[arg(long, requires = "dry_run", env = "NODEROTATION_REHEARSE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    rehearse: bool,

    /// Where the program's Lease and its placeholder Pods live
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAMESPACE, value_parser = NonEmptyStringValueParser::new(), env = "NODEROTATION_NAMESPACE", hide_env_values = true)]
    namespace: String,

    /// How often passes are started; deadlines leave room for four of them
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span::positive, env = "NODEROTATION_CADENCE", hide_env_values = true)]
    cadence: TimeDelta,

    /// How long the whole pass may take; nothing is written after it
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = span::positive, env = "NODEROTATION_DEADLINE", hide_env_values = true)]
    deadline: TimeDelta,

    /// How long to wait for the Lease while another run holds it [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = span::positive, env = "NODEROTATION_WAIT_FOR_LEASE", hide_env_values = true)]
    wait_for_lease: Option<TimeDelta>,

    /// How many NodePools to work on side by side
    #[arg(long, value_name = "N", default_value = "8", value_parser = at_least_one, env = "NODEROTATION_CONCURRENCY", hide_env_values = true)]
    concurrency: NonZeroUsize,

    /// How many rotations may be in flight in the cluster, granted by earliest deadline [default: one in each NodePool]
    #[arg(long, value_name = "N", value_parser = at_least_one, env = "NODEROTATION_MAX_IN_FLIGHT", hide_env_values = true)]
    max_in_flight: Option<NonZeroUsize>,

    /// The image of placeholder Pods: anything that does nothing until it is ended
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_PLACEHOLDER_IMAGE, value_parser = NonEmptyStringValueParser::new(), env = "NODEROTATION_PLACEHOLDER_IMAGE", hide_env_values = true)]
    placeholder_image: String,

    /// A Secret in the namespace by which the placeholder's image is pulled; may be repeated, or separated by commas
    #[arg(long = "image-pull-secret", value_name = "NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new(), env = "NODEROTATION_IMAGE_PULL_SECRET", hide_env_values = true)]
    image_pull_secrets: Vec<String>,

    #[command(flatten)]
    reporting: ReportingArgs,

    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Reporting")]
struct ReportingArgs {
    /// The Pushgateway that metrics are pushed to, such as http://pushgateway.monitoring:9091
    #[arg(long, value_name = "URL", env = "NODEROTATION_PUSHGATEWAY", hide_env_values = true)]
    pushgateway: Option<String>,

    /// A label of the pushed group besides job="noderotation", such as cluster=blue; may be repeated, or separated by commas
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        requires = "pushgateway",
        env = "NODEROTATION_GROUPING",
        hide_env_values = true
    )]
    grouping: Vec<Grouping>,

    /// A file that metrics are written to, for a textfile collector; - is standard output
    #[arg(long, value_name = "FILE", env = "NODEROTATION_METRICS_FILE", hide_env_values = true)]
    metrics_file: Option<String>,

    /// The shape of log lines, which go to standard error; NODEROTATION_LOG=debug tells more
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, env = "NODEROTATION_LOG_FORMAT", hide_env_values = true)]
    log_format: LogFormat,
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done; also when another run holds the Lease, a race was lost, or nothing may start now
    1  at least one pool failed (transport, a refusal, the deadline); the others went on
    2  bad usage or configuration
    3  no connection, or something the program needs isn't served or readable
    4  the Lease was lost; nothing was written from then on
  130  SIGINT    143  SIGTERM

Examples:
  noderotation run --dry-run
  noderotation run --context staging --wait-for-lease 30s
  noderotation run --pushgateway http://pushgateway.monitoring:9091 --grouping cluster=blue";

fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "write a whole number of at least 1")
}

/// What a pass is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Print the steps instead of taking them.
    pub dry_run: bool,
    /// With `dry_run`: ask the API server by dry run.
    pub rehearse: bool,
    /// Rotations that may be in flight in the cluster; `None` for no limit.
    pub max_in_flight: Option<NonZeroUsize>,
    /// Where the Lease and the placeholders live.
    pub namespace: String,
    /// The time between passes.
    pub cadence: TimeDelta,
    /// How long the pass may take.
    pub deadline: TimeDelta,
    /// How long to wait for the Lease; `None` for not at all.
    pub wait_for_lease: Option<TimeDelta>,
    /// Pools worked on side by side.
    pub concurrency: NonZeroUsize,
    /// The image of placeholders.
    pub placeholder_image: String,
    /// Secrets by which it is pulled.
    pub image_pull_secrets: Vec<String>,
    /// Where metrics are pushed to.
    pub gateway: Option<Gateway>,
    /// Where metrics are written to.
    pub metrics_file: Option<MetricsFile>,
    /// The shape of log lines.
    pub log_format: LogFormat,
    /// The cluster, and as whom.
    pub connect: ConnectOptions,
}

impl RunArgs {
    /// Makes sense of the arguments.
    ///
    /// # Errors
    /// A usage error, as clap would print it.
    pub fn into_options(self) -> Result<RunOptions, clap::Error> {
        let ReportingArgs { pushgateway, grouping, metrics_file, log_format } = self.reporting;
        let usage = |error: &dyn std::error::Error| {
            let mut cli = Cli::command();
            cli.build();
            // `run` is one of its subcommands by construction; without it the message would only lack the usage line.
            match cli.find_subcommand_mut("run") {
                Some(run) => run.error(ErrorKind::ValueValidation, error),
                None => clap::Error::raw(ErrorKind::ValueValidation, error),
            }
        };
        grouping::check_distinct(&grouping).map_err(|error| usage(&error))?;
        let gateway = pushgateway.map(|address| Gateway::new(&address, &grouping)).transpose().map_err(|error| usage(&error))?;
        Ok(RunOptions {
            dry_run: self.dry_run,
            rehearse: self.rehearse,
            max_in_flight: self.max_in_flight,
            namespace: self.namespace,
            cadence: self.cadence,
            deadline: self.deadline,
            wait_for_lease: self.wait_for_lease,
            concurrency: self.concurrency,
            placeholder_image: self.placeholder_image,
            image_pull_secrets: self.image_pull_secrets,
            gateway,
            metrics_file: metrics_file.as_deref().map(MetricsFile::from),
            log_format,
            connect: self.connect,
        })
    }
}

/// Runs one pass.
pub fn run(args: RunArgs) -> ExitCode {
    match args.into_options() {
        Ok(options) => execute::execute(options),
        Err(error) => {
            // There is nowhere to tell that standard error is closed.
            let _ = error.print();
            ExitCode::Usage
        }
    }
}
