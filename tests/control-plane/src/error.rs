//! What can go wrong, and what was being attempted when it did.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A failure of the harness. `Debug` prints the same text as `Display` with its causes, so that `unwrap` in a test is readable.
#[derive(thiserror::Error)]
pub enum Error {
    /// A file, folder, port or process of this machine.
    #[error("cannot {attempt}")]
    Local {
        /// What was attempted.
        attempt: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The API server's answer, or the way to it.
    #[error("cannot {attempt}")]
    Api {
        /// What was attempted.
        attempt: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A program that was run to its end and failed.
    #[error("{command} failed with {status}:\n{output}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// A program that should have gone on running.
    #[error("{program} ended while starting, with {status}; the end of its log:\n{log}")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// Something awaited did not come.
    #[error("{what}: not within {after:?}\n{state}")]
    Timeout {
        /// What was awaited.
        what: String,
        /// For how long.
        after: Duration,
        /// What there was instead.
        state: String,
    },
    /// A program that is not installed.
    #[error("{program} is missing: `make tools` installs it")]
    MissingTool {
        /// The program.
        program: &'static str,
    },
    /// Something that cannot be read as what it should be.
    #[error("cannot read {what}: {why}")]
    Unreadable {
        /// What was read.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// Whether another process took a port between its choice and its use, so that starting again makes sense.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, Error::Ended { log, .. } if log.contains("address already in use"))
    }
}

/// For the predicates of tests, which ask the API server themselves.
impl From<kube::Error> for Error {
    fn from(source: kube::Error) -> Error {
        Error::Api { attempt: "ask the API server".into(), source: Box::new(source) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Names what was attempted.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempt<T> for Result<T, io::Error> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Local { attempt: what(), source })
    }
}

impl<T> Attempt<T> for Result<T, kube::Error> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Api { attempt: what(), source: Box::new(source) })
    }
}
