//! What `check` has to say, each with its place.

use serde::Serialize;

use super::yaml::Place;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The API server refuses it, or nothing would ever start: exit code 1.
    Error,
    /// It works, and perhaps not as it was meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The file as it was named; `-` for standard input.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// How bad.
    pub severity: Severity,
    /// A stable word: `InvalidField`, `InvalidYaml`, `UnknownVersion`, `PolicyConflict`, …, or the name of a finding.
    pub code: String,
    /// The object: `RotationPolicy nights`.
    pub object: String,
    /// The field's path; empty where the whole object is meant.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Diagnostic {
    /// About an object's field.
    pub fn new(severity: Severity, code: &str, (file, at): (&str, Place), object: &str, path: &str, message: String) -> Self {
        Self {
            file: file.into(),
            line: at.line,
            column: at.column,
            severity,
            code: code.into(),
            object: object.into(),
            path: path.into(),
            message,
        }
    }
}
