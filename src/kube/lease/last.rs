//! How the last pass ended. It stands on the Lease, written with the release: a pass that fails gives the Lease back like any
//! other, and its log is gone with its Pod.

use serde::{Deserialize, Serialize};

use crate::api::time::{Time, to_annotation};

/// So many pools are named.
const NAMED: usize = 20;
/// So many characters of a reason are kept.
const LONGEST: usize = 300;

/// What one pass came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastPass {
    /// When, RFC 3339.
    pub ended_at: String,
    /// Its exit code.
    pub exit_code: u8,
    /// The pools that failed, by name.
    #[serde(default)]
    pub failed: Vec<String>,
    /// What ended it early, or where errors were counted; empty where nothing failed.
    #[serde(default)]
    pub why: String,
}

impl LastPass {
    /// Bounded in length: an annotation has to fit.
    pub fn new(now: Time, exit_code: u8, failed: impl Iterator<Item = String>, why: &str) -> Self {
        Self { ended_at: to_annotation(now), exit_code, failed: failed.take(NAMED).collect(), why: why.chars().take(LONGEST).collect() }
    }

    /// As it is stored; what can't be read says nothing.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The annotation's value.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::time::parse_annotation;

    #[test]
    fn it_is_read_as_it_was_written_and_bounded() {
        let now = parse_annotation("2026-12-05T02:00:00Z").unwrap();
        let pass = LastPass::new(now, 1, (0..100).map(|number| format!("pool-{number}")), &"é".repeat(1000));
        assert_eq!((pass.failed.len(), pass.why.chars().count()), (20, 300));
        assert_eq!(LastPass::read(&pass.text()), Some(pass));
        assert_eq!(LastPass::read(r#"{"endedAt":"x","exitCode":0}"#), Some(LastPass { ended_at: "x".into(), ..LastPass::default() }));
        for broken in ["", "1", "{}", "{\"endedAt\":1}"] {
            assert_eq!(LastPass::read(broken), None, "{broken}");
        }
    }
}
