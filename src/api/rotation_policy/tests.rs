use std::collections::BTreeMap;

use super::*;
use crate::policy::{Settings, read};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crds/noderotation.io_rotationpolicies.yaml");
const DOCS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policies.md"));

#[test]
fn the_committed_crd_is_that_of_the_types() {
    let generated = crd_yaml().unwrap();
    if std::env::var_os("UPDATE_CRD").is_some() {
        std::fs::write(COMMITTED, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == generated,
        "{COMMITTED} is not what the types say: write it anew with `UPDATE_CRD=1 cargo test --lib committed_crd`"
    );
}

/// The schema of `spec`.
fn spec_schema() -> Value {
    let definition = serde_json::to_value(crd().unwrap()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// The fields below a schema that the docs describe, as `path: default`: every leaf, every list, and the selector.
fn fields(schema: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().unwrap() {
        let path = format!("{path}{name}");
        let described = field["description"].as_str().unwrap().replace('\n', " ");
        let default = match described.split_once("Default: ") {
            Some((_, default)) => default.trim_end_matches('.'),
            None if required.contains(&name.as_str()) => "required",
            None => "none",
        };
        let items = &field["items"];
        let inner = if items["properties"].is_object() { items } else { field };
        let group = inner["properties"].is_object();
        if !group || field["type"] == "array" || default == "required" {
            found.insert(path.clone(), default.to_owned());
        }
        if group {
            let dot = if items.is_object() { "[]." } else { "." };
            fields(inner, &format!("{path}{dot}"), found);
        }
    }
}

#[test]
fn the_docs_table_has_every_field_with_its_default() {
    let mut expected = BTreeMap::new();
    fields(&spec_schema(), "", &mut expected);
    let (_, table) = DOCS.split_once("\n| field | type | default | rule |\n|---|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), cells[3].to_owned())
    });
    assert_eq!(rows.collect::<BTreeMap<String, String>>(), expected);
}

/// The policies in the docs.
fn documented() -> Vec<Value> {
    let blocks = DOCS.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| serde_yaml_ng::from_str(block).unwrap()).collect()
}

#[test]
fn the_policies_of_the_docs_are_valid_and_one_spells_out_the_defaults() {
    let policies = documented();
    assert_eq!(policies.len(), 2);
    for policy in &policies {
        assert_eq!(read::policy(policy).problems, []);
        let typed: RotationPolicy = serde_json::from_value(policy.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap()["spec"], policy["spec"]);
    }
    let read = read::policy(&policies[1]).settings;
    assert_eq!(read, Settings { windows: read.windows.clone(), ..Settings::default() });
}

/// The rules of the schema: path, expression and message. Of a pattern's own rule only that it has one.
fn rules(schema: &Value, path: &str, found: &mut Vec<String>) {
    let mut patterns = usize::from(schema["pattern"].is_string());
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if schema["pattern"].as_str().is_some_and(|pattern| rule["rule"] == format!("self.matches('{pattern}')")) {
            patterns -= 1;
            continue;
        }
        found.push(format!("{path}: {} | {}", rule["rule"].as_str().unwrap(), rule["message"].as_str().unwrap()));
    }
    assert_eq!(patterns, 0, "{path} has a pattern without words");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        rules(field, &format!("{path}.{name}"), found);
    }
    if schema["items"].is_object() {
        rules(&schema["items"], &format!("{path}[]"), found);
    }
}

#[test]
fn every_rule_says_what_would_be_right() {
    let mut found = Vec::new();
    rules(&spec_schema(), "spec", &mut found);
    let hostname = "self.all(key, key != 'kubernetes.io/hostname') | \
                    kubernetes.io/hostname names the very node that is to be replaced: leave it out";
    let leap_day = "!self.endsWith('-02-29') || int(self.substring(0, 4)) % 4 == 0 && \
                    (int(self.substring(0, 4)) % 100 != 0 || int(self.substring(0, 4)) % 400 == 0) | February has no 29th in that year";
    let expected = [
        "spec.blackouts[]: self.from <= self.to | to must not be before from: both days are part of the blackout".to_owned(),
        format!("spec.blackouts[].from: {leap_day}"),
        format!("spec.blackouts[].to: {leap_day}"),
        "spec.maintenanceWindows[]: self.start != self.end | end must be another time than start; a whole day is \"00:00\" to \"24:00\""
            .to_owned(),
        "spec.maintenanceWindows[].days: size(self) > 0 && self.all(day, day.lowerAscii() in ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']) | \
         list the days, each one of Mon, Tue, Wed, Thu, Fri, Sat, Sun"
            .to_owned(),
        "spec.nodePoolSelector.matchExpressions[]: self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : \
         !has(self.values) || size(self.values) == 0 | In and NotIn need at least one value, Exists and DoesNotExist take none"
            .to_owned(),
        "spec.prePull.enabled: self == false | must be false: pulling images ahead is not supported".to_owned(),
        format!("spec.surge.matchNodeRequirements.preferred: {hostname}"),
        format!("spec.surge.matchNodeRequirements.required: {hostname}"),
        "spec.surge.maxUnavailable: self == 1 | must be 1: nodes of a pool are replaced one at a time".to_owned(),
        "spec.surge.readyTimeout: self.matches('[1-9]') | must be longer than 0, such as 15m".to_owned(),
        "spec.surge.retryBackoff: self.matches('[1-9]') | must be longer than 0, such as 30m".to_owned(),
    ];
    assert_eq!(found, expected);
}
