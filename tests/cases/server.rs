//! An API server of sockets and bytes, for what goes wrong below HTTP: it answers what a test says, or stops answering.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub body: Value,
}

/// What it is answered.
pub enum Reply {
    Json(u16, Value),
    /// Another body, with these header lines.
    Text(u16, String, &'static str),
    /// Nothing, ever.
    Silence,
    /// The head and a part of the body, then nothing.
    Stall,
    /// These bytes, head included, one piece after the other with a pause before each; then the connection is closed.
    Raw(Vec<Vec<u8>>, Duration),
}

type Answer = dyn Fn(&Request) -> Option<Reply> + Send + Sync;

/// A server on loopback, for as long as the test's runtime lives.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    requests: Mutex<Vec<Request>>,
    lease: Mutex<Option<Value>>,
    /// Comes before the cluster's own answer.
    answer: Box<Answer>,
}

impl Server {
    /// Serves an empty cluster, except for what the test answers itself.
    pub async fn start(answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::serve(None, answer).await
    }

    /// The same by TLS.
    pub async fn start_tls(config: rustls::ServerConfig, answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::serve(Some(TlsAcceptor::from(Arc::new(config))), answer).await
    }

    async fn serve(tls: Option<TlsAcceptor>, answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { requests: Mutex::default(), lease: Mutex::default(), answer: Box::new(answer) });
        let server = Self { port, state };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => server.connection(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                server.connection(stream).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// The Lease as it is stored.
    pub fn lease(&self) -> Value {
        self.state.lease.lock().unwrap().clone().unwrap_or_default()
    }

    async fn connection(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        while let Some(request) = read(&mut stream).await {
            self.state.requests.lock().unwrap().push(request.clone());
            let reply = (self.state.answer)(&request).unwrap_or_else(|| self.cluster(&request));
            let (code, body, kind) = match reply {
                Reply::Json(code, body) => (code, body.to_string(), "content-type: application/json".to_owned()),
                Reply::Text(code, headers, body) => (code, body.to_owned(), headers),
                Reply::Silence => return tokio::time::sleep(Duration::from_secs(600)).await,
                Reply::Stall => {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"items\": [";
                    stream.write_all(head.as_bytes()).await.unwrap();
                    return tokio::time::sleep(Duration::from_secs(600)).await;
                }
                Reply::Raw(pieces, pause) => {
                    for piece in pieces {
                        if !pause.is_zero() {
                            tokio::time::sleep(pause).await;
                        }
                        if stream.write_all(&piece).await.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                    }
                    let _ = stream.shutdown().await;
                    return;
                }
            };
            let head =
                format!("HTTP/1.1 {code} X\r\ndate: Mon, 30 Nov 2026 07:00:00 GMT\r\n{kind}\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// A cluster with nothing in it but the Lease.
    fn cluster(&self, request: &Request) -> Reply {
        let mut lease = self.state.lease.lock().unwrap();
        let is_lease = request.path.contains("/leases");
        match request.method.as_str() {
            "POST" if is_lease => {
                let mut created = request.body.clone();
                created["metadata"]["resourceVersion"] = json!("1");
                *lease = Some(created.clone());
                Reply::Json(201, created)
            }
            "PATCH" if is_lease => {
                let mut patched = lease.clone().unwrap_or_default();
                for part in ["/spec", "/metadata/annotations"] {
                    for (key, value) in request.body.pointer(part).and_then(Value::as_object).into_iter().flatten() {
                        let (outer, inner) = part[1..].split_once('/').unwrap_or((&part[1..], ""));
                        let into = if inner.is_empty() { &mut patched[outer] } else { &mut patched[outer][inner] };
                        into[key] = value.clone();
                    }
                }
                *lease = Some(patched.clone());
                Reply::Json(200, patched)
            }
            "GET" if is_lease => match lease.clone() {
                Some(lease) => Reply::Json(200, lease),
                None => Reply::Json(404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no Lease"})),
            },
            "GET" => Reply::Json(200, json!({"kind": "List", "metadata": {}, "items": []})),
            _ => Reply::Json(200, request.body.clone()),
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let header = |name: &str| {
        let of = head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
        of.map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    let mut line = head.lines().next()?.split(' ');
    let (method, path) = (line.next()?.to_owned(), line.next()?.to_owned());
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Some(Request { method, path, authorization: header("authorization"), body })
}
