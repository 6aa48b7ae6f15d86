//! Faults between the program and the API server: a `tower` layer that lets requests go wrong, by a plan or by a seed.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use kube::client::Body;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;
use tower::{BoxError, Layer, Service, ServiceExt};

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before anything is stored.
    LostRequest,
    /// It is stored, and the connection breaks before the answer.
    LostAnswer,
    /// It is delivered twice; the second delivery is answered.
    Repeated,
    /// It is answered so, and nothing is stored.
    Refused(u16),
    /// It is stored, and answered so.
    StoredAnd(u16),
    /// 429 with this `Retry-After`, in seconds.
    Throttled(u64),
    /// The answer takes so long.
    Slow(Duration),
    /// It is stored so much later, whether anybody waits or not.
    Late(Duration),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostRequest => write!(formatter, "lost"),
            Self::LostAnswer => write!(formatter, "its answer lost"),
            Self::Repeated => write!(formatter, "delivered twice"),
            Self::Refused(code) => write!(formatter, "refused with {code}"),
            Self::StoredAnd(code) => write!(formatter, "stored and answered with {code}"),
            Self::Throttled(seconds) => write!(formatter, "throttled for {seconds}s"),
            Self::Slow(delay) => write!(formatter, "answered {delay:?} later"),
            Self::Late(delay) => write!(formatter, "stored {delay:?} later"),
        }
    }
}

/// Faults that any request may meet.
const ANY: [Fault; 13] = [
    Fault::LostRequest,
    Fault::LostAnswer,
    Fault::Repeated,
    Fault::Refused(403),
    Fault::Refused(409),
    Fault::Refused(410),
    Fault::Refused(422),
    Fault::Throttled(2),
    Fault::Refused(500),
    Fault::Refused(504),
    Fault::StoredAnd(504),
    Fault::Slow(Duration::from_secs(3)),
    Fault::Slow(Duration::from_secs(25)),
];

/// Which requests go wrong.
#[derive(Debug, Clone)]
pub enum Plan {
    /// The one with this number, from 0 on.
    At(usize, Fault),
    /// One in so many, chosen by the seed as is what happens to it.
    Seeded {
        /// The seed's numbers.
        rng: Pcg64Mcg,
        /// One in so many.
        one_in: u32,
    },
}

impl Plan {
    /// Faults by this seed.
    pub fn seeded(seed: u64, one_in: u32) -> Self {
        Self::Seeded { rng: Pcg64Mcg::seed_from_u64(seed), one_in }
    }

    fn next(&mut self, number: usize) -> Option<Fault> {
        match self {
            Self::At(wanted, fault) => (*wanted == number).then_some(*fault),
            Self::Seeded { rng, one_in } => (*one_in > 0 && rng.random_ratio(1, *one_in)).then(|| ANY[rng.random_range(0..ANY.len())]),
        }
    }
}

/// What was asked, and what went wrong with it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// What went wrong.
    pub fault: Option<Fault>,
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.method, self.uri)?;
        match self.fault {
            Some(fault) => write!(formatter, " ({fault})"),
            None => Ok(()),
        }
    }
}

/// The layer. Clones share the plan and the log.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Mutex<Record>>);

#[derive(Debug)]
struct Record {
    plan: Plan,
    seen: Vec<Seen>,
}

impl Faults {
    /// Faults by this plan.
    pub fn new(plan: Plan) -> Self {
        Self(Arc::new(Mutex::new(Record { plan, seen: Vec::new() })))
    }

    /// What was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    fn meet(&self, request: &Request<Body>) -> Option<Fault> {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = record.seen.len();
        let fault = record.plan.next(number);
        record.seen.push(Seen { method: request.method().clone(), uri: request.uri().to_string(), fault });
        fault
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { inner, faults: self.clone() }
    }
}

/// A service whose requests go wrong.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request is sent on a copy, which is asked then.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = self.faults.meet(&request);
        let inner = self.inner.clone();
        async move {
            match fault {
                None => inner.oneshot(request).await,
                Some(fault) => go_wrong(inner, request, fault).await,
            }
        }
        .boxed()
    }
}

async fn go_wrong<S>(inner: S, request: Request<Body>, fault: Fault) -> Result<Response<Body>, BoxError>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let send = || inner.clone().oneshot(Request::from_parts(head.clone(), Body::from(body.clone())));
    match fault {
        Fault::LostRequest => Err("connection refused".into()),
        Fault::LostAnswer => {
            send().await?;
            Err("connection reset".into())
        }
        Fault::Repeated => {
            send().await?;
            send().await
        }
        Fault::Refused(code) => refusal(code, None),
        Fault::StoredAnd(code) => {
            send().await?;
            refusal(code, None)
        }
        Fault::Throttled(seconds) => refusal(429, Some(seconds)),
        Fault::Slow(delay) => {
            let answer = send().await;
            tokio::time::sleep(delay).await;
            answer
        }
        Fault::Late(delay) => {
            let late = send();
            let sending = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                late.await
            });
            sending.await?
        }
    }
}

fn refusal(code: u16, retry_after: Option<u64>) -> Result<Response<Body>, BoxError> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("a fault of the test: {code}"), "reason": reason, "code": code,
    });
    let mut response = Response::builder().status(code).header("Content-Type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("Retry-After", seconds);
    }
    Ok(response.body(Body::from(status.to_string().into_bytes()))?)
}
