//! C15: one hung pass must not stop all later ones. Whoever hangs, the program ends by itself, says which call hung, and
//! leaves no Lease held.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    program::{Kubeconfig, ended},
    server::{Reply, Request, Server},
};

/// Listens and accepts, and says nothing.
async fn silent() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    port
}

fn is_load(path: &str, plural: &str) -> bool {
    path.contains(plural) && path.contains("limit=500")
}

fn writes(requests: &[Request]) -> Vec<String> {
    let words = requests.iter().map(|request| format!("{} {}", request.method, request.path));
    words.filter(|request| !request.starts_with("GET")).collect()
}

#[tokio::test]
async fn a_server_that_takes_the_connection_and_no_tls_is_told_after_5s() {
    let port = silent().await;
    let cluster = json!({"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true});
    let ended = ended(Kubeconfig::new(cluster, json!({"token": "t"})).run(&[])).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("preflight failed: get Lease node-rotation-system/noderotation: no connection within 5s"), "{}", ended.log);
    assert!(ended.took < Duration::from_secs(14), "{:?}", ended.took);
}

#[tokio::test]
async fn a_server_that_never_answers_is_told_after_15s_with_the_call() {
    let server = Server::start(|_| Some(Reply::Silence)).await;
    let ended = ended(Kubeconfig::plain(server.port).run(&[])).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    let words = "preflight failed: get Lease node-rotation-system/noderotation: no complete answer within 15s";
    assert!(ended.log.contains(words), "{}", ended.log);
    assert!((15..25).contains(&ended.took.as_secs()), "{:?}", ended.took);
}

#[tokio::test]
async fn a_tls_server_that_never_answers_is_told_with_the_call() {
    let (config, authority) = crate::c21::tls(&["127.0.0.1"]);
    let server = Server::start_tls(config, |_| Some(Reply::Silence)).await;
    let cluster = json!({"server": format!("https://127.0.0.1:{}", server.port), "certificate-authority-data": authority});
    let ended = ended(Kubeconfig::new(cluster, json!({"token": "t"})).run(&["--request-timeout", "2s"])).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("get Lease node-rotation-system/noderotation: no complete answer within 2s"), "{}", ended.log);
}

#[tokio::test]
async fn a_list_that_stalls_in_the_middle_is_named_also_on_the_lease_that_is_given_back() {
    let server = Server::start(|request| is_load(&request.path, "nodeclaims").then_some(Reply::Stall)).await;
    let ended = ended(Kubeconfig::plain(server.port).run(&["--request-timeout", "2s"])).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let words = "list NodeClaims: no complete answer within 2s";
    assert!(ended.log.contains(words), "{}", ended.log);
    assert_eq!(server.lease()["spec"]["holderIdentity"], "");
    let last = server.lease()["metadata"]["annotations"]["noderotation.io/last-pass"].as_str().unwrap_or_default().to_owned();
    assert!(last.contains(words), "{last}");
}

#[tokio::test]
async fn the_whole_pass_ends_at_its_deadline_and_names_what_it_waited_for() {
    let server = Server::start(|request| is_load(&request.path, "nodepools").then_some(Reply::Silence)).await;
    let ended = ended(Kubeconfig::plain(server.port).run(&["--deadline", "3s"])).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(ended.log.contains("deadline has passed, before the answer to: list NodePools"), "{}", ended.log);
    assert!(ended.took < Duration::from_secs(14), "{:?}", ended.took);
    assert_eq!(writes(&server.requests()), Vec::<String>::new());
}

#[tokio::test]
async fn a_silent_pushgateway_delays_the_end_by_5s_and_costs_no_exit_code() {
    let (server, gateway) = (Server::start(|_| None).await, silent().await);
    let address = format!("http://127.0.0.1:{gateway}");
    let ended = ended(Kubeconfig::plain(server.port).run(&["--pushgateway", &address])).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains(&format!("the metrics were not pushed: pushing metrics to {address}/")), "{}", ended.log);
    assert!(ended.log.contains("timed out"), "{}", ended.log);
    assert!((5..12).contains(&ended.took.as_secs()), "{:?}", ended.took);
}

#[tokio::test]
async fn a_signal_while_a_list_is_pending_ends_it_with_143_and_nothing_written() {
    let listed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&listed);
    let server = Server::start(move |request| {
        is_load(&request.path, "nodepools").then(|| {
            seen.store(true, Ordering::SeqCst);
            Reply::Silence
        })
    })
    .await;
    let kubeconfig = Kubeconfig::plain(server.port);
    let child = kubeconfig.run(&[]).spawn().unwrap();
    while !listed.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let began = std::time::Instant::now();
    let pid = child.id().unwrap().to_string();
    assert!(tokio::process::Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{log}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(log.contains("interrupted by a signal, before the answer to: list NodePools"), "{log}");
    assert_eq!(writes(&server.requests()), Vec::<String>::new());
}
