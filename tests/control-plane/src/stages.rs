//! kwok's configuration: what makes fake Nodes and Pods Ready, and when; and what their kubelets answer.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Attempt, Error};
use crate::options::{Kubelet, Options};
use crate::programs::Programs;

/// A Node with this label registers and never becomes Ready. Karpenter copies the labels of a NodePool's template to
/// its Nodes, so [`crate::Pool::never_ready`] makes such a pool.
pub const NEVER_READY_LABEL: &str = "control-plane.test/never-ready";

/// While new Nodes are held ([`crate::ControlPlane::hold_new_nodes`]), one with this annotation becomes Ready all the same.
pub const RELEASE_ANNOTATION: &str = "control-plane.test/release";

const STAGE_FILES: [&str; 4] =
    ["stages/node/node-initialize.yaml", "stages/pod/pod-ready.yaml", "stages/pod/pod-complete.yaml", "stages/pod/pod-delete.yaml"];

/// Writes kwok's configuration: its own fast stages, with our delays and our choice of Nodes that become Ready.
pub(crate) fn write(path: &Path, programs: &Programs, options: &Options, nodes_held: bool) -> Result<(), Error> {
    let mut documents = String::new();
    for name in STAGE_FILES {
        let mut stage = read(&programs.file(name))?;
        adapt(&mut stage, options, nodes_held);
        documents.push_str(&format!("---\n{stage:#}\n")); // JSON is YAML
    }
    for answer in options.kubelet.iter().flat_map(answers) {
        documents.push_str(&format!("---\n{answer:#}\n"));
    }
    std::fs::write(path, documents).attempt(|| format!("write {}", path.display()))
}

/// What kwok answers to requests for logs and for ports.
fn answers(kubelet: &Kubelet) -> [Value; 2] {
    let answer = |kind: &str, spec: Value| json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "every-pod"}, "spec": spec});
    let (port, target) = kubelet.forward;
    [
        answer("ClusterLogs", json!({"logs": [{"logsFile": kubelet.log}]})),
        answer("ClusterPortForward", json!({"forwards": [{"ports": [port], "target": {"port": target, "address": "127.0.0.1"}}]})),
    ]
}

fn read(path: &Path) -> Result<Value, Error> {
    let text = std::fs::read_to_string(path).attempt(|| format!("read {}", path.display()))?;
    serde_yaml_ng::from_str(&text).map_err(|error| Error::Unreadable { what: path.display().to_string(), why: error.to_string() })
}

fn adapt(stage: &mut Value, options: &Options, nodes_held: bool) {
    let bound =
        r#"(((.status.conditions // []) | map(select(.type == "PodScheduled")) | .[0].lastTransitionTime) // .metadata.creationTimestamp)"#;
    // a deletionTimestamp is the moment of the delete plus the grace period
    let deleted = ". as $pod | $pod.metadata.deletionTimestamp | fromdate - ($pod.metadata.deletionGracePeriodSeconds // 0) | todate";
    match stage["metadata"]["name"].as_str() {
        Some("node-initialize") => {
            require(stage, json!({"key": format!(".metadata.labels[\"{NEVER_READY_LABEL}\"]"), "operator": "DoesNotExist"}));
            if nodes_held {
                require(stage, json!({"key": format!(".metadata.annotations[\"{RELEASE_ANNOTATION}\"]"), "operator": "Exists"}));
            }
        }
        Some("pod-ready") => delay(stage, bound, options.pod_ready_delay),
        Some("pod-delete") => delay(stage, deleted, options.pod_stop_delay),
        _ => {}
    }
}

fn require(stage: &mut Value, expression: Value) {
    if let Some(expressions) = stage["spec"]["selector"]["matchExpressions"].as_array_mut() {
        expressions.push(expression);
    }
}

/// Delays a stage until `delay` after a moment that the object itself tells. A plain `durationMilliseconds` would start
/// anew with each change of the object: a Pod that is annotated now and then would never be Ready.
fn delay(stage: &mut Value, since: &str, delay: Duration) {
    if delay.is_zero() {
        return;
    }
    let whole_seconds = delay.as_secs() + 1; // timestamps are cut to seconds: never too early
    stage["spec"]["delay"] = json!({
        "durationMilliseconds": delay.as_millis(),
        "durationFrom": {"expressionFrom": format!("{since} | fromdate + {whole_seconds} | todate")},
    });
}
