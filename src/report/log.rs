//! Log lines: text or JSON, to standard error, with the time that the pass goes by. Nothing in the core logs; what it has
//! to say are notices and assessments, and the pass makes lines of them.

use std::{
    fmt,
    io::IsTerminal,
    sync::{Arc, OnceLock},
};

use chrono::SecondsFormat;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter,
    filter::ParseError,
    fmt::{MakeWriter, format::Writer, time::FormatTime},
};

use crate::api::time::Time;

/// The environment variable that says what is logged, as `tracing` directives: `debug`, `noderotation=debug,kube=info`.
pub const FILTER_VARIABLE: &str = "NODEROTATION_LOG";
/// What is logged when it is unset.
pub const DEFAULT_FILTER: &str = "warn,noderotation=info";

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// What reads the time for log lines.
type Now = Box<dyn Fn() -> Time + Send + Sync>;

/// The clock of log lines. Before the server's time is known it is the local one; then the pass hands over its own, so that
/// a line's time and the times it speaks of agree.
#[derive(Clone)]
pub struct LogClock(Arc<Clocks>);

struct Clocks {
    local: fn() -> Time,
    server: OnceLock<Now>,
}

impl LogClock {
    /// A clock that goes by the local time for now.
    pub fn new(local: fn() -> Time) -> Self {
        Self(Arc::new(Clocks { local, server: OnceLock::new() }))
    }

    /// Goes by this time from now on; only the first call counts.
    pub fn follow(&self, now: impl Fn() -> Time + Send + Sync + 'static) {
        // A second clock in one pass would be a mistake of ours, and not worth an end of it.
        let _ = self.0.server.set(Box::new(now));
    }

    fn now(&self) -> Time {
        self.0.server.get().map_or_else(self.0.local, |now| now())
    }
}

impl fmt::Debug for LogClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let follows = if self.0.server.get().is_some() { "server" } else { "local" };
        formatter.debug_tuple("LogClock").field(&follows).finish()
    }
}

impl FormatTime for LogClock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&self.now().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The variable can't be read.
    #[error("{FILTER_VARIABLE}={0:?} is no list of directives, such as debug or noderotation=debug,kube=info: {1}")]
    Filter(String, ParseError),
    /// Something else in this process logs already.
    #[error("setting up the log")]
    Taken(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// Starts logging to standard error, for the whole process. `filter` is the value of [`FILTER_VARIABLE`], where it is set.
///
/// # Errors
/// [`Error`]; a filter that can't be read is bad usage.
pub fn init(format: LogFormat, filter: Option<&str>, clock: LogClock) -> Result<(), Error> {
    let filter = filter.filter(|filter| !filter.is_empty()).unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::builder().parse(filter).map_err(|error| Error::Filter(filter.into(), error))?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = !no_colour && std::io::stderr().is_terminal();
    tracing::subscriber::set_global_default(subscriber(format, filter, colour, clock, std::io::stderr))?;
    Ok(())
}

fn subscriber<W>(format: LogFormat, filter: EnvFilter, colour: bool, clock: LogClock, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_timer(clock).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(builder.with_ansi(colour).with_target(false).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_current_span(false).with_span_list(false).finish()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::Mutex,
    };

    use super::*;
    use crate::api::time::parse_annotation;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn local() -> Time {
        parse_annotation("2030-01-02T03:04:05.678Z").unwrap()
    }

    fn lines(format: LogFormat, log: impl FnOnce(&LogClock)) -> String {
        let (written, clock) = (Written::default(), LogClock::new(local));
        let writer = written.clone();
        let filter = EnvFilter::new(DEFAULT_FILTER);
        let subscriber = subscriber(format, filter, false, clock.clone(), move || writer.clone());
        tracing::subscriber::with_default(subscriber, || log(&clock));
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_lines_carry_time_level_words_and_fields() {
        let text = lines(LogFormat::Text, |_| {
            tracing::info!(pool = "web", claim = "web-1", "rotation started");
            tracing::debug!("not told by default");
            tracing::info!(target: "kube", "nor is what libraries say");
            tracing::warn!(target: "kube", "unless it is a warning");
        });
        assert_eq!(
            text,
            "2030-01-02T03:04:05.678Z  INFO rotation started pool=\"web\" claim=\"web-1\"\n\
             2030-01-02T03:04:05.678Z  WARN unless it is a warning\n"
        );
    }

    #[test]
    fn json_lines_carry_the_same_as_one_flat_object() {
        let text = lines(LogFormat::Json, |_| tracing::info!(pool = "web", claims = 3, "looked"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "timestamp": "2030-01-02T03:04:05.678Z", "level": "INFO", "target": "noderotation::report::log::tests",
            "message": "looked", "pool": "web", "claims": 3,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn once_the_servers_time_is_known_lines_go_by_it() {
        let text = lines(LogFormat::Text, |clock| {
            clock.follow(|| parse_annotation("2031-01-01T00:00:00Z").unwrap());
            tracing::info!("after");
        });
        assert_eq!(text, "2031-01-01T00:00:00.000Z  INFO after\n");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named_with_its_variable() {
        let error = init(LogFormat::Text, Some("noderotation=loud"), LogClock::new(local)).unwrap_err();
        assert!(error.to_string().starts_with("NODEROTATION_LOG=\"noderotation=loud\" is no list"), "{error}");
    }
}
