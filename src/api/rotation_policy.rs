//! The types of the RotationPolicy CRD (`noderotation.io/v1alpha1`, §5.4), from which `crds/` is generated: a part of the
//! tests, for the program carries what is committed there.
//!
//! The schema refuses what can be judged without a table of zones; [`crate::policy::read`] repeats every rule, names the
//! path, and is what the engine uses: these types are the schema and nothing else. The schema sets no defaults, see
//! [`crate::policy::Settings`]. Lists and strings are bounded, so that the API server can bound the cost of the rules.
#![allow(clippy::duplicated_attributes, reason = "two printer columns may have the same type")]
#![allow(clippy::unwrap_used, reason = "in the code that kube's derive generates for constant rules")]

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Says which NodePools are rotated, when, and how. The most specific selector that matches a NodePool governs it.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "noderotation.io",
    version = "v1alpha1",
    kind = "RotationPolicy",
    plural = "rotationpolicies",
    shortname = "rotpol",
    status = "RotationPolicyStatus",
    derive = "PartialEq",
    doc = "Replaces the nodes of the NodePools it selects before they expire, inside maintenance windows, make-before-break.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Pools", type_ = "integer", json_path = ".status.matchedNodePools"),
    printcolumn(name = "Rotating", type_ = "integer", json_path = ".status.rotatingNodePools"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RotationPolicySpec {
    /// The NodePools it selects, by their labels. {} selects every NodePool. Of several policies that match, the one with the most
    /// constraints governs; equally many are a conflict, and nothing starts.
    pub node_pool_selector: NodePoolSelector,
    /// The age past which a node is replaced: `auto` derives it from the node's own lifetime and the windows; a duration
    /// (whole hours, minutes and seconds, such as 240h) overrides that. Default: auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^(auto|([0-9]+(s|m|h))+)$"))]
    pub age_threshold: Option<String>,
    /// How many windows a node gets to be replaced in before its deadline. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_rotation_chances: Option<i64>,
    /// When rotations may start: inside any of these windows.
    #[schemars(length(min = 1, max = 64))]
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// Days on which nothing starts, whatever the windows say. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub blackouts: Option<Vec<Blackout>>,
    /// Whether every start is stopped; a rotation in flight goes on. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How a node is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// Reserved: pulling images ahead is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_pull: Option<PrePull>,
}

/// A label selector.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSelector {
    /// Labels that must have exactly these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further constraints; all must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub match_expressions: Option<Vec<MatchExpression>>,
}

/// One constraint of a label selector.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0")
    .message("In and NotIn need at least one value, Exists and DoesNotExist take none"))]
pub struct MatchExpression {
    /// The label.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
    )]
    pub key: String,
    /// How it is compared.
    pub operator: MatchOperator,
    /// The values it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub values: Option<Vec<String>>,
}

/// How a constraint compares.
#[derive(schemars::JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Kubernetes' own names; documented variants would be told apart in the schema")]
pub enum MatchOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A time of the week during which rotations may start.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.start != self.end")
    .message("end must be another time than start; a whole day is \"00:00\" to \"24:00\""))]
pub struct MaintenanceWindow {
    /// The zone its times are in: an IANA name such as Europe/Berlin or UTC; no abbreviation, no offset.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"))]
    pub timezone: String,
    /// The days on which it starts: Mon, Tue, Wed, Thu, Fri, Sat, Sun, in any case.
    #[schemars(length(min = 1, max = 14), inner(length(max = 16)))]
    #[x_kube(validation = Rule::new("size(self) > 0 && self.all(day, day.lowerAscii() in ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'])")
        .message("list the days, each one of Mon, Tue, Wed, Thu, Fri, Sat, Sun"))]
    pub days: Vec<String>,
    /// Its first minute, "HH:MM" from "00:00" to "23:59".
    #[schemars(length(max = 5), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,
    /// The first minute after it, "HH:MM" from "00:00" to "24:00". Not later than start: on the next day.
    #[schemars(length(max = 5), regex(pattern = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub end: String,
}

