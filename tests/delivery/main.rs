//! What is applied to a cluster, on the real control plane: manifests, rights, removal, and the path of an alert;
//! and the page that a person looks at, in a real browser.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod alerting;
mod commands;
mod cronjob;
mod documented;
mod kustomizations;
mod page;
#[allow(dead_code, reason = "shared with the cluster tests")]
#[path = "../cluster/passes.rs"]
mod passes;
#[path = "../cluster/policy.rs"]
mod policy;
mod removal;
mod rights;
mod webhook;

use std::path::{Path, PathBuf};

use control_plane::ControlPlane;
use serde_json::Value;

/// The project's folder.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Objects of a kind, as JSON.
pub async fn list(plane: &ControlPlane, arguments: &[&str]) -> Vec<Value> {
    let text = plane.run_kubectl(&[&["get", "--output=json"], arguments].concat(), "").await.unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
}

/// What stands in a Markdown file's fenced blocks of a language, in order.
pub fn blocks(page: &Path, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let opening = format!("{language}\n");
    text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(&opening)).map(str::to_owned).collect()
}
