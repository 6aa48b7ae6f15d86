//! One request to the API server: its time limit, what its answer means, and which reads are worth repeating. Writes are
//! never repeated here: what a lost answer means is for those to judge who can read the object again
//! (`execute`, `lease`).

use std::{error::Error as StdError, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::{connect::CONNECT_LIMIT, stop::Stop};
use crate::{clock::Clock, cluster::Failure};

/// A read may take this long.
pub const READ_LIMIT: Duration = Duration::from_secs(15);
/// A write may take this long.
pub const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// How often a request is sent at most while the server asks to come back later (429).
const THROTTLED_TRIES: u32 = 5;
/// How often a read is sent at most while the server fails (5xx).
const FAILING_TRIES: u32 = 3;
/// How often a read is sent at most when the connection breaks.
const BROKEN_TRIES: u32 = 2;
/// What 429 means without `Retry-After`.
const THROTTLED_PAUSE: Duration = Duration::from_secs(1);
/// The pause before a read is repeated, times the tries so far.
const FAILING_PAUSE: Duration = Duration::from_millis(200);
/// How much of a body that isn't a `Status` is quoted.
const QUOTED: usize = 300;

/// How the TLS library calls a server's certificate that no certificate authority of the kubeconfig has signed.
const UNTRUSTED: [&str; 2] = ["UnknownIssuer", "CaUsedAsEndEntity"];
const UNTRUSTED_HINT: &str = "; the kubeconfig's certificate-authority has to be the certificate that signed the server's: kubectl also \
     takes the server's own there, this program doesn't. Put the one in that issued it, beside or instead of the server's";
/// How it calls one that is not valid yet, or no longer.
const UNTIMELY: [&str; 2] = ["certificate not valid yet", "certificate expired"];
const UNTIMELY_HINT: &str = "; if the certificate is good, the clock of this machine is wrong";

/// The API server, as one pass uses it. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    /// Learns the time from every answer.
    pub clock: Arc<Clock>,
    /// The moment at which the pass has to end.
    pub deadline: Instant,
    /// Whether a signal has come.
    pub stop: Stop,
    read_limit: Duration,
    write_limit: Duration,
}

/// Why a request has no good answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server's answer is an error.
    #[error("HTTP {code}: {words}")]
    Status {
        /// HTTP status.
        code: u16,
        /// The `reason` of the `Status` object; empty where there is none.
        reason: String,
        /// The server's words.
        words: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// No answer, or not all of it, in time.
    #[error("no complete answer within {0:?}")]
    Hung(Duration),
    /// The connection can't be made, or broke.
    #[error("{0}")]
    Broken(String),
    /// The answer can't be read.
    #[error("the answer can't be read: {0}")]
    Unreadable(String),
    /// The pass's deadline came first.
    #[error("the pass's deadline came first")]
    Deadline,
    /// A signal came first.
    #[error("a signal came first")]
    Interrupted,
}

impl CallError {
    /// The HTTP status, where the server gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Hung(_) | Self::Broken(_) | Self::Unreadable(_) | Self::Deadline | Self::Interrupted => None,
        }
    }

    /// Whether a write that ended so may have been stored all the same.
    pub fn is_unclear(&self) -> bool {
        match self {
            Self::Status { code, .. } => *code >= 500 || *code == 408,
            Self::Hung(_) | Self::Broken(_) | Self::Unreadable(_) => true,
            Self::Deadline | Self::Interrupted => false,
        }
    }

    /// As the failure of what was attempted.
    pub fn failure(self, attempted: &str) -> Failure {
        match self {
            Self::Deadline => Failure::Deadline(format!("the answer to: {attempted}")),
            Self::Interrupted => Failure::Interrupted(format!("the answer to: {attempted}")),
            other => Failure::Call { attempted: attempted.into(), why: other.to_string() },
        }
    }

    /// How long to wait before the read is sent again; `None`: not again.
    fn read_again_in(&self, tries: u32) -> Option<Duration> {
        match self {
            Self::Status { code: 429, .. } => self.throttled().filter(|_| tries < THROTTLED_TRIES),
            Self::Status { code, retry_after, .. } if *code >= 500 && tries < FAILING_TRIES => {
                Some(retry_after.unwrap_or(FAILING_PAUSE * tries))
            }
            Self::Broken(_) if tries < BROKEN_TRIES => Some(FAILING_PAUSE),
            _ => None,
        }
    }

    fn throttled(&self) -> Option<Duration> {
        match self {
            Self::Status { code: 429, retry_after, .. } => Some(retry_after.unwrap_or(THROTTLED_PAUSE)),
            _ => None,
        }
    }
}

