//! What `run --dry-run` prints: the steps that a pass would take, as they were decided.

use std::fmt::Write;

use crate::rotation::{
    decide::Decision,
    step::{Planned, Step},
};

/// The steps of all pools.
pub fn text(decision: &Decision) -> String {
    let mut text = String::new();
    if !decision.sweep.is_empty() {
        text.push_str("sweep\n");
        effects(&mut text, &decision.sweep);
    }
    for (pool, step) in &decision.steps {
        one(&mut text, pool, step);
    }
    for (pool, error) in &decision.errors {
        let _ = writeln!(text, "NodePool {pool}: can't be judged: {error}");
    }
    if text.is_empty() {
        text.push_str("There is no NodePool.\n");
    }
    text
}

fn one(text: &mut String, pool: &str, step: &Step) {
    // Writing into a String has no way to fail.
    let _ = writeln!(text, "NodePool {pool}: {}: {}", step.action.code, step.action.detail);
    let assessment = &step.assessment;
    if assessment.governed {
        let census: Vec<String> = assessment.census.iter().map(|(bucket, count)| format!("{} {count}", bucket.as_str())).collect();
        let policy = assessment.policy.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  policy {policy}; claims: {}", if census.is_empty() { "none".into() } else { census.join(", ") });
    }
    for notice in &step.conditions {
        let _ = writeln!(text, "  ! {}: {}", notice.reason, notice.message);
    }
    effects(text, &step.aside);
    effects(text, &step.effects);
}

fn effects(text: &mut String, effects: &[Planned]) {
    for (number, planned) in effects.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", number + 1, planned.effect);
    }
}
