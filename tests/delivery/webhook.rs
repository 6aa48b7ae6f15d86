//! A receiver of alerts: it answers every POST, and remembers what was in it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A running receiver; ends when dropped.
pub struct Webhook {
    url: String,
    alerts: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Webhook {
    /// Listens on a free port of loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let alerts = Arc::new(Mutex::new(Vec::new()));
        let stored = alerts.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, stored.clone()));
            }
        });
        Self { url, alerts, task }
    }

    /// Where to send to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The status of each message about an alert so far, oldest first: `firing` or `resolved`.
    pub fn told(&self, alert: &str) -> Vec<String> {
        let alerts = self.alerts.lock().unwrap();
        let of_it = alerts.iter().filter(|told| told["labels"]["alertname"] == alert);
        of_it.map(|told| told["status"].as_str().unwrap().to_owned()).collect()
    }

    /// The last message about an alert.
    pub fn last(&self, alert: &str) -> Option<Value> {
        self.alerts.lock().unwrap().iter().rfind(|told| told["labels"]["alertname"] == alert).cloned()
    }

    /// Whether the last that was told of it has this status.
    pub fn is(&self, alert: &str, status: &str) -> bool {
        self.last(alert).is_some_and(|told| told["status"] == status)
    }

    /// Waits for a condition while `meanwhile` is done again and again.
    pub async fn until(&self, what: &str, mut meanwhile: impl AsyncFnMut(), done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < Duration::from_secs(180), "not within 3 minutes: {what}; told so far: {:#?}", self.alerts.lock());
            meanwhile().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, alerts: Arc<Mutex<Vec<Value>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            match line.trim().to_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(_) => {}
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let message: Value = serde_json::from_slice(&body).ok()?;
        alerts.lock().unwrap().extend(message["alerts"].as_array().unwrap().iter().cloned());
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.ok()?;
    }
}
