//! Breaks an object in one place. Its name, UID and version stay: the API server vouches for those.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::api::keys;

/// Texts that mean something somewhere, or nothing anywhere.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\t",
    "\u{feff}",
    "-",
    "0",
    "-0",
    "1",
    "-1",
    "true",
    "True",
    "false",
    "null",
    "~",
    "{}",
    "[]",
    "\u{0}",
    "\u{202e}abc",
    "Zürich/\u{1F600}",
    "naïve\u{301}",
    "a",
    "b",
    "c",
    "d",
    "node-a",
    "node-b",
    "web",
    "api",
    "weekly",
    "uid-a",
    "uid-web",
    "pending",
    "draining",
    "failed",
    "expired",
    "Pending",
    "forceful-fallback",
    "provisioned",
    // Quantities.
    "100m",
    "1.5Gi",
    "0.5Gi",
    "1e3",
    "129e6",
    "1Ei",
    "16Ei",
    "128974848000m",
    "5.",
    ".5",
    "+1",
    "100n",
    "1e-3",
    "9223372036854775807",
    "9223372036854775808",
    "12E",
    "1K",
    "1ki",
    "1 Gi",
    "1.5.5",
    "0x10",
    "1_000",
    "10e",
    "1e3Mi",
    "1e999999999",
    "1e-999999999",
    "-1e99",
    "99999999999999999999999999999999999999999999",
    "0.0000000000000000000000000000000000001",
    "NaN",
    "inf",
    "1e9223372036854775808",
    // Durations.
    "Never",
    "336h",
    "24h0m0s",
    "-1h",
    "1.5h",
    "14d",
    "0s",
    "1ns",
    "99999999999h",
    "2562047h47m16s",
    "-2562047h47m16s",
    "876000h",
    // Instants.
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "+262142-12-31T23:59:59Z",
    "-262143-01-01T00:00:00Z",
    "+999999-01-01T00:00:00Z",
    "2026-12-02T02:59:60Z",
    "2026-12-02T03:00:00Z",
    "2026-12-02T03:00:00+14:00",
    "2026-12-02 03:00:00",
    "2026-12-02",
    "2026-02-30",
    "1969-12-31T23:59:59.999999999Z",
    "1677-09-21T00:12:43Z",
    "2262-04-11T23:47:17Z",
    "1",
    "1764644400",
    // Windows.
    "24:00",
    "00:00",
    "25:61",
    "9:00",
    "24:01",
    "Mon",
    "monday",
    "Europe/Kyiv",
    "Pacific/Apia",
    "UTC+2",
    "PST",
    "Local",
    "../../etc",
    // Selectors, operators, keys.
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "Gte",
    "Lte",
    "in",
    "kubernetes.io/hostname",
    "a/b/c",
    "karpenter.sh/nodepool",
    "Running",
    "Succeeded",
    "Unknown",
    "Always",
    "Ready",
    "Registered",
    "Initialized",
    "DaemonSet",
    "system-node-critical",
    "100%",
    "-5%",
];

/// Fields that an object may gain.
const FIELDS: &[&str] = &[
    "/metadata/deletionTimestamp",
    "/metadata/creationTimestamp",
    "/metadata/finalizers",
    "/metadata/ownerReferences",
    "/metadata/generation",
    "/spec/replicas",
    "/spec/limits",
    "/spec/expireAfter",
    "/spec/terminationGracePeriod",
    "/spec/nodeName",
    "/spec/unschedulable",
    "/spec/taints",
    "/spec/affinity",
    "/spec/tolerations",
    "/spec/priority",
    "/spec/overhead",
    "/spec/resources",
    "/spec/suspend",
    "/spec/blackouts",
    "/spec/ageThreshold",
    "/spec/minRotationChances",
    "/spec/surge",
    "/spec/nodePoolSelector",
    "/spec/maintenanceWindows",
    "/spec/template",
    "/spec/selector",
    "/spec/maxUnavailable",
    "/status/nodeName",
    "/status/conditions",
    "/status/allocatable",
    "/status/capacity",
    "/status/resources",
    "/status/phase",
    "/status/startTime",
    "/status/containerStatuses",
    "/status/disruptionsAllowed",
];

const LABELS: &[&str] = &[keys::NODEPOOL_LABEL, keys::HOSTNAME_LABEL, keys::ZONE_LABEL, keys::MARKED, keys::SURGE_FOR, "workload", "tier"];

