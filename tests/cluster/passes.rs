//! Passes as a CronJob would start them: one process after another.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Options};
use kube::{Api, api::DynamicObject};
use serde_json::Value;
use tokio::process::Command;

pub const NAMESPACE: &str = "node-rotation-system";
const PREFIX: &str = "noderotation.io/";

/// A control plane with the program installed on it.
pub struct Passes {
    pub plane: ControlPlane,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
}

/// What one pass came to.
#[derive(Debug)]
pub struct Pass {
    pub code: Option<i32>,
    pub log: String,
    pub stdout: String,
}

impl Passes {
    /// Starts a control plane and installs the program as a user would, without its CronJob.
    pub async fn start(options: Options) -> Self {
        let plane = ControlPlane::start(options).await.unwrap();
        plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kustomize/without-cronjob")).await.unwrap();
        let kubeconfig = plane.kubeconfig_for(NAMESPACE, "noderotation").await.unwrap();
        Self { plane, kubeconfig, arguments: Vec::new() }
    }

    /// The same with more arguments for every pass.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// The same by another kubeconfig, made of the one given.
    pub fn by(mut self, kubeconfig: impl FnOnce(&Path) -> PathBuf) -> Self {
        self.kubeconfig = kubeconfig(&self.kubeconfig);
        self
    }

    /// The command of one pass.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.args(["run", "--cadence", "2s", "--kubeconfig"]).arg(&self.kubeconfig).args(&self.arguments);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs one pass to its end.
    pub async fn pass(&self) -> Pass {
        self.finish(self.command()).await
    }

    /// Runs a pass with a command of the test's own making.
    pub async fn finish(&self, mut command: Command) -> Pass {
        Pass::of(command.output().await.unwrap())
    }

    /// Runs pass after pass, every one of which must end well, until the condition holds.
    pub async fn until(&self, what: &str, timeout: Duration, mut done: impl AsyncFnMut(&ControlPlane) -> bool) -> Vec<Pass> {
        let (start, mut passes) = (Instant::now(), Vec::new());
        loop {
            let pass = self.pass().await;
            assert_eq!(pass.code, Some(0), "a pass failed while waiting until {what}:\n{}", pass.log);
            passes.push(pass);
            if done(&self.plane).await {
                return passes;
            }
            if start.elapsed() > timeout {
                let logs: Vec<&str> = passes.iter().rev().take(20).rev().map(|pass| pass.log.as_str()).collect();
                panic!("not within {timeout:?}: {what}\n{}\n{}", logs.join(""), self.plane.describe_state().await);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// One NodePool, as JSON.
    pub async fn pool(&self, name: &str) -> Value {
        json(&self.plane.node_pools(), name).await
    }

    /// An annotation of ours on a NodePool.
    pub async fn pool_annotation(&self, pool: &str, key: &str) -> Option<String> {
        annotation(&self.pool(pool).await, key)
    }

    /// The status of a RotationPolicy.
    pub async fn status(&self, policy: &str) -> Value {
        let text = self.plane.run_kubectl(&["get", "rotpol", policy, "--output=json"], "").await.unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["status"].clone()
    }

    /// The totals of a pool.
    pub async fn totals(&self, pool: &str) -> Value {
        self.pool_annotation(pool, "totals").await.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    /// Every key of ours that is left on any NodePool, NodeClaim, Node or Pod, as `Kind name: key`; without the totals,
    /// `last-rotation-at` and `window-settled-at`, which stay.
    pub async fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for kind in ["nodepools", "nodeclaims", "nodes", "pods"] {
            let list = self.plane.run_kubectl(&["get", kind, "--all-namespaces", "--output=json"], "").await.unwrap();
            let list: Value = serde_json::from_str(&list).unwrap();
            for object in list["items"].as_array().unwrap() {
                let name = object["metadata"]["name"].as_str().unwrap();
                for part in ["annotations", "labels"] {
                    let keys = object["metadata"][part].as_object().into_iter().flat_map(|keys| keys.keys());
                    let ours = keys.filter(|key| {
                        key.starts_with(PREFIX) && !matches!(&key[PREFIX.len()..], "totals" | "last-rotation-at" | "window-settled-at")
                    });
                    left.extend(ours.map(|key| format!("{kind} {name}: {key}")));
                }
                if kind == "nodes" && object["spec"]["unschedulable"] == true {
                    left.push(format!("{kind} {name}: cordoned"));
                }
            }
        }
        left
    }

    /// The reasons and messages of the program's Events, oldest first.
    pub async fn events(&self) -> Vec<(String, String)> {
        let list = self.plane.run_kubectl(&["get", "events.v1.events.k8s.io", "--namespace=default", "--output=json"], "").await.unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let mut events: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
        events.retain(|event| event["reportingController"] == "noderotation.io/noderotation");
        events.sort_by_key(|event| event["eventTime"].as_str().unwrap_or_default().to_owned());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event["reason"]), text(&event["note"]))).collect()
    }

    /// The reasons of the Events about one object, in alphabetical order.
    pub async fn told_about(&self, name: &str) -> Vec<String> {
        let field = format!("--field-selector=regarding.name={name}");
        let list =
            self.plane.run_kubectl(&["get", "events.v1.events.k8s.io", "--namespace=default", "--output=json", &field], "").await.unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let ours = list["items"].as_array().unwrap().iter().filter(|event| event["reportingController"] == "noderotation.io/noderotation");
        let mut reasons: Vec<String> = ours.map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
        reasons.sort();
        reasons
    }

    /// How often an Event with this reason was told.
    pub async fn count(&self, reason: &str) -> usize {
        self.events().await.iter().filter(|(told, _)| told == reason).count()
    }
}

impl Pass {
    /// The log lines, each of which must be a JSON object.
    pub fn lines(&self) -> Vec<Value> {
        self.log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// The summary of a pool, and its action.
    pub fn summary(&self, pool: &str) -> Value {
        let lines = self.lines();
        let mut of_pool = lines.into_iter().filter(|line| line["nodepool"] == pool && line["action"].is_string());
        let summary = of_pool.next().unwrap_or_else(|| panic!("no summary of {pool}:\n{}", self.log));
        assert!(of_pool.next().is_none(), "several summaries of {pool}:\n{}", self.log);
        summary
    }

    /// What a process that has ended came to.
    pub fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), log: text(&output.stderr), stdout: text(&output.stdout) }
    }
}

/// An object as JSON.
pub async fn json(api: &Api<DynamicObject>, name: &str) -> Value {
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// An annotation of ours.
pub fn annotation(object: &Value, key: &str) -> Option<String> {
    object["metadata"]["annotations"][format!("{PREFIX}{key}")].as_str().map(str::to_owned)
}
