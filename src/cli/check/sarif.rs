//! A verdict as SARIF 2.1.0, which code scanning reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    diagnostic::{Diagnostic, Severity},
    judge::Verdict,
};
use crate::{api::keys::PROGRAM, schedule::findings::FINDINGS};

/// The log of one run.
pub fn sarif(verdict: &Verdict) -> String {
    let rules: BTreeMap<&str, Value> =
        verdict.diagnostics.iter().map(|diagnostic| (diagnostic.code.as_str(), rule(&diagnostic.code))).collect();
    let results: Vec<Value> = verdict.diagnostics.iter().map(result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": PROGRAM,
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn rule(code: &str) -> Value {
    let meaning = FINDINGS.iter().find(|(_, name, ..)| *name == code).map_or("", |(.., meaning)| meaning);
    let meaning = match (meaning, code) {
        ("", "InvalidField") => "A field that can't be used.",
        ("", "InvalidYaml") => "The file is no YAML.",
        ("", "PolicyConflict") => "Several policies match a NodePool with equal specificity.",
        ("", other) => other,
        (meaning, _) => meaning,
    };
    json!({"id": code, "shortDescription": {"text": meaning}})
}

fn result(diagnostic: &Diagnostic) -> Value {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let Diagnostic { file, line, column, code, object, path, message, .. } = diagnostic;
    let text = [object, path, message].into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(": ");
    json!({
        "ruleId": code,
        "level": level,
        "message": {"text": text},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": file},
                "region": {"startLine": line, "startColumn": column},
            },
        }],
    })
}
