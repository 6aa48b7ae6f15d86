//! `check` against the real API server: what one accepts the other accepts.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use control_plane::{ControlPlane, Options};
use noderotation::api::CRD;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

/// How many mutated policies.
const FILES: usize = 1000;

fn whole() -> Value {
    json!({
        "apiVersion": "noderotation.io/v1alpha1",
        "kind": "RotationPolicy",
        "metadata": {"name": "nights", "labels": {"team": "web"}, "annotations": {"example.com/note": "x"}},
        "spec": {
            "nodePoolSelector": {
                "matchLabels": {"example.com/team": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "gpu", "operator": "DoesNotExist"}],
            },
            "ageThreshold": "240h",
            "minRotationChances": 2,
            "maintenanceWindows": [
                {"timezone": "Europe/Berlin", "days": ["Wed", "sat"], "start": "02:00", "end": "06:00"},
                {"timezone": "UTC", "days": ["Sun"], "start": "22:00", "end": "24:00"},
            ],
            "blackouts": [{"timezone": "Europe/Berlin", "from": "2026-12-19", "to": "2027-01-04", "reason": "holidays"}],
            "suspend": false,
            "surge": {
                "maxUnavailable": 1,
                "readyTimeout": "20m",
                "cooldownAfter": "10m",
                "failurePause": "0s",
                "retryBackoff": "30m",
                "provisioningEstimate": "5m",
                "drainEstimate": "10m",
                "drainTimeout": "1h",
                "wholeNodeReservation": false,
                "matchNodeRequirements": {"required": ["topology.kubernetes.io/zone"], "preferred": ["kubernetes.io/arch"]},
                "forcefulFallback": {"enabled": true},
            },
            "prePull": {"enabled": false},
        },
    })
}

/// What a field is replaced by.
fn replacements() -> Vec<Value> {
    vec![
        json!(null),
        json!(""),
        json!(" "),
        json!("x"),
        json!("auto"),
        json!("Never"),
        json!("0s"),
        json!("1h"),
        json!("1h30m"),
        json!("14d"),
        json!("1.5h"),
        json!("-1h"),
        json!("1H"),
        json!("h"),
        json!("00:00"),
        json!("24:00"),
        json!("24:01"),
        json!("2:00"),
        json!("02:60"),
        json!("06:00"),
        json!("Mon"),
        json!("MON"),
        json!("Monday"),
        json!("In"),
        json!("Exists"),
        json!("in"),
        json!("2026-12-19"),
        json!("2026-02-30"),
        json!("2026-2-3"),
        json!("2028-02-29"),
        json!("2027-02-29"),
        json!("UTC"),
        json!("utc"),
        json!("kubernetes.io/hostname"),
        json!("a/b/c"),
        json!("-a"),
        json!("a".repeat(64)),
        json!("a".repeat(318)),
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(1.0),
        json!(1.5),
        json!(9_223_372_036_854_775_807_i64),
        json!(true),
        json!(false),
        json!([]),
        json!({}),
        json!([null]),
        json!([""]),
        json!(["x"]),
        json!(["Mon", "mon"]),
        json!([1]),
        json!({"enabled": true}),
        json!({"x": "y"}),
        json!({"x": 1}),
        json!(vec!["Mon"; 15]),
        json!(vec!["x"; 65]),
        json!("é"),
        json!("yes"),
        json!("10\n"),
    ]
}

/// All paths into an object, as JSON pointers.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{at}/{name}");
        paths(child, &path, found);
        // Another kind of object is none of ours.
        if !["/apiVersion", "/kind"].contains(&path.as_str()) {
            found.push(path);
        }
    }
}

fn mutated(random: &mut StdRng) -> Value {
    let mut policy = whole();
    for _ in 0..random.random_range(1..=2) {
        let mut found = Vec::new();
        paths(&policy, "", &mut found);
        let Some(path) = found.choose(random) else { continue };
        let (parent, name) = path.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        let replacement = replacements().choose(random).unwrap().clone();
        let parent = if parent.is_empty() { &mut policy } else { policy.pointer_mut(parent).unwrap() };
        match (parent, random.random_range(0..6)) {
            (Value::Object(fields), 0) => drop(fields.remove(&name)),
            (Value::Object(fields), 1) => drop(fields.insert(format!("{name}x"), replacement)),
            (Value::Object(fields), _) => drop(fields.insert(name, replacement)),
            (Value::Array(items), 0) => drop(items.remove(name.parse().unwrap())),
            (Value::Array(items), 1) => items.push(replacement),
            (Value::Array(items), _) => items[name.parse::<usize>().unwrap()] = replacement,
            _ => {}
        }
    }
    policy
}

/// What `check` finds, by file.
fn checked(files: &[PathBuf]) -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO_BIN_EXE_noderotation")).args(["check", "-o", "json"]).args(files).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for diagnostic in told["diagnostics"].as_array().unwrap() {
        if ["InvalidField", "InvalidYaml", "KBelowOne"].contains(&diagnostic["code"].as_str().unwrap()) {
            let (path, message) = (diagnostic["path"].as_str().unwrap(), diagnostic["message"].as_str().unwrap());
            found.entry(diagnostic["file"].as_str().unwrap().into()).or_default().push(format!("{path}: {message}"));
        }
    }
    found
}

/// Nobody but a table of zones can judge a zone's name, and the server has none; nor does it look at the keys of
/// `matchLabels`, since it can't bound what that would cost.
fn is_ours_alone(problem: &str) -> bool {
    problem.contains(".timezone: ") || problem.contains("a label key, such as workload")
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_check_accepts_the_api_server_accepts_and_the_other_way_round() {
    let plane = ControlPlane::start(Options { karpenter: false, ..Options::default() }).await.unwrap();
    plane.apply(CRD).await.unwrap();
    plane.run_kubectl(&["wait", "--for=condition=Established", "crd/rotationpolicies.noderotation.io", "--timeout=60s"], "").await.unwrap();
    let mut random = StdRng::seed_from_u64(20_301_207);
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..FILES).map(|number| directory.path().join(format!("{number}.yaml"))).collect();
    for (number, file) in files.iter().enumerate() {
        let policy = if number == 0 { whole() } else { mutated(&mut random) };
        fs::write(file, serde_yaml_ng::to_string(&policy).unwrap()).unwrap();
    }
    let checked = checked(&files);
    let (mut accepted, mut wrong) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let server = admitted(&plane, &text).await;
        let problems = checked.get(&file.display().to_string()).cloned().unwrap_or_default();
        accepted += usize::from(server.is_ok());
        match (&server, problems.is_empty()) {
            (Ok(()), true) | (Err(_), false) => {}
            (Ok(()), false) if problems.iter().all(|problem| is_ours_alone(problem)) => {}
            _ => wrong.push(format!("check: {problems:?}\nserver: {server:?}\n{text}")),
        }
    }
    assert!((FILES / 10..FILES).contains(&accepted), "{accepted} of {FILES} were accepted: the mutations prove nothing");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.iter().take(15).cloned().collect::<Vec<_>>().join("\n---\n"));
}

/// What the server says under dry run and strict validation.
async fn admitted(plane: &ControlPlane, yaml: &str) -> Result<(), String> {
    let path = "/apis/noderotation.io/v1alpha1/rotationpolicies?dryRun=All&fieldValidation=Strict";
    let request = http::Request::post(path).header("content-type", "application/yaml").body(yaml.as_bytes().to_vec()).unwrap();
    plane.client().request_text(request).await.map(drop).map_err(|error| error.to_string())
}
