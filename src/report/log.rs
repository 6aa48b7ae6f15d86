//! Log lines: text or JSON, to standard error, with the time that the pass goes by. Nothing in the core logs; what it has
//! to say are notices and assessments, and the pass makes lines of them.

use std::{fmt, io::IsTerminal};

use chrono::SecondsFormat;
use tracing::Subscriber;
use tracing_subscriber::{
    filter::{ParseError, Targets},
    fmt::{MakeWriter, format::Writer, time::FormatTime},
    layer::SubscriberExt,
};

use crate::api::time::Time;

/// The environment variable that says what is logged, as `tracing` directives: `debug`, `noderotation=debug,kube=info`.
pub const FILTER_VARIABLE: &str = "NODEROTATION_LOG";
/// What is logged when it is unset. The client library tells each try that fails; we tell what came of it.
pub const DEFAULT_FILTER: &str = "warn,kube_client=off,noderotation=info";

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// The clock of log lines: the pass's own, so that a line's time and the times it speaks of agree.
struct Timer<N>(N);

impl<N: Fn() -> Time> FormatTime for Timer<N> {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&(self.0)().to_rfc3339_opts(SecondsFormat::Millis, true))
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

/// Starts logging to standard error, for the whole process. `filter` is the value of [`FILTER_VARIABLE`], where it is set;
/// `now` reads the pass's clock.
///
/// # Errors
/// [`Error`]; a filter that can't be read is bad usage.
pub fn init(format: LogFormat, filter: Option<&str>, now: impl Fn() -> Time + Send + Sync + 'static) -> Result<(), Error> {
    let filter = filter.filter(|filter| !filter.is_empty()).unwrap_or(DEFAULT_FILTER);
    let filter: Targets = filter.parse().map_err(|error| Error::Filter(filter.into(), error))?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = !no_colour && std::io::stderr().is_terminal();
    tracing::subscriber::set_global_default(subscriber(format, filter, colour, now, std::io::stderr))?;
    Ok(())
}

fn subscriber<N, W>(format: LogFormat, filter: Targets, colour: bool, now: N, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    N: Fn() -> Time + Send + Sync + 'static,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_timer(Timer(now)).with_writer(writer);
    match format {
        LogFormat::Text => Box::new(registry.with(lines.with_ansi(colour).with_target(false))),
        LogFormat::Json => Box::new(registry.with(lines.json().flatten_event(true).with_current_span(false).with_span_list(false))),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
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

    fn now() -> Time {
        parse_annotation("2030-01-02T03:04:05.678Z").unwrap()
    }

    fn lines(format: LogFormat, log: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = subscriber(format, DEFAULT_FILTER.parse().unwrap(), false, now, move || writer.clone());
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_lines_carry_time_level_words_and_fields() {
        let text = lines(LogFormat::Text, || {
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
        let text = lines(LogFormat::Json, || tracing::info!(pool = "web", claims = 3, "looked"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "timestamp": "2030-01-02T03:04:05.678Z", "level": "INFO", "target": "noderotation::report::log::tests",
            "message": "looked", "pool": "web", "claims": 3,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named_with_its_variable() {
        let error = init(LogFormat::Text, Some("noderotation=loud"), now).unwrap_err();
        assert!(error.to_string().starts_with("NODEROTATION_LOG=\"noderotation=loud\" is no list"), "{error}");
    }
}