/// What an answer's body goes into.
pub trait Receiver {
    /// The body begins, maybe again: what came before of it doesn't count.
    fn begin(&mut self);

    /// The next piece.
    ///
    /// # Errors
    /// Why it can't be read.
    fn piece(&mut self, piece: &[u8]) -> Result<(), CallError>;

    /// Nothing more comes.
    ///
    /// # Errors
    /// Why that can't have been all.
    fn end(&mut self) -> Result<(), CallError>;
}

#[derive(Default)]
struct Whole(BytesMut);

impl Receiver for Whole {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn piece(&mut self, piece: &[u8]) -> Result<(), CallError> {
        self.0.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), CallError> {
        Ok(())
    }
}

impl Api {
    /// For a pass that has this long.
    pub fn new(client: kube::Client, budget: Duration, stop: Stop) -> Self {
        let deadline = after(budget);
        Self { client, clock: Arc::new(Clock::local()), deadline, stop, read_limit: READ_LIMIT, write_limit: WRITE_LIMIT }
    }

    /// With one limit for every request (`--request-timeout`).
    pub fn limited(mut self, limit: Duration) -> Self {
        (self.read_limit, self.write_limit) = (limit, limit);
        self
    }

    /// Reads, within the deadline; ends at once on a signal. Repeated a little where the server asks to come back
    /// (`Retry-After`), fails (5xx), or the connection breaks.
    ///
    /// # Errors
    /// [`CallError`], the last one.
    pub async fn read(&self, request: &Request<Vec<u8>>) -> Result<Bytes, CallError> {
        let mut whole = Whole::default();
        self.read_into(request, &mut whole).await?;
        Ok(whole.0.freeze())
    }

    /// Reads likewise, piece by piece as the answer arrives.
    ///
    /// # Errors
    /// [`CallError`], the last one.
    pub async fn read_into(&self, request: &Request<Vec<u8>>, receiver: &mut impl Receiver) -> Result<(), CallError> {
        let mut tries = 0;
        loop {
            receiver.begin();
            let error = match self.unless_ended(self.receive(request, self.read_limit, receiver)).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            tries += 1;
            let Some(pause) = error.read_again_in(tries) else { return Err(error) };
            if !self.pause(pause).await {
                return Err(error);
            }
        }
    }

