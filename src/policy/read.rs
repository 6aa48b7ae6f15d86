//! Reads a RotationPolicy from the API's JSON, field by field: every problem is named, every other field still counts.
//!
//! The API server refuses most of these problems already (see `crds/`); what it can't judge (zone names), an older CRD and
//! files that were never sent to one are judged here, so the rules are repeated in full. A field that this version
//! doesn't know is a problem too: whatever it asks for would not be done.

use chrono::TimeDelta;
use serde_json::{Map, Value};

use self::fields::Reader;
use super::{AgeThreshold, Policy, Settings};
use crate::api::keys;

mod blackouts;
mod fields;
mod selector;
mod windows;

pub use fields::duration;

const SPEC: [&str; 8] =
    ["nodePoolSelector", "ageThreshold", "minRotationChances", "maintenanceWindows", "blackouts", "suspend", "surge", "prePull"];
const SURGE: [&str; 11] = [
    "maxUnavailable",
    "readyTimeout",
    "cooldownAfter",
    "failurePause",
    "retryBackoff",
    "provisioningEstimate",
    "drainEstimate",
    "drainTimeout",
    "matchNodeRequirements",
    "wholeNodeReservation",
    "forcefulFallback",
];

/// Reads one object; whatever is wrong with it becomes a [`super::Problem`].
pub fn policy(object: &Value) -> Policy {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let mut reader = Reader::default();
    let mut policy = Policy {
        name: text("name"),
        uid: text("uid"),
        generation: metadata["generation"].as_i64().unwrap_or_default(),
        resource_version: text("resourceVersion"),
        selector: None,
        settings: Settings::default(),
        problems: Vec::new(),
        status: object["status"].clone(),
    };
    match object.get("spec").filter(|spec| !spec.is_null()) {
        None => reader.missing("spec", "a spec with nodePoolSelector and maintenanceWindows"),
        Some(spec) => {
            if let Some(spec) = reader.object(spec, "spec", &SPEC) {
                policy.selector = selector::read(&mut reader, spec);
                policy.settings = settings(&mut reader, spec);
            }
        }
    }
    policy.problems = reader.problems;
    policy
}

fn settings(reader: &mut Reader, spec: &Map<String, Value>) -> Settings {
    let mut settings = Settings::default();
    if let Some(age_threshold) = age_threshold(reader, spec) {
        settings.age_threshold = age_threshold;
    }
    if let Some(chances) = reader.integer(spec, "spec", "minRotationChances", "a whole number, at least 1") {
        settings.min_rotation_chances = chances;
    }
    settings.windows = windows::read(reader, spec);
    settings.blackouts = blackouts::read(reader, spec);
    if let Some(suspend) = reader.boolean(spec, "spec", "suspend") {
        settings.suspend = suspend;
    }
    if let Some(surge) = reader.child(spec, "spec", "surge", &SURGE) {
        read_surge(reader, surge, &mut settings);
    }
    if let Some(pre_pull) = reader.child(spec, "spec", "prePull", &["enabled"]) {
        reader.only(pre_pull, "spec.prePull", "enabled", &Value::Bool(false), "false: pulling images ahead is not supported");
    }
    settings
}

fn age_threshold(reader: &mut Reader, spec: &Map<String, Value>) -> Option<AgeThreshold> {
    if spec.get("ageThreshold").and_then(Value::as_str) == Some("auto") {
        return Some(AgeThreshold::Auto);
    }
    let expected = "auto, or whole hours, minutes and seconds, such as 240h (no days, no fractions)";
    reader.duration_as(spec, "spec", "ageThreshold", expected).map(AgeThreshold::Override)
}

fn read_surge(reader: &mut Reader, surge: &Map<String, Value>, settings: &mut Settings) {
    let path = "spec.surge";
    reader.only(surge, path, "maxUnavailable", &Value::from(1), "1: one node of a pool at a time");
    if let Some(timeout) = positive(reader, surge, "readyTimeout") {
        settings.ready_timeout = timeout;
    }
    if let Some(cooldown) = reader.duration(surge, path, "cooldownAfter") {
        settings.cooldown_after = cooldown;
    }
    settings.failure_pause =
        reader.duration(surge, path, "failurePause").unwrap_or_else(|| Settings::default_failure_pause(settings.cooldown_after));
    if let Some(backoff) = positive(reader, surge, "retryBackoff") {
        settings.retry_backoff = backoff;
    }
    settings.provisioning_estimate = reader.duration(surge, path, "provisioningEstimate");
    settings.drain_estimate = reader.duration(surge, path, "drainEstimate");
    if let Some(timeout) = reader.duration(surge, path, "drainTimeout") {
        settings.drain_timeout = timeout;
    }
    if let Some(replicated) = reader.child(surge, path, "matchNodeRequirements", &["required", "preferred"]) {
        let path = "spec.surge.matchNodeRequirements";
        if let Some(required) = label_keys(reader, replicated, path, "required") {
            settings.required = required;
        }
        if let Some(preferred) = label_keys(reader, replicated, path, "preferred") {
            settings.preferred = preferred;
        }
    }
    if let Some(whole) = reader.boolean(surge, path, "wholeNodeReservation") {
        settings.whole_node_reservation = whole;
    }
    if let Some(fallback) = reader.child(surge, path, "forcefulFallback", &["enabled"])
        && let Some(enabled) = reader.boolean(fallback, "spec.surge.forcefulFallback", "enabled")
    {
        settings.forceful_fallback = enabled;
    }
}

fn positive(reader: &mut Reader, surge: &Map<String, Value>, field: &str) -> Option<TimeDelta> {
    let read = reader.duration(surge, "spec.surge", field)?;
    if read > TimeDelta::zero() {
        return Some(read);
    }
    reader.problem(&format!("spec.surge.{field}"), surge.get(field), "longer than 0, such as 15m");
    None
}

/// Label keys whose values the placeholder takes over from the candidate. The hostname is none: it names the very node
/// that goes, and Karpenter provisions for no Pod that requires one (§6).
fn label_keys(reader: &mut Reader, fields: &Map<String, Value>, path: &str, field: &str) -> Option<Vec<String>> {
    let mut keys: Vec<String> = Vec::new();
    let mut usable = true;
    let items = reader.array(fields, path, field, "a list of label keys, such as [topology.kubernetes.io/zone]")?;
    reader.at_most(16, items, &format!("{path}.{field}"));
    for (index, item) in items.iter().enumerate() {
        let expected = match item.as_str() {
            Some(keys::HOSTNAME_LABEL) => "another label: the hostname names the very node that is to be replaced",
            Some(key) if selector::is_label_key(key) => {
                if !keys.iter().any(|known| known == key) {
                    keys.push(key.to_owned());
                }
                continue;
            }
            _ => "a label key, such as topology.kubernetes.io/zone",
        };
        reader.problem(&format!("{path}.{field}[{index}]"), Some(item), expected);
        usable = false;
    }
    usable.then_some(keys)
}

#[cfg(test)]
mod tests;
