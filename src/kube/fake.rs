//! A small API server for this module's tests: objects with versions, conflicts, preconditions, pages; and faults that
//! are queued per method.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::{
    resource::PODS,
    session::{Session, Terms},
    stop::Stop,
};
use crate::{
    api::time::{Time, parse_annotation},
    rotation::tests::fleet::merge,
};

/// What goes wrong with one request.
pub enum Fault {
    /// This answer; nothing is stored.
    Answer(u16, Value),
    /// This `Retry-After`, with 429.
    Throttle(u64),
    /// It is stored, and the connection breaks.
    LoseAnswer,
    /// The connection breaks before it is stored.
    LoseRequest,
    /// No answer ever.
    Hang,
    /// It is delivered twice; the second delivery is answered.
    Twice,
    /// This happens just before.
    First(Box<dyn FnOnce(&mut Store) + Send>),
}

#[derive(Default)]
pub struct Store {
    /// By path.
    pub objects: BTreeMap<String, Value>,
    /// The server's time; no `Date` header without it.
    pub now: Option<Time>,
    /// The most items of a page.
    pub page: Option<usize>,
    version: u64,
    /// `METHOD path?query`, in order.
    log: Vec<String>,
    faults: VecDeque<(&'static str, Fault)>,
    /// Lists select by `spec.nodeName`, and what is created gets a UID, as on a real server.
    pub strict: bool,
    /// Judges every write before it is done; answers what is wrong with it.
    pub judge: Option<fn(&Store, &Write<'_>) -> Option<String>>,
    /// What the judge found.
    pub forbidden: Vec<String>,
}

/// A write, as it arrives.
pub struct Write<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub dry_run: bool,
    pub body: &'a Value,
}

#[derive(Clone)]
pub struct Fake(Arc<Mutex<Store>>);

pub fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

impl Fake {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Store { now: Some(at("2026-11-30T07:00:00Z")), ..Store::default() })))
    }

    pub fn with(self, path: &str, object: Value) -> Self {
        self.store(|store| store.put(path, object));
        self
    }

    pub fn store<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.store(|store| store.objects.get(path).cloned())
    }

    /// The next request with this method fails so.
    pub fn fault(&self, method: &'static str, fault: Fault) {
        self.store(|store| store.faults.push_back((method, fault)));
    }

    /// The requests with this method since the last call, without queries.
    pub fn sent(&self, method: &str) -> Vec<String> {
        let log = self.store(|store| std::mem::take(&mut store.log));
        let of_method = log.iter().filter_map(|line| line.strip_prefix(method)?.strip_prefix(' '));
        of_method.map(|line| line.split('?').next().unwrap().to_owned()).collect()
    }

    /// All requests since the last call.
    pub fn log(&self) -> Vec<String> {
        self.store(|store| std::mem::take(&mut store.log))
    }

    pub fn client(&self) -> kube::Client {
        let fake = self.clone();
        kube::Client::new(tower::service_fn(move |request| answer(fake.clone(), request)), "default")
    }

    /// A pass that holds the Lease in `ns`.
    pub async fn session(&self) -> Session {
        let mut session = Session::open(self.client(), self.terms()).await.unwrap();
        assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
        self.log();
        session
    }

    pub fn terms(&self) -> Terms {
        Terms { namespace: "ns".into(), deadline: Duration::from_secs(50), request_timeout: None, stop: Stop::never() }
    }
}

