use std::collections::HashMap;

use secrecy::ExposeSecret;

use super::*;

fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

/// A plugin that is this shell script.
fn shell(script: &str) -> ExecConfig {
    serde_json::from_value(json!({"apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", script], "interactiveMode": "Never"}))
        .unwrap()
}

async fn token(exec: ExecConfig) -> Result<String, String> {
    let mut user = AuthInfo { exec: Some(exec), ..AuthInfo::default() };
    resolve(&mut user, at("2026-11-30T07:00:00Z")).await.map_err(|error| error.to_string())?;
    assert!(user.exec.is_none(), "the client library must not run it again");
    Ok(user.token.unwrap().expose_secret().to_owned())
}

const TOKEN: &str = r#"{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "abc"}}"#;

#[tokio::test]
async fn a_plugin_learns_what_it_is_for_and_its_token_is_used() {
    let mut exec = shell(&format!("read x; test -z \"$x\" && test \"$A\" = b && echo \"$KUBERNETES_EXEC_INFO\" >&2 && echo '{TOKEN}'"));
    let pair = [("name", "A"), ("value", "b")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    exec.env = Some(vec![HashMap::from(pair)]);
    // `read` meets the end of the input: there is no terminal.
    assert_eq!(token(exec.clone()).await, Ok("abc".into()));
    exec.args = Some(vec!["-c".into(), "echo \"$KUBERNETES_EXEC_INFO\" >&2; exit 7".into()]);
    let info = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":null,"interactive":false}}"#;
    assert_eq!(token(exec).await, Err(format!("the exec plugin \"/bin/sh\" failed (exit status: 7): {info}")));
}

#[tokio::test]
async fn a_certificate_is_handed_on_as_a_kubeconfig_holds_it() {
    let answer = TOKEN.replace(r#""token": "abc""#, r#""clientCertificateData": "PEM", "clientKeyData": "KEY""#);
    let mut user = AuthInfo { exec: Some(shell(&format!("echo '{answer}'"))), ..AuthInfo::default() };
    resolve(&mut user, at("2026-11-30T07:00:00Z")).await.unwrap();
    assert_eq!(user.client_certificate_data.as_deref(), Some("UEVN"));
    assert_eq!(user.client_key_data.unwrap().expose_secret(), "S0VZ");
    assert!(user.token.is_none());
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_told_without_quoting_it() {
    let version = TOKEN.replace("k8s.io/v1", "k8s.io/v1beta1");
    for (answer, why) in [
        ("secret, of a kind", "is no ExecCredential"),
        (version.as_str(), "asked for was an ExecCredential of client.authentication.k8s.io/v1"),
        (&TOKEN.replace(r#""token": "abc""#, r#""clientKeyData": "secret""#), "not both"),
        (&TOKEN.replace(r#""token": "abc""#, ""), "neither a token nor a certificate"),
        ("", "is no ExecCredential"),
    ] {
        let error = token(shell(&format!("echo '{answer}'"))).await.unwrap_err();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_token_beside_a_plugin_is_used_as_kubectl_does() {
    let mut user = AuthInfo { exec: Some(shell("exit 1")), token: Some("static".to_owned().into()), ..AuthInfo::default() };
    resolve(&mut user, at("2026-11-30T07:00:00Z")).await.unwrap();
    assert_eq!(user.token.unwrap().expose_secret(), "static");
}

#[tokio::test]
async fn a_plugin_that_is_missing_or_wants_a_terminal_is_named_with_its_hint() {
    let mut exec = shell("");
    exec.command = Some("no-such-plugin".into());
    exec.install_hint = Some("brew install it\n".into());
    let error = token(exec).await.unwrap_err();
    assert_eq!(error, "the exec plugin \"no-such-plugin\" can't be started: No such file or directory (os error 2); brew install it");
    let mut exec = shell("");
    exec.interactive_mode = Some(ExecInteractiveMode::Always);
    let error = ask(&exec, "asks".into(), false).await.err().unwrap().to_string();
    assert_eq!(error, "the exec plugin \"asks\" wants a terminal (interactiveMode: Always), and standard input is none");
}

#[test]
fn of_a_long_complaint_the_end_is_told() {
    assert_eq!(tail(b" \n"), "(nothing)");
    assert_eq!(tail("é".repeat(3000).as_bytes()).chars().count(), TOLD + 2);
}
