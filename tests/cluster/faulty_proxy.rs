//! A proxy before the API server that misbehaves as networks, load balancers and API servers under load do, at random but
//! from a seed: it answers 429 and 500 itself, stores and then answers 504, cuts connections before and after, delivers
//! twice, and lets continuations expire. It makes pages small, so that there are some.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use control_plane::ControlPlane;
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Of a hundred requests, so many go wrong.
const PERCENT: u32 = 8;
/// The Lease goes wrong less often: a release that is lost costs 20 s of passes that do nothing.
const LEASE_PERCENT: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Throttle,
    Fail,
    StoreThenTimeout,
    CutBefore,
    CutAfter,
    Twice,
    Expire,
}

#[derive(Clone)]
pub struct FaultyProxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    client: Client,
    random: Mutex<StdRng>,
    injected: Mutex<BTreeMap<Fault, u32>>,
    calm: AtomicBool,
}

struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl FaultyProxy {
    /// Starts one; who is asked for is told by the token that comes through.
    pub async fn start(plane: &ControlPlane, seed: u64) -> Self {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let state = State {
            client: Client::try_from(config).unwrap(),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            injected: Mutex::default(),
            calm: AtomicBool::new(false),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), state: Arc::new(state) };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let proxy = serving.clone();
                tokio::spawn(async move { proxy.serve(stream).await });
            }
        });
        proxy
    }

    /// A kubeconfig beside this one that leads here.
    pub fn kubeconfig(&self, of: &Path) -> PathBuf {
        let mut config: Value = serde_json::from_slice(&std::fs::read(of).unwrap()).unwrap();
        config["clusters"][0]["cluster"] = json!({"server": format!("http://127.0.0.1:{}", self.port)});
        let path = of.with_extension("faulty");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// From now on nothing goes wrong.
    pub fn calm(&self) {
        self.state.calm.store(true, Ordering::SeqCst);
    }

    /// What went wrong how often.
    pub fn injected(&self) -> BTreeMap<Fault, u32> {
        self.state.injected.lock().unwrap().clone()
    }

    fn draw(&self, request: &Request) -> Option<Fault> {
        if self.state.calm.load(Ordering::SeqCst) {
            return None;
        }
        let (reads, continues) = (request.method == "GET", request.path.contains("continue="));
        let faults: &[Fault] = match (reads, continues) {
            (true, true) => &[Fault::Expire, Fault::Expire, Fault::Fail],
            (true, false) => &[Fault::Throttle, Fault::Fail, Fault::CutBefore, Fault::CutAfter],
            _ => &[Fault::Throttle, Fault::Fail, Fault::StoreThenTimeout, Fault::CutBefore, Fault::CutAfter, Fault::Twice],
        };
        let percent = if request.path.contains("/leases") { LEASE_PERCENT } else { PERCENT };
        let mut random = self.state.random.lock().unwrap();
        let fault = random.random_ratio(percent, 100).then(|| faults[random.random_range(0..faults.len())])?;
        *self.state.injected.lock().unwrap().entry(fault).or_default() += 1;
        Some(fault)
    }

    async fn serve(&self, mut stream: TcpStream) {
        while let Some(mut request) = read(&mut stream).await {
            // Small pages; Events are many.
            let page = if request.path.contains("/events") { "limit=100" } else { "limit=2" };
            request.path = request.path.replace("limit=500", page);
            let own = |code: u16, reason: &str| {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "a fault"});
                (code, format!("retry-after: {}\r\n", u8::from(code == 429)), status.to_string().into_bytes())
            };
            let answer = match self.draw(&request) {
                Some(Fault::CutBefore) => return,
                Some(Fault::CutAfter) => {
                    self.forward(&request).await;
                    return;
                }
                Some(Fault::Throttle) => own(429, "TooManyRequests"),
                Some(Fault::Fail) => own(500, "InternalError"),
                Some(Fault::Expire) => own(410, "Expired"),
                Some(Fault::StoreThenTimeout) => {
                    self.forward(&request).await;
                    own(504, "Timeout")
                }
                Some(Fault::Twice) => {
                    self.forward(&request).await;
                    self.forward(&request).await
                }
                None => self.forward(&request).await,
            };
            let (code, headers, body) = answer;
            let head = format!("HTTP/1.1 {code} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
            if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
                return;
            }
        }
    }

    /// Status, headers and body of the API server's answer.
    async fn forward(&self, request: &Request) -> (u16, String, Vec<u8>) {
        let mut forwarded = http::Request::builder().method(request.method.as_str()).uri(&request.path);
        for (name, value) in &request.headers {
            if ["authorization", "accept", "content-type", "user-agent"].contains(&name.as_str()) {
                forwarded = forwarded.header(name, value);
            }
        }
        let forwarded = forwarded.body(Body::from(request.body.clone())).unwrap();
        let (head, body) = self.state.client.send(forwarded).await.unwrap().into_parts();
        let kept = ["date", "content-type"].into_iter().filter_map(|name| {
            let value = head.headers.get(name)?.to_str().ok()?;
            Some(format!("{name}: {value}\r\n"))
        });
        (head.status.as_u16(), kept.collect(), body.collect_bytes().await.unwrap().to_vec())
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let pairs = head.lines().filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, length)| length.parse().unwrap());
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    let mut line = head.lines().next()?.split(' ');
    Some(Request { method: line.next()?.into(), path: line.next()?.into(), headers, body: bytes })
}
