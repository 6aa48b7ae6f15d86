//! What is easiest said with `kubectl`: applying manifests and showing the state of everything.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::control_plane::ControlPlane;
use crate::error::{Attempt, Error};

const LIMIT: Duration = Duration::from_secs(90);

impl ControlPlane {
    /// Applies these manifests (server-side, as the field manager `control-plane`, taking over what others own).
    pub async fn apply(&self, yaml: &str) -> Result<(), Error> {
        self.run_kubectl(&[&SERVER_SIDE[..], &["-f", "-"]].concat(), yaml).await.map(drop)
    }

    /// Applies objects given as JSON, in this order.
    pub async fn apply_objects(&self, objects: &[Value]) -> Result<(), Error> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.apply(&list.to_string()).await
    }

    /// Applies the kustomization in this folder.
    pub async fn apply_kustomization(&self, folder: &Path) -> Result<(), Error> {
        let folder = folder.display().to_string();
        self.run_kubectl(&[&SERVER_SIDE[..], &["-k", &folder]].concat(), "").await.map(drop)
    }

    /// Runs `kubectl` with these arguments and this standard input; answers what it printed.
    pub async fn run_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        let command = format!("kubectl {}", arguments.join(" "));
        let mut kubectl = tokio::process::Command::from(self.kubectl());
        kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = kubectl.spawn().attempt(|| format!("start {command}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let _reads_no_input = stdin.write_all(input.as_bytes()).await;
        }
        let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
        let output = output.map_err(|_| Error::Timeout { what: command.clone(), after: LIMIT, state: String::new() })?;
        let output = output.attempt(|| format!("run {command}"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let output_text = printed + &String::from_utf8_lossy(&output.stderr);
        Err(Error::Command { command, status: output.status, output: output_text })
    }

    /// What there is, for a person who wonders why a test fails.
    pub async fn describe_state(&self) -> String {
        const QUESTIONS: [&[&str]; 3] = [
            &["get", "nodepools,nodeclaims,nodes", "-o", "wide"],
            &["get", "deployments,pdb,pods", "-A", "-o", "wide"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        ];
        let mut state = String::new();
        for question in QUESTIONS {
            let answer = match self.run_kubectl(question, "").await {
                Ok(answer) => last_lines(&answer, 60),
                Err(error) => error.to_string(),
            };
            state.push_str(&format!("--- kubectl {}\n{answer}\n", question.join(" ")));
        }
        state.push_str(&format!("--- logs: {}\n", self.directory().display()));
        state
    }
}

const SERVER_SIDE: [&str; 4] = ["apply", "--server-side", "--force-conflicts", "--field-manager=control-plane"];

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