impl Store {
    pub fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.into(), object);
    }

    /// As [`Store::act`]; a dry run leaves no trace.
    fn handle(&mut self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let dry = query.contains("dryRun=All") || body["dryRun"] == json!(["All"]);
        if let Some(judge) = self.judge.filter(|_| method != "GET") {
            self.forbidden.extend(judge(self, &Write { method, path, dry_run: dry, body }));
        }
        let before = dry.then(|| (self.objects.clone(), self.version));
        let answer = self.act(method, path, query, body);
        if let Some(before) = before {
            (self.objects, self.version) = before;
        }
        answer
    }

    fn act(&mut self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let stored = self.objects.get(path).cloned();
        match (method, stored) {
            ("GET", Some(object)) => (200, object),
            ("GET", None) if is_collection(path) => self.list(path, query),
            ("POST", _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return status(409, "AlreadyExists", "it exists");
                }
                let mut created = body.clone();
                if self.strict {
                    created["metadata"]["uid"] = json!(format!("uid-of-{}", self.version + 1));
                }
                self.put(&path, created);
                (201, self.objects[&path].clone())
            }
            (_, None) => status(404, "NotFound", "no such object"),
            ("PATCH", Some(mut object)) => {
                let wanted = &body["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
                    return status(409, "Conflict", "the object has been modified");
                }
                merge(&mut object, body);
                self.put(path, object.clone());
                (200, self.objects[path].clone())
            }
            ("DELETE", Some(mut object)) => {
                let wanted = &body["preconditions"]["uid"];
                if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                    return status(409, "Conflict", "Precondition failed: UID in precondition");
                }
                self.objects.remove(path);
                object["metadata"]["deletionTimestamp"] = json!("2026-11-30T07:00:00Z");
                if object["metadata"]["finalizers"].is_array() {
                    self.put(path, object.clone());
                }
                (200, object)
            }
            (other, _) => panic!("unexpected {other} {path}"),
        }
    }

    fn list(&self, path: &str, query: &str) -> (u16, Value) {
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let label = parameter("labelSelector").map(|selector| selector.replace("%2F", "/").replace("%3D", "="));
        let chosen = |object: &&Value| match &label {
            None => true,
            Some(label) => match label.split_once('=') {
                Some((key, value)) => object["metadata"]["labels"][key] == value,
                None => !object["metadata"]["labels"][label].is_null(),
            },
        };
        let node = parameter("fieldSelector")
            .filter(|_| self.strict)
            .and_then(|selector| selector.strip_prefix("spec.nodeName%3D").map(str::to_owned));
        let of_node = |object: &&Value| node.as_ref().is_none_or(|node| object["spec"]["nodeName"] == **node);
        let prefix = format!("{path}/");
        // Those of all namespaces.
        let everywhere = path == PODS;
        let within = |of: &str| if everywhere { of.contains("/pods/") } else { of.starts_with(&prefix) };
        let below = self.objects.iter().filter(|(path, _)| within(path)).map(|(_, object)| object);
        let all: Vec<&Value> = below.filter(chosen).filter(of_node).collect();
        let from: usize = parameter("continue").map_or(0, |token| token.parse().unwrap());
        let limit: usize = parameter("limit").map_or(500, |limit| limit.parse().unwrap());
        let to = all.len().min(from + self.page.unwrap_or(limit).min(limit));
        let next = if to < all.len() { to.to_string() } else { String::new() };
        (200, json!({"kind": "List", "metadata": {"continue": next}, "items": all[from..to]}))
    }
}

fn is_collection(path: &str) -> bool {
    let collections = ["nodepools", "nodeclaims", "rotationpolicies", "pods", "nodes", "events", "poddisruptionbudgets"];
    collections.iter().any(|plural| path.rsplit('/').next() == Some(plural))
}

pub fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}))
}

/// A fault that answers with an error of the API server.
pub fn refuse(code: u16, message: &str) -> Fault {
    Fault::Answer(code, status(code, "", message).1)
}

async fn answer(fake: Fake, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (method, path, query) =
        (head.method.as_str().to_owned(), head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    let (fault, now) = fake.store(|store| {
        store.log.push(format!("{method} {path}?{query}"));
        let due = store.faults.front().is_some_and(|(of, _)| *of == method);
        (if due { store.faults.pop_front() } else { None }, store.now)
    });
    let handle = || fake.store(|store| store.handle(&method, &path, &query, &body));
    let mut retry_after = None;
    let (code, body) = match fault.map(|(_, fault)| fault) {
        None => handle(),
        Some(Fault::Answer(code, body)) => (code, body),
        Some(Fault::Throttle(seconds)) => {
            retry_after = Some(seconds);
            status(429, "TooManyRequests", "slow down")
        }
        Some(Fault::LoseAnswer) => {
            handle();
            return Err("connection reset".into());
        }
        Some(Fault::LoseRequest) => return Err("connection refused".into()),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Twice) => {
            handle();
            handle()
        }
        Some(Fault::First(act)) => {
            fake.store(act);
            handle()
        }
    };
    let mut response = Response::builder().status(code);
    if let Some(now) = now {
        response = response.header("Date", now.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
    }
    if let Some(seconds) = retry_after {
        response = response.header("Retry-After", seconds);
    }
    Ok(response.body(Body::from(body.to_string().into_bytes()))?)
}
