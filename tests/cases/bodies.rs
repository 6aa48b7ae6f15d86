//! How the bodies of lists may arrive: in dribs, in chunks of any size, encoded by a proxy, or not to their end. What has not
//! come whole is never taken for the whole.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    program::{Ended, Kubeconfig, ended},
    server::{Reply, Request, Server},
};

/// The connection ends with the body, so the client has to know.
const HEADERS: &str = "date: Mon, 30 Nov 2026 07:00:00 GMT\r\ncontent-type: application/json\r\nconnection: close";
/// Claims on each of two pages.
const CLAIMS: usize = 40;

fn item(name: &str) -> Value {
    let metadata = json!({
        "name": name, "uid": name, "creationTimestamp": "2026-11-30T00:00:00Z", "labels": {"karpenter.sh/nodepool": "web"},
        "annotations": {"quoted": "\"}]{[\\", "long": "x".repeat(200)},
    });
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    json!({"metadata": metadata, "spec": {"expireAfter": "720h"}, "status": {"nodeName": name, "conditions": conditions}})
}

/// The list that is asked for, in a cluster of one pool.
fn list(request: &Request) -> Option<String> {
    let page = |number: usize| (0..CLAIMS).map(|claim| item(&format!("c{number}-{claim}"))).collect::<Vec<_>>();
    let list = match request.path.as_str() {
        path if path.contains("/leases") => return None,
        path if path.contains("/nodepools") => {
            let template = json!({"spec": {"expireAfter": "720h"}});
            json!({"metadata": {}, "items": [{"metadata": {"name": "web", "uid": "web"}, "spec": {"template": template}}]})
        }
        path if path.contains("/rotationpolicies") => {
            let window = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
            let spec = json!({"nodePoolSelector": {}, "maintenanceWindows": [window]});
            json!({"metadata": {}, "items": [{"metadata": {"name": "weekly", "uid": "weekly", "generation": 1}, "spec": spec}]})
        }
        path if path.contains("/nodeclaims") && path.contains("continue=") => json!({"items": page(2), "metadata": {"continue": ""}}),
        path if path.contains("/nodeclaims") => json!({"metadata": {"continue": "more"}, "items": page(1)}),
        _ => json!({"metadata": {}, "items": []}),
    };
    Some(list.to_string())
}

/// A chunked answer, each chunk in a piece of its own.
fn chunked(body: &str, length: usize) -> Vec<Vec<u8>> {
    let head = format!("HTTP/1.1 200 OK\r\n{HEADERS}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
    let chunks = body.as_bytes().chunks(length).map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    std::iter::once(head).chain(chunks).chain([b"0\r\n\r\n".to_vec()]).collect()
}

async fn pass(server: &Server, arguments: &[&str]) -> Ended {
    ended(Kubeconfig::plain(server.port).run(arguments)).await
}

fn assert_whole(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains(&format!("not-triggered {}", 2 * CLAIMS)), "{}", ended.log);
}

#[tokio::test]
async fn lists_that_dribble_side_by_side_in_chunks_of_any_size_are_read_whole() {
    for (length, pause) in [(1, 0), (7, 0), (100, 1), (5000, 30), (1_000_000, 100)] {
        let server =
            Server::start(move |request| list(request).map(|body| Reply::Raw(chunked(&body, length), Duration::from_millis(pause)))).await;
        assert_whole(&pass(&server, &[]).await);
    }
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_read_whole() {
    let reply = |body: String| Reply::Raw(vec![format!("HTTP/1.0 200 OK\r\n{HEADERS}\r\n\r\n{body}").into_bytes()], Duration::ZERO);
    let server = Server::start(move |request| list(request).map(reply)).await;
    assert_whole(&pass(&server, &[]).await);
}

/// The ways in which a body can break off, the last of which HTTP itself doesn't see.
fn broken(body: &str) -> [Reply; 3] {
    let half = &body[..body.len() / 2];
    let mut chunks = chunked(half, 1000);
    chunks.pop();
    let head = |version: &str, length: &str| format!("HTTP/{version} 200 OK\r\n{HEADERS}{length}\r\n\r\n{half}").into_bytes();
    let raw = |bytes: Vec<u8>| Reply::Raw(vec![bytes], Duration::ZERO);
    let counted = head("1.1", &format!("\r\ncontent-length: {}", body.len()));
    [Reply::Raw(chunks, Duration::ZERO), raw(counted), raw(head("1.0", ""))]
}

#[tokio::test]
async fn a_list_that_breaks_off_is_read_again_once_and_else_the_pass_starts_nothing() {
    for way in 0..3 {
        for times in [1, usize::MAX] {
            let asked = AtomicUsize::new(0);
            let server = Server::start(move |request| {
                let body = list(request)?;
                let breaks = request.path.contains("continue=more") && asked.fetch_add(1, Ordering::SeqCst) < times;
                let mut ways = breaks.then(|| broken(&body)).into_iter().flatten();
                Some(ways.nth(way).unwrap_or_else(|| Reply::Json(200, serde_json::from_str(&body).unwrap())))
            })
            .await;
            let ended = pass(&server, &[]).await;
            if times == 1 {
                assert_whole(&ended);
                continue;
            }
            assert_eq!(ended.code, Some(1), "{way}: {}", ended.log);
            assert!(ended.log.contains("the cluster can't be read") && ended.log.contains("list NodeClaims: "), "{way}: {}", ended.log);
            let writes = server.requests().into_iter().filter(|request| request.method != "GET" && !request.path.contains("/leases"));
            assert_eq!(writes.count(), 0);
            assert_eq!(server.lease()["spec"]["holderIdentity"], "");
        }
    }
}

#[tokio::test]
async fn a_list_that_dribbles_for_ever_is_told_after_its_time() {
    let server = Server::start(|request| {
        let body = list(request)?;
        let slow = request.path.contains("/nodeclaims?") && request.path.contains("limit=500");
        Some(Reply::Raw(chunked(&body, if slow { 1 } else { 1000 }), Duration::from_millis(if slow { 50 } else { 0 })))
    })
    .await;
    let ended = pass(&server, &["--request-timeout", "2s"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("list NodeClaims: no complete answer within 2s"), "{}", ended.log);
    assert!(ended.took < Duration::from_secs(8), "{:?}", ended.took);
}

#[tokio::test]
async fn an_encoding_that_was_not_asked_for_is_named() {
    let server = Server::start(|request| {
        let encoded = format!("{HEADERS}\r\ncontent-encoding: gzip");
        (request.path.contains("/nodeclaims?") && request.path.contains("limit=500")).then_some(Reply::Text(200, encoded, "\u{1f}not gzip"))
    })
    .await;
    let ended = pass(&server, &[]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let words = "list NodeClaims: the answer can't be read: it is encoded as gzip, which was not asked for; by a proxy on the way?";
    assert!(ended.log.contains(words), "{}", ended.log);
}
