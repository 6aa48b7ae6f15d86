//! The built program as a process, with a kubeconfig of the test's making and nothing of this machine's environment.

use std::{path::PathBuf, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub log: String,
    pub took: Duration,
}

/// A kubeconfig in a folder of its own.
pub struct Kubeconfig {
    pub folder: TempDir,
}

impl Kubeconfig {
    /// One cluster, one user.
    pub fn new(cluster: Value, user: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(folder.path().join("config"), config.to_string()).unwrap();
        Self { folder }
    }

    /// For a server without TLS.
    pub fn plain(port: u16) -> Self {
        Self::new(json!({"server": format!("http://127.0.0.1:{port}")}), json!({"token": "t"}))
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// `run` with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.env_clear().env("PATH", "/usr/bin:/bin").arg("run").arg("--kubeconfig").arg(self.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Runs it to its end.
pub async fn ended(mut command: Command) -> Ended {
    let began = std::time::Instant::now();
    let output = command.output().await.unwrap();
    Ended { code: output.status.code(), log: String::from_utf8_lossy(&output.stderr).into_owned(), took: began.elapsed() }
}
