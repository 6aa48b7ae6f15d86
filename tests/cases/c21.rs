//! C21: from a laptop. Plugins that ask, hang or are missing; proxies; names and authorities of certificates. Nothing
//! hangs, and what went wrong is said.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpListener, sync::Mutex};
use tokio_rustls::rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::{
    program::{Ended, Kubeconfig, ended},
    server::{Reply, Server},
};

/// Accepts one token.
async fn server() -> Server {
    Server::start(|request| {
        let refused = json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"});
        (request.authorization.as_deref() != Some("Bearer good")).then_some(Reply::Json(401, refused))
    })
    .await
}

fn user(script: &str, mode: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script],
        "interactiveMode": mode, "installHint": "install it",
    }})
}

fn answer(token: &str, expires: &str) -> String {
    let status = json!({"token": token, "expirationTimestamp": expires});
    json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}).to_string()
}

async fn with_user(user: Value) -> Ended {
    let server = server().await;
    let cluster = json!({"server": format!("http://127.0.0.1:{}", server.port)});
    ended(Kubeconfig::new(cluster, user).run(&["--dry-run"])).await
}

#[tokio::test]
async fn a_plugin_that_prompts_meets_the_end_of_its_input_and_its_complaint_is_told() {
    let script = "printf 'Password: ' >&2; read answer || { echo 'no answer' >&2; exit 3; }";
    for mode in ["Never", "IfAvailable"] {
        let ended = with_user(user(script, mode)).await;
        assert_eq!(ended.code, Some(3), "{}", ended.log);
        assert!(ended.log.contains("the exec plugin \"/bin/sh\" failed (exit status: 3): Password: no answer"), "{}", ended.log);
        assert!(ended.took < Duration::from_secs(14), "{:?}", ended.took);
    }
    let ended = with_user(user(script, "Always")).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("wants a terminal (interactiveMode: Always)"), "{}", ended.log);
}

#[tokio::test]
async fn a_plugin_that_fails_is_told_with_its_status_and_its_words() {
    let ended = with_user(user("echo 'session expired' >&2; exit 1", "Never")).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("no connection: the exec plugin \"/bin/sh\" failed (exit status: 1): session expired"), "{}", ended.log);
}

#[tokio::test]
async fn a_plugin_that_does_not_end_is_ended_with_all_it_started() {
    let marker = "600.0150015";
    let ended = with_user(user(&format!("echo 'press a key' >&2; sleep {marker} & wait"), "Never")).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("the exec plugin \"/bin/sh\" did not end within 15s; so far it said: press a key"), "{}", ended.log);
    assert!(ended.took < Duration::from_secs(25), "{:?}", ended.took);
    let left = tokio::process::Command::new("ps").args(["-eo", "args"]).output().await.unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).lines().any(|line| line.starts_with(&format!("sleep {marker}"))));
}

#[tokio::test]
async fn a_signal_ends_a_plugin_and_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("touch '{}'; sleep 600", begun.display());
    let kubeconfig = Kubeconfig::new(json!({"server": "http://127.0.0.1:1"}), user(&script, "Never"));
    let child = kubeconfig.run(&[]).spawn().unwrap();
    // The plugin runs, so the program listens to signals.
    while !begun.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = child.id().unwrap().to_string();
    assert!(tokio::process::Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    let output = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130));
}

#[tokio::test]
async fn a_token_that_has_expired_is_told_as_such_and_a_good_one_is_used() {
    let ended = with_user(user(&format!("echo '{}'", answer("old", "2020-01-01T00:00:00Z")), "IfAvailable")).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("answered have expired at 2020-01-01T00:00:00Z"), "{}", ended.log);
    assert!(ended.log.contains("the API server does not accept the credentials (it says: Unauthorized)"), "{}", ended.log);
    let ended = with_user(user(&format!("echo '{}'", answer("good", "2999-01-01T00:00:00Z")), "IfAvailable")).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

#[tokio::test]
async fn a_plugin_that_does_not_exist_is_told_with_the_hint() {
    let mut user = user("", "Never");
    user["exec"]["command"] = json!("no-such-plugin");
    let ended = with_user(user).await;
    assert_eq!(ended.code, Some(3), "{}", ended.log);
    assert!(ended.log.contains("the exec plugin \"no-such-plugin\" can't be started: No such file"), "{}", ended.log);
    assert!(ended.log.contains("; install it"), "{}", ended.log);
}

/// A proxy that notes the first line that each client sends, and goes away.
async fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, lines) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&lines);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            let read = stream.read(&mut bytes).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            heard.lock().await.push(text.lines().next().unwrap_or_default().to_owned());
        }
    });
    (port, lines)
}

