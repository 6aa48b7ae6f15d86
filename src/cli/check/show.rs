//! A verdict as text, as JSON, and as workflow commands.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    diagnostic::{Diagnostic, Severity},
    judge::{Judged, OnPool, Terms, Verdict},
};
use crate::{
    api::{
        time::{Time, format_duration, to_annotation},
        zone::Zone,
    },
    cli::screen::{Screen, Tone},
    schedule::window::Occurrence,
};

/// So many coming windows are named.
const COMING: usize = 3;

/// For people: diagnostics first, then what the policies mean.
pub fn text(verdict: &Verdict, terms: &Terms, screen: Screen) -> String {
    let mut text = String::new();
    // Writing into a String has no way to fail.
    for diagnostic in &verdict.diagnostics {
        let Diagnostic { file, line, column, code, object, path, message, .. } = diagnostic;
        let object = if object.is_empty() { String::new() } else { format!("{object}: ") };
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let _ = writeln!(text, "{file}:{line}:{column}: {}: {object}{path}{message} [{code}]", word(diagnostic.severity, screen));
    }
    for judged in &verdict.policies {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}: {}", judged.policy.name, windows(judged));
        for occurrence in coming(judged, terms.now) {
            let _ = writeln!(text, "  next    {}", in_zones(judged, occurrence));
        }
        for on in verdict.pools.iter().filter(|on| on.policy == judged.policy.name) {
            let _ = writeln!(text, "  {}", follows(on));
        }
    }
    let count = |severity| verdict.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let policies = verdict.policies.len();
    let _ = writeln!(
        text,
        "\n{policies} {}, {errors} {}, {warnings} {}",
        plural(policies, "policy", "policies"),
        plural(errors, "error", "errors"),
        plural(warnings, "warning", "warnings")
    );
    text.trim_start().to_owned()
}

fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

fn word(severity: Severity, screen: Screen) -> String {
    match severity {
        Severity::Error => screen.paint("error", Tone::Bad),
        Severity::Warning => screen.paint("warning", Tone::Doubtful),
        Severity::Note => screen.paint("note", Tone::Faint),
    }
}

fn windows(judged: &Judged) -> String {
    let schedule = &judged.schedule;
    let show = |span: Option<_>| span.map_or("-".into(), format_duration);
    if !judged.policy.is_valid() {
        return "invalid: nothing starts under it".into();
    }
    if schedule.always_open {
        return "always open".into();
    }
    format!("P {}, D {}, gap {}", show(schedule.period), show(schedule.shortest), show(schedule.gap))
}

fn coming(judged: &Judged, now: Time) -> impl Iterator<Item = Occurrence> + '_ {
    let occurrences = if judged.schedule.always_open { &[] } else { judged.schedule.occurrences.as_slice() };
    occurrences.iter().filter(move |occurrence| occurrence.end > now).take(COMING).copied()
}

/// In the zone of the policy's first window.
fn in_zones(judged: &Judged, occurrence: Occurrence) -> String {
    let zone = judged.policy.settings.windows.first().map_or(Zone::UTC, |window| window.timezone);
    let (start, end) = (zone.local(occurrence.start), zone.local(occurrence.end));
    let end = if start.date_naive() == end.date_naive() { end.format("%H:%M") } else { end.format("%a %H:%M") };
    format!("{} to {end} {zone}", start.format("%a %Y-%m-%d %H:%M"))
}

fn follows(on: &OnPool) -> String {
    let (name, derivation) = (on.pool.as_ref().map_or("given   ".into(), |pool| format!("pool    {pool}: ")), &on.derivation);
    let age = derivation.age_threshold.map_or("never".into(), format_duration);
    let lifetime = derivation.expire_after.map_or("Never".into(), format_duration);
    let chances = derivation.chances.map_or("-".into(), |chances| chances.to_string());
    let (bound, capacity) = (format_duration(derivation.t_rot), derivation.capacity);
    format!("{name}E {lifetime}, t_rot {bound}, A {age}, G {chances}, C {capacity}")
}

/// `{"policies": [...], "pools": [...], "diagnostics": [...]}`; the shape is in `docs/commands.md`.
pub fn json(verdict: &Verdict, terms: &Terms) -> String {
    let policies: Vec<Value> = verdict.policies.iter().map(|judged| policy(judged, terms.now)).collect();
    let pools: Vec<Value> = verdict.pools.iter().map(pool).collect();
    let whole = json!({"policies": policies, "pools": pools, "diagnostics": verdict.diagnostics});
    format!("{whole:#}\n")
}

fn policy(judged: &Judged, now: Time) -> Value {
    let schedule = &judged.schedule;
    let next: Vec<Value> =
        coming(judged, now).map(|next| json!({"opensAt": to_annotation(next.start), "closesAt": to_annotation(next.end)})).collect();
    json!({
        "name": judged.policy.name,
        "valid": judged.policy.is_valid(),
        "alwaysOpen": schedule.always_open,
        "period": schedule.period.map(format_duration),
        "shortestWindow": schedule.shortest.map(format_duration),
        "gap": schedule.gap.map(format_duration),
        "nextWindows": next,
    })
}

fn pool(on: &OnPool) -> Value {
    let derivation = &on.derivation;
    let findings: Vec<Value> = on.findings.iter().map(|finding| json!({"code": finding.code.name(), "message": finding.message})).collect();
    json!({
        "pool": on.pool,
        "policy": on.policy,
        "expireAfter": derivation.expire_after.map(format_duration),
        "leadTime": derivation.lead_time.map(format_duration),
        "tRot": format_duration(derivation.t_rot),
        "tRotEstimate": format_duration(derivation.t_rot_est),
        "ageThreshold": derivation.age_threshold.map(format_duration),
        "chances": derivation.chances,
        "capacity": derivation.capacity,
        "findings": findings,
    })
}

/// `::error file=…,line=…,col=…,title=…::message`
pub fn github(verdict: &Verdict) -> String {
    let mut text = String::new();
    for diagnostic in &verdict.diagnostics {
        let command = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let Diagnostic { file, line, column, code, object, path, message, .. } = diagnostic;
        let message = [object, path, message].into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(": ");
        let _ = writeln!(
            text,
            "::{command} file={},line={line},col={column},title={}::{}",
            escaped(file, true),
            escaped(code, true),
            escaped(&message, false)
        );
    }
    text
}

/// A workflow command ends at the line's end, and its properties at `,` and `:`.
fn escaped(text: &str, property: bool) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if property { text.replace(':', "%3A").replace(',', "%2C") } else { text }
}
