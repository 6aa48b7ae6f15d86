//! Holds a pass before one of its requests, until told to let it go on.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Service, ServiceExt};

const DRY: &[u8] = br#""dryRun":["All"]"#;

/// The gate of one pass.
#[derive(Clone)]
pub struct Gate {
    before: usize,
    seen: Arc<Mutex<Vec<String>>>,
    reached: watch::Sender<bool>,
    ended: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Holds the request with this number, from 0 on, and all after it.
    pub fn before(number: usize) -> Self {
        let flag = || watch::Sender::new(false);
        Self { before: number, seen: Arc::default(), reached: flag(), ended: flag(), open: flag() }
    }

    /// Holds none.
    pub fn open_to_all() -> Self {
        Self::before(usize::MAX)
    }

    /// A client whose requests go through it.
    pub fn client<S>(&self, service: S) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        let gate = self.clone();
        let held = move |request: Request<Body>| {
            let (gate, service) = (gate.clone(), service.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                // A DELETE says so in its body.
                let dry = if body.windows(DRY.len()).any(|part| part == DRY) { " dryRun=All" } else { "" };
                gate.meet(format!("{} {}{dry}", head.method, head.uri)).await;
                service.oneshot(Request::from_parts(head, Body::from(body))).await
            }
        };
        kube::Client::new(tower::service_fn(held), "default")
    }

    async fn meet(&self, line: String) {
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(line);
            seen.len() - 1
        };
        if number >= self.before {
            self.reached.send_replace(true);
            wait(&self.open).await;
        }
    }

    /// The pass is over.
    pub fn end(&self) {
        self.ended.send_replace(true);
        self.reached.send_replace(true);
    }

    /// Waits until the pass is held, or over.
    pub async fn reached(&self) {
        wait(&self.reached).await;
    }

    /// Waits until the pass is over.
    pub async fn ended(&self) {
        wait(&self.ended).await;
    }

    /// Lets it go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// What was asked.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn wait(flag: &watch::Sender<bool>) {
    flag.subscribe().wait_for(|flag| *flag).await.unwrap();
}

/// Numbers of the requests that write, but for Leases, Events, the status of policies and dry runs.
pub fn writes(seen: &[String]) -> Vec<usize> {
    let is_write = |line: &str| {
        ["POST", "PATCH", "DELETE"].iter().any(|method| line.starts_with(method))
            && !["/leases", "/events", "/rotationpolicies", "dryRun=All"].iter().any(|other| line.contains(other))
    };
    seen.iter().enumerate().filter(|(_, line)| is_write(line)).map(|(number, _)| number).collect()
}