#[tokio::test]
async fn the_kubeconfigs_proxy_wins_over_the_environments_and_no_proxy_exempts_the_server() {
    let server = "https://api.cluster.invalid:6443";
    let ((own, own_heard), (other, other_heard)) = (proxy().await, proxy().await);
    let environment = format!("http://127.0.0.1:{other}");
    let named = json!({"server": server, "proxy-url": format!("http://127.0.0.1:{own}")});

    let kubeconfig = Kubeconfig::new(named, json!({"token": "t"}));
    let mut command = kubeconfig.run(&["--dry-run"]);
    command.env("HTTPS_PROXY", &environment).env("NO_PROXY", ".invalid");
    let by_own = ended(command).await;
    assert_eq!(by_own.code, Some(3), "{}", by_own.log);
    assert!(own_heard.lock().await.iter().any(|line| line == "CONNECT api.cluster.invalid:6443 HTTP/1.1"), "{own_heard:?}");
    assert_eq!(other_heard.lock().await.len(), 0);

    let kubeconfig = Kubeconfig::new(json!({"server": server}), json!({"token": "t"}));
    let mut command = kubeconfig.run(&["--dry-run"]);
    command.env("HTTPS_PROXY", &environment);
    assert_eq!(ended(command).await.code, Some(3));
    let heard = other_heard.lock().await.len();
    assert!(heard > 0, "the environment's proxy was asked");

    let mut command = kubeconfig.run(&["--dry-run"]);
    command.env("HTTPS_PROXY", &environment).env("NO_PROXY", "example.com,.cluster.invalid");
    assert_eq!(ended(command).await.code, Some(3));
    assert_eq!(other_heard.lock().await.len(), heard, "and was not asked for an exempted server");
}

/// A TLS server's configuration for these names, and its authority as a kubeconfig holds it.
pub fn tls(names: &[&str]) -> (ServerConfig, String) {
    let (config, authority, _) = chain(names, 2000);
    (config, authority)
}

/// The same, and the leaf, valid from the beginning of this year on.
fn chain(names: &[&str], valid_from: i32) -> (ServerConfig, String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(valid_from, 1, 1);
    let leaf = params.signed_by(&leaf_key, &issuer).unwrap();
    let _already_chosen = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    (config, BASE64_STANDARD.encode(authority.pem()), BASE64_STANDARD.encode(leaf.pem()))
}

async fn by_tls(names: &[&str], cluster: impl Fn(String, String) -> Value) -> Ended {
    by_tls_from(2000, names, cluster).await
}

async fn by_tls_from(valid_from: i32, names: &[&str], cluster: impl Fn(String, String) -> Value) -> Ended {
    let (config, authority, leaf) = chain(names, valid_from);
    let server = Server::start_tls(config, |_| None).await;
    let mut cluster = cluster(authority, leaf);
    cluster["server"] = json!(format!("https://127.0.0.1:{}", server.port));
    ended(Kubeconfig::new(cluster, json!({"token": "t"})).run(&["--dry-run"])).await
}

#[tokio::test]
async fn a_server_name_of_the_kubeconfigs_is_what_the_certificate_is_held_against() {
    let named =
        by_tls(&["inside.example"], |authority, _| json!({"certificate-authority-data": authority, "tls-server-name": "inside.example"}));
    let named = named.await;
    assert_eq!(named.code, Some(0), "{}", named.log);
    let other = by_tls(&["inside.example"], |authority, _| json!({"certificate-authority-data": authority})).await;
    assert_eq!(other.code, Some(3), "{}", other.log);
    assert!(other.log.contains("inside.example"), "what it is valid for is told: {}", other.log);
}

#[tokio::test]
async fn a_leaf_as_authority_is_refused_with_what_to_put_there() {
    let leaf = by_tls(&["127.0.0.1"], |_, leaf| json!({"certificate-authority-data": leaf})).await;
    assert_eq!(leaf.code, Some(3), "{}", leaf.log);
    assert!(leaf.log.contains("Put the one in that issued it"), "{}", leaf.log);
    let both = by_tls(&["127.0.0.1"], |authority, leaf| {
        let pem = [leaf, authority].map(|part| String::from_utf8(BASE64_STANDARD.decode(part).unwrap()).unwrap());
        json!({"certificate-authority-data": BASE64_STANDARD.encode(pem.concat())})
    });
    let both = both.await;
    assert_eq!(both.code, Some(0), "{}", both.log);
}

#[tokio::test]
async fn a_leaf_that_signed_itself_is_its_own_authority() {
    let names = vec!["127.0.0.1".to_owned()];
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let _already_chosen = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], private).unwrap();
    let server = Server::start_tls(config, |_| None).await;
    let authority = BASE64_STANDARD.encode(leaf.pem());
    let cluster = json!({"server": format!("https://127.0.0.1:{}", server.port), "certificate-authority-data": authority});
    let ended = ended(Kubeconfig::new(cluster, json!({"token": "t"})).run(&["--dry-run"])).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

#[tokio::test]
async fn what_needs_no_cluster_meets_none_of_it() {
    let kubeconfig = Kubeconfig::new(json!({"server": "http://127.0.0.1:1"}), user("sleep 600", "Never"));
    for argument in ["crd", "--help"] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.env_clear().env("KUBECONFIG", kubeconfig.path()).arg(argument);
        let ended = ended(command).await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        assert!(ended.took < Duration::from_secs(14), "{:?}", ended.took);
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_hints_at_the_clock() {
    let early = by_tls_from(3000, &["127.0.0.1"], |authority, _| json!({"certificate-authority-data": authority})).await;
    assert_eq!(early.code, Some(3), "{}", early.log);
    assert!(early.log.contains("certificate not valid yet") && early.log.contains("the clock of this machine is wrong"), "{}", early.log);
}