/// A day that is the 29th of February is one of a leap year.
const LEAP_DAY: &str = "!self.endsWith('-02-29') || int(self.substring(0, 4)) % 4 == 0 && (int(self.substring(0, 4)) % 100 != 0 || int(self.substring(0, 4)) % 400 == 0)";

/// Days on which nothing starts.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.from <= self.to")
    .message("to must not be before from: both days are part of the blackout"))]
pub struct Blackout {
    /// The zone its days are in: an IANA name such as Europe/Berlin or UTC; no abbreviation, no offset.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"))]
    pub timezone: String,
    /// The first day, "YYYY-MM-DD".
    #[schemars(
        length(max = 10),
        regex(pattern = r"^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))$")
    )]
    #[x_kube(validation = Rule::new(LEAP_DAY).message("February has no 29th in that year"))]
    pub from: String,
    /// The last day, "YYYY-MM-DD"; it is part of the blackout.
    #[schemars(
        length(max = 10),
        regex(pattern = r"^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))$")
    )]
    #[x_kube(validation = Rule::new(LEAP_DAY).message("February has no 29th in that year"))]
    pub to: String,
    /// Why, for people. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}

/// How a node is replaced. Durations are whole hours, minutes and seconds, such as 1h30m.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Surge {
    /// How many nodes of a pool are replaced at a time; only 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == 1").message("must be 1: nodes of a pool are replaced one at a time"))]
    pub max_unavailable: Option<i64>,
    /// How long a replacement may take to become Ready before the attempt is rolled back; longer than 0. Default: 15m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    #[x_kube(validation = Rule::new("self.matches('[1-9]')").message("must be longer than 0, such as 15m"))]
    pub ready_timeout: Option<String>,
    /// How long nothing starts on a pool after a success; may be 0s. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub cooldown_after: Option<String>,
    /// How long nothing starts on a pool after a failure. Default: the longer of 10m and cooldownAfter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub failure_pause: Option<String>,
    /// How long a node is left alone after its first failed attempt; doubled with each further one, up to eight times; longer
    /// than 0. Default: 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    #[x_kube(validation = Rule::new("self.matches('[1-9]')").message("must be longer than 0, such as 30m"))]
    pub retry_backoff: Option<String>,
    /// How long a replacement is expected to take, for forecasts only. Default: the shorter of 5m and readyTimeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub provisioning_estimate: Option<String>,
    /// How long a drain is expected to take, for forecasts only. Default: the shorter of 10m and the pool's
    /// terminationGracePeriod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub drain_estimate: Option<String>,
    /// Stands for the terminationGracePeriod of a pool that sets none. Default: 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub drain_timeout: Option<String>,
    /// Which labels of the old node its replacement must, or should, have too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_node_requirements: Option<MatchNodeRequirements>,
    /// Whether the replacement is a whole empty node, so that a part-filled one can't stand in for it. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_node_reservation: Option<bool>,
    /// What happens when a node's deadline is too near for a surge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forceful_fallback: Option<ForcefulFallback>,
}

/// Which labels of the old node its replacement must, or should, have too.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchNodeRequirements {
    /// Labels the replacement must have with the same values; [] is none, on purpose.
    /// Default: topology.kubernetes.io/zone, kubernetes.io/arch, karpenter.sh/capacity-type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        inner(
            length(min = 1, max = 317),
            regex(pattern = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
        )
    )]
    #[x_kube(validation = Rule::new("self.all(key, key != 'kubernetes.io/hostname')")
        .message("kubernetes.io/hostname names the very node that is to be replaced: leave it out"))]
    pub required: Option<Vec<String>>,
    /// Labels the replacement should have with the same values. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        inner(
            length(min = 1, max = 317),
            regex(pattern = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
        )
    )]
    #[x_kube(validation = Rule::new("self.all(key, key != 'kubernetes.io/hostname')")
        .message("kubernetes.io/hostname names the very node that is to be replaced: leave it out"))]
    pub preferred: Option<Vec<String>>,
}

