//! Credentials from the exec plugin of a kubeconfig's user (client-go's `ExecCredential` protocol). We run it ourselves,
//! for the client library would wait for it without end and with our terminal: here it is bounded in time, gets standard
//! input only where that is a terminal and its `interactiveMode` allows, and what it says when it fails is in the error.
//! It runs once: what it answers has to last for one pass.

use std::{
    io::{IsTerminal, Write},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

use crate::api::time::{Time, parse_annotation, to_annotation};

/// What a plugin that can't ask anyone may take; those that ask a cloud take seconds.
const ALONE_LIMIT: Duration = Duration::from_secs(15);
/// What one at a terminal may take: a person has to read and answer.
const TERMINAL_LIMIT: Duration = Duration::from_secs(60);
/// How much of its standard error is told: the end, where the reason is.
const TOLD: usize = 1000;
/// More than any credentials have.
const ANSWER: u64 = 4 << 20;
const VERSION: &str = "client.authentication.k8s.io/v1";

/// Why a plugin gave no credentials. Never with its standard output, which may hold half of them.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The kubeconfig names none.
    #[error("the kubeconfig's user has an exec plugin without a command")]
    NoCommand,
    /// It can't be started.
    #[error("the exec plugin {plugin:?} can't be started: {source}{hint}")]
    Start {
        /// Its command.
        plugin: String,
        /// Why.
        source: std::io::Error,
        /// The kubeconfig's `installHint`.
        hint: String,
    },
    /// It insists on a terminal.
    #[error("the exec plugin {plugin:?} wants a terminal (interactiveMode: Always), and standard input is none")]
    NoTerminal {
        /// Its command.
        plugin: String,
    },
    /// It failed.
    #[error("the exec plugin {plugin:?} failed ({status}): {stderr}")]
    Failed {
        /// Its command.
        plugin: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its standard error.
        stderr: String,
    },
    /// It did not end.
    #[error("the exec plugin {plugin:?} did not end within {limit:?}; so far it said: {stderr}")]
    Hung {
        /// Its command.
        plugin: String,
        /// How long was waited.
        limit: Duration,
        /// The end of its standard error.
        stderr: String,
    },
    /// It ended well without credentials.
    #[error("the exec plugin {plugin:?} answered without usable credentials: {why}; it said: {stderr}")]
    Answer {
        /// Its command.
        plugin: String,
        /// What is wrong.
        why: String,
        /// The end of its standard error.
        stderr: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kind: String,
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<SecretString>,
    client_certificate_data: Option<String>,
    client_key_data: Option<SecretString>,
    expiration_timestamp: Option<String>,
}

/// Replaces the user's exec plugin by what it answers; `now` is for telling that this has expired already. A user with
/// credentials of another kind uses those, as kubectl does.
///
/// # Errors
/// [`PluginError`].
pub async fn resolve(user: &mut AuthInfo, now: Time) -> Result<(), PluginError> {
    let Some(exec) = user.exec.take() else { return Ok(()) };
    let plugin = exec.command.clone().ok_or(PluginError::NoCommand)?;
    if user.token.is_some() || user.token_file.is_some() || user.username.is_some() {
        tracing::info!(
            "the kubeconfig's user has a token or password besides the exec plugin {plugin:?}, which is not asked, as in kubectl"
        );
        return Ok(());
    }
    let terminal = std::io::stdin().is_terminal();
    let status = ask(&exec, plugin.clone(), terminal).await?;
    if let Some(expired) = status.expiration_timestamp.as_deref().and_then(parse_annotation).filter(|expiry| *expiry <= now) {
        tracing::warn!("the credentials that the exec plugin {plugin:?} answered have expired at {}", to_annotation(expired));
    }
    user.token = status.token;
    if let (Some(certificate), Some(key)) = (status.client_certificate_data, status.client_key_data) {
        use secrecy::ExposeSecret;
        // A kubeconfig holds both in base64, a plugin's answer doesn't.
        user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
        user.client_key_data = Some(SecretString::from(BASE64_STANDARD.encode(key.expose_secret())));
    }
    Ok(())
}

async fn ask(exec: &ExecConfig, plugin: String, terminal: bool) -> Result<Status, PluginError> {
    let interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !terminal => return Err(PluginError::NoTerminal { plugin }),
        Some(ExecInteractiveMode::Always | ExecInteractiveMode::IfAvailable) | None => terminal,
    };
    let limit = if interactive { TERMINAL_LIMIT } else { ALONE_LIMIT };
    let mut running = match command(exec, &plugin, interactive).spawn() {
        Ok(child) => Running { child, alone: !interactive },
        Err(source) => {
            let hint = exec.install_hint.as_ref().map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
            return Err(PluginError::Start { plugin, source, hint });
        }
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let ended = tokio::time::timeout(limit, running.finish(&mut stdout, &mut stderr, interactive)).await;
    let stderr = tail(&stderr);
    match ended {
        Err(_) => Err(PluginError::Hung { plugin, limit, stderr }),
        Ok(Err(error)) => Err(PluginError::Answer { plugin, why: error.to_string(), stderr }),
        Ok(Ok(status)) if !status.success() => Err(PluginError::Failed { plugin, status, stderr }),
        Ok(Ok(_)) => read(&stdout, version(exec)).map_err(|why| PluginError::Answer { plugin, why, stderr }),
    }
}

fn version(exec: &ExecConfig) -> &str {
    exec.api_version.as_deref().unwrap_or(VERSION)
}

fn command(exec: &ExecConfig, plugin: &str, interactive: bool) -> Command {
    let info = json!({
        "apiVersion": version(exec),
        "kind": "ExecCredential",
        "spec": {"interactive": interactive, "cluster": exec.cluster.as_ref().filter(|_| exec.provide_cluster_info)},
    });
    let mut command = Command::new(plugin);
    command.args(exec.args.iter().flatten());
    let pairs = exec.env.iter().flatten().filter_map(|pair| Some((pair.get("name")?, pair.get("value")?)));
    command.envs(pairs).env("KUBERNETES_EXEC_INFO", info.to_string());
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
    if !interactive {
        // A group of its own: it can be ended with all that it started, and can't read from a terminal behind our back.
        command.process_group(0);
    }
    command.kill_on_drop(true);
    command
}

/// A plugin at work; dropped, it is ended.
struct Running {
    child: Child,
    alone: bool,
}

impl Running {
    async fn finish(&mut self, stdout: &mut Vec<u8>, stderr: &mut Vec<u8>, interactive: bool) -> std::io::Result<ExitStatus> {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let ((), (), status) = futures::try_join!(collect(out, stdout, false), collect(err, stderr, interactive), self.child.wait())?;
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = self.child.id().filter(|_| self.alone).and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            // It may have ended by itself.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Reads to the end, or as much as anyone needs; and shows it meanwhile, for a prompt must be seen.
async fn collect(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, show: bool) -> std::io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let mut from = from.take(ANSWER);
    loop {
        let begin = into.len();
        if from.read_buf(into).await? == 0 {
            return Ok(());
        }
        if show {
            // There is nowhere else to show it.
            let _ = std::io::stderr().write_all(&into[begin..]);
        }
    }
}

fn read(stdout: &[u8], version: &str) -> Result<Status, String> {
    // Without the parser's words, which may quote.
    let answer: Answer = serde_json::from_slice(stdout)
        .ok()
        .or_else(|| serde_yaml_ng::from_slice(stdout).ok())
        .ok_or_else(|| format!("its standard output ({} bytes) is no ExecCredential", stdout.len()))?;
    if answer.kind != "ExecCredential" || answer.api_version != version {
        return Err(format!("it is a {} of {}, asked for was an ExecCredential of {version}", answer.kind, answer.api_version));
    }
    let status = answer.status.ok_or("it has no status")?;
    match (&status.token, &status.client_certificate_data, &status.client_key_data) {
        (_, Some(_), None) | (_, None, Some(_)) => Err("it has one of clientCertificateData and clientKeyData, not both".into()),
        (None, None, None) => Err("it has neither a token nor a certificate".into()),
        _ => Ok(status),
    }
}

fn tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    match text.char_indices().rev().nth(TOLD) {
        _ if text.is_empty() => "(nothing)".into(),
        Some((from, _)) => format!("…{}", &text[from..]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests;