    /// Writes once. An answer is waited for even when a signal or the deadline comes meanwhile: what has been sent may
    /// land, and what has landed is told. Only a 429, which is no answer, makes it be sent again.
    ///
    /// # Errors
    /// [`CallError`]; see [`CallError::is_unclear`].
    pub async fn write(&self, request: &Request<Vec<u8>>) -> Result<Bytes, CallError> {
        let mut tries = 0;
        loop {
            let error = match self.send(request, self.write_limit).await {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            tries += 1;
            let Some(pause) = error.throttled().filter(|_| tries < THROTTLED_TRIES) else { return Err(error) };
            if !self.pause(pause).await {
                return Err(error);
            }
        }
    }

    /// Sends once, with this limit alone.
    ///
    /// # Errors
    /// [`CallError`], any but `Deadline` and `Interrupted`.
    pub async fn send(&self, request: &Request<Vec<u8>>, limit: Duration) -> Result<Bytes, CallError> {
        let mut whole = Whole::default();
        self.receive(request, limit, &mut whole).await?;
        Ok(whole.0.freeze())
    }

    async fn receive(&self, request: &Request<Vec<u8>>, limit: Duration, receiver: &mut impl Receiver) -> Result<(), CallError> {
        let answer = async {
            let response = self.client.send(request.clone().map(kube::client::Body::from)).await.map_err(|error| broken(&error))?;
            let (head, mut body) = response.into_parts();
            // What answers 5xx may be anything on the way, with a clock of its own.
            let date = head.headers.get(header::DATE).filter(|_| !head.status.is_server_error());
            if let Some(date) = date.and_then(|date| date.to_str().ok()) {
                self.clock.hear(date);
            }
            if !head.status.is_success() {
                let body = body.collect_bytes().await.map_err(|error| broken(&error))?;
                return Err(refusal(head.status.as_u16(), &head.headers, &body));
            }
            if let Some(encoding) = encoding(&head.headers) {
                return Err(CallError::Unreadable(format!("it is encoded as {encoding}, which was not asked for; by a proxy on the way?")));
            }
            while let Some(frame) = body.frame().await {
                let Ok(piece) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
                receiver.piece(&piece)?;
            }
            receiver.end()
        };
        tokio::time::timeout(limit, answer).await.unwrap_or(Err(CallError::Hung(limit)))
    }

    /// Waits, unless the deadline or a signal comes first: then `false`, at once where the deadline is nearer.
    pub async fn pause(&self, pause: Duration) -> bool {
        if pause >= self.deadline.saturating_duration_since(Instant::now()) {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            _ = self.stop.wait() => false,
        }
    }

    async fn unless_ended<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        if Instant::now() >= self.deadline {
            return Err(CallError::Deadline);
        }
        tokio::select! {
            biased;
            _ = self.stop.wait() => Err(CallError::Interrupted),
            () = tokio::time::sleep_until(self.deadline) => Err(CallError::Deadline),
            answer = call => answer,
        }
    }
}

/// The whole chain of causes, each said once.
pub fn chain(error: &dyn StdError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = error.source();
    }
    words
}

/// A moment so far from now; a year, where it can't be told.
pub fn after(span: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    Instant::now() + span.min(YEAR)
}

fn broken(error: &kube::Error) -> CallError {
    let mut cause: Option<&dyn StdError> = Some(error);
    while let Some(error) = cause {
        // The connector's own limit; its words would read as if the pass's deadline were meant.
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
            return CallError::Broken(format!("no connection within {CONNECT_LIMIT:?}"));
        }
        cause = error.source();
    }
    let words = match error {
        // The wrapper only says that there is an error.
        kube::Error::Service(cause) => chain(cause.as_ref()),
        kube::Error::HyperError(cause) => chain(cause),
        other => chain(other),
    };
    let has = |signs: [&str; 2]| signs.iter().any(|sign| words.contains(sign));
    let hint = if has(UNTRUSTED) {
        UNTRUSTED_HINT
    } else if has(UNTIMELY) {
        UNTIMELY_HINT
    } else {
        ""
    };
    CallError::Broken(format!("{words}{hint}"))
}

/// How the body is encoded, where it is.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = String::from_utf8_lossy(headers.get(header::CONTENT_ENCODING)?.as_bytes()).trim().to_lowercase();
    (!encoding.is_empty() && encoding != "identity").then_some(encoding)
}

/// What an error answer says: a `Status` object, or any text.
fn refusal(code: u16, headers: &HeaderMap, body: &[u8]) -> CallError {
    let status = serde_json::from_slice::<kube::core::Status>(body).ok();
    let header = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let details = status.as_ref().and_then(|status| status.details.as_ref());
    let seconds = header.or_else(|| details.map(|details| u64::from(details.retry_after_seconds)).filter(|seconds| *seconds > 0));
    let reason = status.as_ref().map(|status| status.reason.clone()).unwrap_or_default();
    let words = match status {
        Some(status) if !status.message.is_empty() => status.message,
        Some(status) if !status.reason.is_empty() => status.reason,
        _ => String::from_utf8_lossy(body).trim().chars().take(QUOTED).collect(),
    };
    CallError::Status { code, reason, words, retry_after: seconds.map(Duration::from_secs) }
}
