//! One pass as a process: connect, do the pass, report, and map what happened to the exit code.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use http::Uri;

use super::{
    super::{ExitCode, connect::ConnectOptions, screen::Screen},
    RunOptions, steps,
};
use crate::{
    api::time::Time,
    clock::Clock,
    cluster::{Cluster, Failure},
    kube::{
        call::chain,
        connect::{Target, reach},
        lease::LastPass,
        session::{Session, Terms},
        stop::{Signal, Stop},
    },
    pass::{self, Look, PassReport, Unready},
    report::{
        log,
        metrics::{Extent, PassFacts, PoolReport, Stage, text},
    },
    rotation::scene::Config,
    surge::PlaceholderSettings,
};

/// The clock that log lines go by: the local one until the API server's is known.
type LogClock = Arc<OnceLock<Arc<Clock>>>;

/// Runs one pass to its end.
pub fn execute(options: RunOptions) -> ExitCode {
    let clock = LogClock::default();
    let (local, heard) = (Clock::local(), Arc::clone(&clock));
    let now = move || heard.get().map_or_else(|| local.now(), |clock| clock.now());
    let filter = std::env::var(log::FILTER_VARIABLE).ok();
    if let Err(error) = log::init(options.log_format, filter.as_deref(), now) {
        eprintln!("error: {}", chain(&error));
        return ExitCode::Usage;
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(run(options, &clock));
            // A name that is still being looked up can't be called off, and would hold the end for as long as it takes.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            ExitCode::Failed
        }
    }
}

async fn run(options: RunOptions, clock: &LogClock) -> ExitCode {
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => {
            tracing::error!(%error, "no handler for SIGINT and SIGTERM");
            return ExitCode::Failed;
        }
    };
    let began = Instant::now();
    let ended = work(&options, &stop, clock).await.after(&stop);
    let finished = clock.get().map_or_else(|| Clock::local().now(), |clock| clock.now());
    report(&options, &ended, finished, began.elapsed()).await;
    ended.code
}

/// What a run came to.
struct Ended {
    code: ExitCode,
    extent: Extent,
    report: PassReport,
}

impl Ended {
    fn early(code: ExitCode, stage: Stage) -> Self {
        let errors = BTreeMap::from([(stage, 1)]);
        Self { code, extent: Extent::NoView, report: PassReport { errors, ..PassReport::default() } }
    }

    fn quiet(code: ExitCode) -> Self {
        Self { code, extent: Extent::HeldElsewhere, report: PassReport::default() }
    }

    fn unready(unready: Unready, server: &Uri) -> Self {
        match unready {
            Unready::Preflight(words) => {
                tracing::error!(%server, "preflight failed: {words}");
                Self::early(ExitCode::NotConnected, Stage::Preflight)
            }
            Unready::Held(held) => {
                match &held.oddity {
                    None => tracing::info!("nothing is done by this run: {held}"),
                    // Nobody may be at work at all.
                    Some(_) => tracing::warn!("nothing is done by this run: {held}"),
                }
                Self::quiet(ExitCode::Done)
            }
            Unready::Lease(failure) => {
                tracing::error!(error = %failure, "the Lease can't be taken");
                Self::early(ExitCode::NotConnected, Stage::Lease)
            }
        }
    }

    fn of(report: PassReport) -> Self {
        let (code, extent) = match &report.aborted {
            Some(Failure::LeaseLost(_)) => (ExitCode::LeaseLost, Extent::NoView),
            _ if !report.had_view => (ExitCode::Failed, Extent::NoView),
            _ if report.failed() => (ExitCode::Failed, Extent::PoolsFailed),
            _ => (ExitCode::Done, Extent::Complete),
        };
        Self { code, extent, report }
    }

    /// A signal that has come has an exit code of its own.
    fn after(mut self, stop: &Stop) -> Self {
        if let Some(signal) = stop.requested() {
            self.code = match signal {
                Signal::Interrupt => ExitCode::Interrupted,
                Signal::Terminate => ExitCode::Terminated,
            };
        }
        self
    }

    /// What `status` will tell of it.
    fn last(&self, now: Time) -> LastPass {
        let PassReport { pools, errors, aborted, .. } = &self.report;
        let failed = pools.iter().filter(|(_, outcome)| outcome.failed).map(|(pool, _)| pool.clone());
        let counts = errors.iter().map(|(stage, count)| format!("{count} in {}", stage.name())).collect::<Vec<_>>().join(", ");
        let why = match aborted {
            Some(failure) => failure.to_string(),
            None if counts.is_empty() => counts,
            None => format!("errors: {counts}"),
        };
        LastPass::new(now, self.code.code(), failed, &why)
    }
}