/// What happens when a node's deadline is too near for a surge.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForcefulFallback {
    /// Whether such a node is drained inside the window without a replacement at hand. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Reserved: pulling images ahead is not supported.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrePull {
    /// Only false. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == false").message("must be false: pulling images ahead is not supported"))]
    pub enabled: Option<bool>,
}

/// What a policy governs, and whether it can be used. Observational: no rotation depends on it.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationPolicyStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many NodePools it governs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_node_pools: Option<i64>,
    /// How many of those have a rotation in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotating_node_pools: Option<i64>,
    /// `Ready`, with the reason Accepted, Invalid or Conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<PolicyCondition>>,
}

/// A condition of a policy.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCondition {
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in a word: `Accepted`, `Invalid` or `Conflict`.
    pub reason: String,
    /// Why, with the fields' paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Since when it has this status, RFC 3339.
    pub last_transition_time: String,
}

/// Why the CRD could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The schema of the types can't be turned into the API's form.
    #[error("writing the schema of RotationPolicy as JSON")]
    Schema(#[from] serde_json::Error),
    /// The definition can't be written as YAML.
    #[error("writing the definition of RotationPolicy as YAML")]
    Yaml(#[from] serde_yaml_ng::Error),
}

/// Patterns of the schema, and what they ask for: a regular expression alone is no answer to someone who wrote `14d`.
const PATTERNS: [(&str, &str); 7] = [
    (r"^([0-9]+(s|m|h))+$", "must be whole hours, minutes and seconds, such as 1h30m: no days, no fractions"),
    (r"^(auto|([0-9]+(s|m|h))+)$", "must be auto, or whole hours, minutes and seconds, such as 240h: no days, no fractions"),
    (r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be \"HH:MM\" with two digits each, from \"00:00\" to \"23:59\""),
    (r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", "must be \"HH:MM\" with two digits each, from \"00:00\" to \"24:00\""),
    (
        r"^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))$",
        "must be a day as \"YYYY-MM-DD\", such as \"2026-12-19\"",
    ),
    (
        r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
        "must be a label key, such as workload or example.com/team",
    ),
    (r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$", "must be an IANA zone name, such as Europe/Berlin or UTC"),
];

/// The CustomResourceDefinition: that of the types, with words beside every pattern and without `nullable`, which kube's
/// derive writes for every field that may be missing. The API server then drops a `null` as it does in its own kinds, and
/// no rule ever sees one.
///
/// # Errors
/// [`CrdError::Schema`] where the types have no schema that the API could express.
pub fn crd() -> Result<CustomResourceDefinition, CrdError> {
    let mut definition = serde_json::to_value(RotationPolicy::crd())?;
    refine(&mut definition);
    Ok(serde_json::from_value(definition)?)
}

/// [`crd`] as YAML: what `crds/` holds and `noderotation crd` prints.
///
/// # Errors
/// [`CrdError`], as in [`crd`], or where it can't be written.
pub fn crd_yaml() -> Result<String, CrdError> {
    Ok(serde_yaml_ng::to_string(&crd()?)?)
}

fn refine(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("nullable");
            explain_pattern(fields);
            fields.values_mut().for_each(refine);
        }
        Value::Array(items) => items.iter_mut().for_each(refine),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn explain_pattern(schema: &mut Map<String, Value>) {
    let Some((pattern, message)) = PATTERNS.iter().find(|(pattern, _)| schema.get("pattern").and_then(Value::as_str) == Some(pattern))
    else {
        return;
    };
    let rule = json!({"rule": format!("self.matches('{pattern}')"), "message": message});
    match schema.entry("x-kubernetes-validations").or_insert_with(|| json!([])) {
        Value::Array(rules) => rules.insert(0, rule),
        other => *other = json!([rule]),
    }
}

#[cfg(test)]
mod tests;
