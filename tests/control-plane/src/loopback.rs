//! Ports on loopback, and whether something answers there.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Attempt, Error};

const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// `N` different ports that are free now. Another process may take one before it is used: whoever starts something
/// with them starts again with others then.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N); // all at once, so that they differ
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).attempt(|| "find a free port".into())?;
        *port = listener.local_addr().attempt(|| "find a free port".into())?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether `GET path` at this port is answered with 200.
pub(crate) async fn answers_ok(port: u16, path: &str) -> bool {
    matches!(get(port, path).await, Ok((200, _)))
}

/// The status and body that `GET path` at this port is answered with.
pub(crate) async fn get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    ask(port, "GET", path, "").await
}

/// The same of `POST path` with a body.
pub(crate) async fn post(port: u16, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    ask(port, "POST", path, body).await
}

async fn ask(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(ANSWER_LIMIT, ask).await??;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("the answer is not HTTP"))?;
    Ok((status, body.to_owned()))
}