async fn work(options: &RunOptions, stop: &Stop, clock: &LogClock) -> Ended {
    let (mut session, server) = match open(options, stop, clock).await {
        Ok(opened) => opened,
        Err(ended) => return ended,
    };
    let config = config(options);
    if options.dry_run {
        return dry_run(&session, &server, &config).await;
    }
    let patience = options.wait_for_lease.map_or(Duration::ZERO, std_duration);
    let look = match pass::ready(&mut session, &config, patience).await {
        Ok(look) => look,
        Err(unready) => return Ended::unready(unready, &server),
    };
    let ended = Ended::of(pass::pass_over(&session, options.concurrency.get(), look).await).after(stop);
    let last = ended.last(session.clock().now());
    session.finish(last).await;
    ended
}

async fn open(options: &RunOptions, stop: &Stop, clock: &LogClock) -> Result<(Session, Uri), Ended> {
    let ConnectOptions { kubeconfig, context, impersonate, request_timeout } = options.connect.clone();
    let target = Target { kubeconfig, context, impersonate };
    let connected = tokio::select! {
        connected = reach(&target) => connected,
        _ = stop.wait() => return Err(Ended::quiet(ExitCode::Failed)),
    };
    let (client, server) = connected.map_err(|error| {
        tracing::error!("no connection: {}", chain(&error));
        Ended::early(ExitCode::NotConnected, Stage::Connect)
    })?;
    let terms = Terms {
        namespace: options.namespace.clone(),
        deadline: std_duration(options.deadline),
        request_timeout: request_timeout.map(std_duration),
        stop: stop.clone(),
    };
    let session = Session::begin(client, terms);
    // The first and only one to set it.
    let _ = clock.set(session.clock());
    Ok((session, server))
}

fn config(options: &RunOptions) -> Config {
    let placeholder = PlaceholderSettings {
        namespace: options.namespace.clone(),
        image: options.placeholder_image.clone(),
        pull_secrets: options.image_pull_secrets.clone(),
    };
    Config {
        cadence: options.cadence,
        placeholder,
        rehearse: options.rehearse || !options.dry_run,
        max_in_flight: options.max_in_flight.map(NonZeroUsize::get),
    }
}

/// The path of a pass up to its decision; nothing that writes is ever built.
async fn dry_run(session: &Session, server: &Uri, config: &Config) -> Ended {
    let (proven, look, lease) = futures::join!(session.preflight(), pass::look(session, config), session.lease());
    if let Err(error) = proven {
        return Ended::unready(Unready::Preflight(chain(&error)), server);
    }
    if let Some(held) = lease.ok().flatten().and_then(|record| record.held(session.now())) {
        tracing::info!("a dry run needs no Lease: {held}");
    }
    match look {
        Ok(Look { view, decision, .. }) => {
            let printed = super::super::print(&Screen::stdout(true).wrap_lines(&steps::text(&decision)));
            let failed = !decision.errors.is_empty() || !view.unreadable.is_empty();
            Ended::quiet(if failed { ExitCode::Failed } else { printed })
        }
        Err(failure) => {
            tracing::error!(error = %failure, "the cluster can't be read");
            Ended::quiet(ExitCode::Failed)
        }
    }
}

/// Metrics, which cost no exit code: every total is durable, so the next pass tells it again.
async fn report(options: &RunOptions, ended: &Ended, finished: Time, took: Duration) {
    let facts = PassFacts {
        finished,
        duration: TimeDelta::from_std(took).unwrap_or(TimeDelta::MAX),
        errors: ended.report.errors.clone(),
        extent: ended.extent,
        version: env!("CARGO_PKG_VERSION"),
    };
    let pools: Vec<PoolReport<'_>> =
        ended.report.pools.values().map(|pool| PoolReport { assessment: &pool.assessment, totals: &pool.totals }).collect();
    let failed = ended.report.pools.values().filter(|pool| pool.failed).count();
    if ended.extent != Extent::HeldElsewhere {
        tracing::info!(
            pools = pools.len(),
            failed,
            exit = ended.code.code(),
            milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "the pass is done"
        );
    }
    let Some(text) = text(&facts, &pools) else { return };
    if let Some(file) = &options.metrics_file
        && let Err(error) = file.write(&text)
    {
        tracing::warn!("the metrics were not written: {}", chain(&error));
    }
    if let Some(gateway) = &options.gateway
        && let Err(error) = gateway.push(ended.extent, text).await
    {
        tracing::warn!("the metrics were not pushed: {}", chain(&error));
    }
}

fn std_duration(span: TimeDelta) -> Duration {
    span.to_std().unwrap_or_default()
}