/// Breaks it.
pub fn break_somewhere(random: &mut StdRng, object: &mut Value) {
    match random.random_range(0..10) {
        0..=2 => annotate(random, object),
        3 => label(random, object),
        4 => {
            let field = FIELDS.choose(random).copied().unwrap_or("/spec/x");
            let value = value(random, 2);
            put(object, field, value);
        }
        _ => change(random, object),
    }
}

fn annotate(random: &mut StdRng, object: &mut Value) {
    let ours = keys::ANNOTATIONS.choose(random).map_or(keys::STATE, |key| key.key);
    let key = if random.random_bool(0.15) { keys::DO_NOT_DISRUPT } else { ours };
    let value = if random.random_bool(0.93) { json!(text(random)) } else { value(random, 1) };
    note(object, "annotations", key, value);
}

fn label(random: &mut StdRng, object: &mut Value) {
    let key = LABELS.choose(random).copied().unwrap_or(keys::MARKED);
    let value = if random.random_bool(0.93) { json!(text(random)) } else { value(random, 1) };
    note(object, "labels", key, value);
}

fn note(object: &mut Value, part: &str, key: &str, value: Value) {
    let part = &mut object["metadata"][part];
    if !part.is_object() {
        *part = json!({});
    }
    part[key] = value;
}

fn put(object: &mut Value, pointer: &str, value: Value) {
    let (part, key) = pointer[1..].split_once('/').unwrap_or(("spec", "x"));
    if !object[part].is_object() {
        object[part] = json!({});
    }
    object[part][key] = value;
}

/// Any value of the object that is there: another one, none, doubled, or as another type.
fn change(random: &mut StdRng, object: &mut Value) {
    let mut paths = Vec::new();
    walk(object, String::new(), &mut paths);
    paths.retain(|path| {
        !["/metadata", "/metadata/name", "/metadata/uid", "/metadata/resourceVersion", "/metadata/namespace"].contains(&path.as_str())
    });
    let Some(path) = paths.choose(random) else { return };
    if random.random_bool(0.2) {
        return remove(object, path);
    }
    let Some(at) = object.pointer_mut(path) else { return };
    *at = match at.take() {
        Value::Array(mut items) if !items.is_empty() && random.random_bool(0.5) => {
            let again = items[0].clone();
            for _ in 0..random.random_range(1..4) {
                items.push(again.clone());
            }
            Value::Array(items)
        }
        Value::String(old) if random.random_bool(0.2) => match random.random_range(0..4) {
            0 => json!(old.parse::<i64>().unwrap_or(7)),
            1 => json!(old.to_uppercase()),
            2 => json!(format!(" {old} ")),
            _ => json!(old.repeat(300)),
        },
        _ => value(random, 2),
    };
}

fn walk(value: &Value, path: String, paths: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| walk(value, format!("{path}/{}", escaped(key)), paths)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| walk(value, format!("{path}/{index}"), paths)),
        _ => {}
    }
    if !path.is_empty() {
        paths.push(path);
    }
}

fn remove(object: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => items.clear(),
        _ => {}
    }
}

fn text(random: &mut StdRng) -> String {
    match random.random_range(0..20) {
        0 => "9".repeat(random.random_range(1..400)),
        1 => "x".repeat(random.random_range(60..70)),
        2 => (0..random.random_range(0..12)).map(|_| random.random::<char>()).collect(),
        3 => format!("{}", random.random::<i64>()),
        _ => TEXTS.choose(random).copied().unwrap_or_default().to_owned(),
    }
}

fn value(random: &mut StdRng, depth: u32) -> Value {
    match random.random_range(0..12) {
        0 => Value::Null,
        1 => json!(random.random_bool(0.5)),
        2 => json!([0, -1, 1, i64::MIN, i64::MAX, 65_536].choose(random)),
        3 => json!(u64::MAX),
        4 => json!([1e308, -1e308, 0.1, 1e-300, 1e19].choose(random)),
        5 if depth > 0 => json!([value(random, depth - 1)]),
        6 if depth > 0 => {
            let (key, value) = (text(random), value(random, depth - 1));
            json!({ key: value })
        }
        7 => json!({}),
        8 => json!([]),
        _ => json!(text(random)),
    }
}
