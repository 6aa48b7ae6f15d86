//! Carries the metrics of a pass to a Pushgateway and into a file. A one-shot process can't be scraped; since its counters
//! are durable (§7), a push that is lost costs nothing: the next pass brings the same numbers.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use prometheus::TEXT_FORMAT;
use reqwest::{Client, Method, StatusCode, Url, header::CONTENT_TYPE, redirect::Policy};

use super::{
    grouping::{self, Grouping},
    metrics::Extent,
};
use crate::{api::keys::PROGRAM, tls};

/// How long a push may take.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// So many redirects are followed.
const REDIRECTS: usize = 3;

/// A Pushgateway and the group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    group: Url,
}

/// Why an address is not a Pushgateway's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not the address of a Pushgateway, such as http://pushgateway.monitoring:9091: {why}")]
pub struct AddressError {
    address: String,
    why: String,
}

/// Why the metrics were not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway could not be reached, or did not answer in time.
    #[error("pushing metrics to {group}")]
    Send {
        /// The group, without credentials.
        group: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The gateway answered, and refused.
    #[error("pushing metrics to {group}: the Pushgateway answers {status}: {words}")]
    Refused {
        /// The group, without credentials.
        group: String,
        /// Its status.
        status: StatusCode,
        /// Its words, shortened.
        words: String,
    },
    /// The file could not be written.
    #[error("writing metrics to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Gateway {
    /// The group that this program and these labels make at an address, which may carry a path and credentials.
    ///
    /// # Errors
    /// [`AddressError`] for anything but an http or https address without query and fragment.
    pub fn new(address: &str, labels: &[Grouping]) -> Result<Self, AddressError> {
        // What stands before an @ may be a password, whatever else is wrong.
        let shown = address.rsplit_once('@').map_or(address, |(_, rest)| rest);
        let wrong = |why: String| AddressError { address: shown.into(), why };
        let mut group = Url::parse(address).map_err(|error| wrong(error.to_string()))?;
        if !matches!(group.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".into()));
        }
        if group.query().is_some() || group.fragment().is_some() {
            return Err(wrong("it must end before any ? or #".into()));
        }
        let path = format!("{}/{}", group.path().trim_end_matches('/'), grouping::path(PROGRAM, labels));
        group.set_path(&path);
        Ok(Self { group })
    }

    /// Pushes a pass's metrics: replaces the group after a complete pass, else adds to it (§8).
    ///
    /// # Errors
    /// [`Error`] for the log; it must not change what the pass ends with.
    pub async fn push(&self, extent: Extent, text: String) -> Result<(), Error> {
        let method = match extent {
            Extent::Complete => Method::PUT,
            Extent::PoolsFailed | Extent::NoView => Method::POST,
            Extent::HeldElsewhere => return Ok(()),
        };
        let failed = |source: reqwest::Error| Error::Send { group: self.shown(), source: source.without_url() };
        tls::choose_provider();
        let client = Client::builder().timeout(TIMEOUT).connect_timeout(TIMEOUT).redirect(redirects()).build().map_err(failed)?;
        let request = client.request(method, self.group.clone()).header(CONTENT_TYPE, TEXT_FORMAT).body(text);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let words = response.text().await.unwrap_or_default();
        Err(Error::Refused { group: self.shown(), status, words: words.trim().chars().take(500).collect() })
    }

    /// The group for logs: without user and password.
    fn shown(&self) -> String {
        let mut group = self.group.clone();
        // Both succeed on every http address.
        let _ = group.set_username("");
        let _ = group.set_password(None);
        group.into()
    }
}

/// Only redirects that keep method and body. After any other the push would become a GET: of the login page of a proxy, say,
/// which answers well and has stored nothing.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if keeps && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// Where the metrics are written besides: for a node-exporter's textfile collector, or to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsFile {
    /// Standard output, given as `-`.
    Stdout,
    /// This file.
    Path(PathBuf),
}

impl From<&str> for MetricsFile {
    fn from(text: &str) -> Self {
        if text == "-" { Self::Stdout } else { Self::Path(text.into()) }
    }
}

impl MetricsFile {
    /// Writes the text. A file is written beside and renamed, so that no collector ever reads half of it.
    ///
    /// # Errors
    /// [`Error::Write`] for the log; it must not change what the pass ends with.
    pub fn write(&self, text: &str) -> Result<(), Error> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout
                    .write_all(text.as_bytes())
                    .and_then(|()| stdout.flush())
                    .map_err(|source| Error::Write { path: "standard output".into(), source })
            }
            Self::Path(path) => replace(path, text).map_err(|source| Error::Write { path: path.clone(), source }),
        }
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    // The textfile collector reads *.prom only; the process id keeps two passes apart.
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| std::fs::rename(&beside, path));
    if replaced.is_err() {
        // What is told is why it could not be written; that the rest stays is no second error.
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}

#[cfg(test)]
mod tests;
