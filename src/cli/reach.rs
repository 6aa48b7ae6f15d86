//! How the operator's commands reach the cluster: the flags they share, one session for reading, and errors as sentences.

use std::time::Duration;

use chrono::TimeDelta;
use clap::{Args, builder::NonEmptyStringValueParser};

use super::{ExitCode, connect::ConnectOptions, run::DEFAULT_PLACEHOLDER_IMAGE, span};
use crate::{
    api::{keys::DEFAULT_NAMESPACE, time::Time},
    cluster::{Cluster, Failure},
    kube::{
        call::chain,
        connect::{Target, reach},
        lease::Record,
        preflight::PreflightError,
        session::{Session, Terms},
        stop::{Signal, Stop},
    },
    pass,
    report::log,
    rotation::scene::Config,
    surge::PlaceholderSettings,
    view::View,
};

/// How long one command may use the cluster.
const BUDGET: Duration = Duration::from_secs(50);
/// Of the log, only what the operator should know; what the client library says of each try is in the error, too.
const FILTER: &str = "warn,kube_client=off";

/// Which cluster, and how passes on it are set up.
#[derive(Debug, Clone, Args)]
pub struct ReachArgs {
    /// Where the program's Lease and its placeholder Pods live
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_NAMESPACE, value_parser = NonEmptyStringValueParser::new(), env = "NODEROTATION_NAMESPACE", hide_env_values = true)]
    pub namespace: String,

    /// How often passes are started; deadlines leave room for four of them
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span::positive, env = "NODEROTATION_CADENCE", hide_env_values = true)]
    pub cadence: TimeDelta,

    #[command(flatten)]
    connect: ConnectOptions,
}

/// A server, not yet asked for anything.
#[derive(Clone)]
pub struct Reached {
    client: kube::Client,
    /// Its URL, to be named where it doesn't answer.
    server: http::Uri,
}

/// Why a command ends early.
#[derive(Debug)]
pub struct Ended(pub ExitCode);

impl ReachArgs {
    /// What the core has to know of the flags.
    pub fn config(&self) -> Config {
        config(&self.namespace, self.cadence)
    }

    /// A client, by the kubeconfig.
    ///
    /// # Errors
    /// Ends where there is none.
    pub async fn client(&self) -> Result<Reached, Ended> {
        let ConnectOptions { kubeconfig, context, impersonate, .. } = self.connect.clone();
        let reached = reach(&Target { kubeconfig, context, impersonate }).await;
        let (client, server) = reached.map_err(|error| fail(ExitCode::NotConnected, &chain(&error)))?;
        Ok(Reached { client, server })
    }

    /// A session: what is needed is served and readable, and the clock is the server's.
    ///
    /// # Errors
    /// Ends where it isn't so.
    pub async fn session(&self, reached: &Reached, stop: &Stop) -> Result<Session, Ended> {
        let opened = Session::open(reached.client.clone(), self.terms(stop)).await;
        opened.map_err(|error| reached.not_ready(&error))
    }

    fn terms(&self, stop: &Stop) -> Terms {
        let request_timeout = self.connect.request_timeout.map(|limit| limit.to_std().unwrap_or_default());
        Terms { namespace: self.namespace.clone(), deadline: BUDGET, request_timeout, stop: stop.clone() }
    }

    /// All that a pass would see, and the Lease; one round of requests quicker than a session that is proven first.
    ///
    /// # Errors
    /// Ends where something can't be read; the Lease may be unreadable.
    pub async fn look(&self, reached: &Reached, stop: &Stop, config: &Config) -> Result<Look, Ended> {
        let session = Session::begin(reached.client.clone(), self.terms(stop));
        let (proven, view, lease) = futures::join!(session.preflight(), pass::view(&session, config), session.lease());
        // It says better what is missing.
        proven.map_err(|error| reached.not_ready(&error))?;
        let view = view.map_err(|failure| failed(&failure))?;
        Ok(Look { view, lease, now: session.now() })
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Look {
    /// All that a pass would see.
    pub view: View,
    /// The Lease.
    pub lease: Result<Option<Record>, Failure>,
    /// The server's time.
    pub now: Time,
}

impl Reached {
    fn not_ready(&self, error: &PreflightError) -> Ended {
        fail(ExitCode::NotConnected, &format!("{}: {}", self.server, chain(error)))
    }
}

/// What the core has to know: no command of the operator makes a placeholder, so its image is any.
pub fn config(namespace: &str, cadence: TimeDelta) -> Config {
    let image = DEFAULT_PLACEHOLDER_IMAGE.into();
    let placeholder = PlaceholderSettings { namespace: namespace.into(), image, pull_secrets: Vec::new() };
    Config { cadence, placeholder, rehearse: false, max_in_flight: None }
}

/// Says why, and ends.
pub fn fail(code: ExitCode, why: &str) -> Ended {
    eprintln!("error: {why}");
    Ended(code)
}

/// A call that failed.
pub fn failed(failure: &Failure) -> Ended {
    fail(ExitCode::Failed, &failure.to_string())
}

/// Runs a command that talks to the cluster, until it ends or a signal comes.
pub fn run(command: impl AsyncFnOnce(&Stop) -> Result<ExitCode, Ended>) -> ExitCode {
    let clock = crate::clock::Clock::local();
    let filter = std::env::var(log::FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty());
    if let Err(error) = log::init(log::LogFormat::Text, Some(filter.as_deref().unwrap_or(FILTER)), move || clock.now()) {
        return fail(ExitCode::Usage, &chain(&error)).0;
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(ExitCode::Failed, &format!("no runtime: {error}")).0,
    };
    runtime.block_on(async {
        let stop = match Stop::on_signals() {
            Ok(stop) => stop,
            Err(error) => return fail(ExitCode::Failed, &format!("no handler for SIGINT and SIGTERM: {error}")).0,
        };
        let ended = command(&stop).await.unwrap_or_else(|Ended(code)| code);
        match stop.requested() {
            Some(Signal::Interrupt) => ExitCode::Interrupted,
            Some(Signal::Terminate) => ExitCode::Terminated,
            None => ended,
        }
    })
}
