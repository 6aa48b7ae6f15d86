//! What is shipped beside the program and needs no cluster to be checked: alerts, dashboard, manifests, policies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic anywhere")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use noderotation::report::metrics::METRICS;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    use serde::Deserialize;
    serde_yaml_ng::Deserializer::from_str(&read(path)).map(|document| Value::deserialize(document).unwrap()).collect()
}

const RULES: &str = "kustomize/overlays/monitoring/rules.yaml";
const PROMETHEUS_RULE: &str = "kustomize/overlays/monitoring/prometheusrule.yaml";
const DASHBOARD: &str = "kustomize/overlays/monitoring/dashboard.json";

fn alerts() -> Vec<Value> {
    documents(RULES)[0]["groups"][0]["rules"].as_array().unwrap().clone()
}

#[test]
fn the_operators_rules_are_the_plain_ones() {
    let plain = read(RULES);
    let rules = &plain[plain.find("groups:").unwrap()..];
    let indented: String = rules.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("  {line}\n") }).collect();
    let object = read(PROMETHEUS_RULE);
    let head = &object[..object.find("\nspec:\n").unwrap() + "\nspec:\n".len()];
    let wanted = format!("{head}{indented}");
    if std::env::var_os("UPDATE_RULES").is_some() {
        fs::write(root().join(PROMETHEUS_RULE), wanted).unwrap();
        return;
    }
    assert!(object == wanted, "{PROMETHEUS_RULE} differs from {RULES}; UPDATE_RULES=1 cargo test --test monitoring writes it anew");
    assert_eq!(documents(PROMETHEUS_RULE)[0]["spec"]["groups"], documents(RULES)[0]["groups"]);
}

#[test]
fn every_alert_says_how_bad_what_and_what_to_do() {
    let mut pages = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{name}: {severity:?}");
        for field in ["summary", "description"] {
            assert!(alert["annotations"][field].as_str().is_some_and(|text| text.len() > 20), "{name}: {field}");
        }
        let page = alert["annotations"]["runbook_url"].as_str().unwrap();
        assert_eq!(page, format!("docs/runbook/{name}.md"));
        let text = read(page);
        assert!(text.starts_with(&format!("# {name}\n")) && text.contains("\n## Look at\n") && text.contains("\n## Do\n"), "{page}");
        assert!(read("docs/runbook.md").contains(&format!("(runbook/{name}.md)")), "docs/runbook.md lacks {name}");
        pages.insert(format!("{name}.md"));
    }
    let written: BTreeSet<String> =
        fs::read_dir(root().join("docs/runbook")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(written, pages, "a page for each alert, and no other");
}

/// Every expression of the alerts and the dashboard, with where it stands.
fn expressions() -> Vec<(String, String)> {
    fn walk(value: &Value, title: &str, found: &mut Vec<(String, String)>) {
        let title = value["title"].as_str().unwrap_or(title);
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    match field {
                        Value::String(text) if key == "expr" => found.push((title.into(), text.clone())),
                        field => walk(field, title, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, title, found)),
            _ => {}
        }
    }
    let mut found: Vec<(String, String)> =
        alerts().iter().map(|alert| (alert["alert"].as_str().unwrap().into(), alert["expr"].as_str().unwrap().into())).collect();
    walk(&serde_json::from_str(&read(DASHBOARD)).unwrap(), "", &mut found);
    found
}

#[test]
fn every_series_that_is_asked_for_is_one_of_ours() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let mut asked = BTreeSet::new();
    for (place, expression) in expressions() {
        for word in expression.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
            let family = family.filter(|family| names.contains(family)).unwrap_or(word);
            if word.starts_with("noderotation_") {
                assert!(names.contains(family), "{place}: there is no {word}");
                asked.insert(family.to_owned());
            }
        }
    }
    let unused: Vec<&str> = names.iter().copied().filter(|name| !asked.contains(*name)).collect();
    // Success is what counts; that a pass ended says little.
    assert_eq!(unused, ["noderotation_pass_timestamp_seconds"], "neither an alert nor the dashboard shows them");
}

#[test]
fn the_image_has_the_version_of_the_program() {
    let image = &documents("cronjob/cronjob.yaml")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, &format!("noderotation:{}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_policy_to_copy_is_valid() {
    let folder = root().join("kustomize/policies");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let policy: Value = documents(path.strip_prefix(root()).unwrap().to_str().unwrap()).remove(0);
        assert_eq!(policy["spec"]["surge"]["readyTimeout"], "20m", "{}: Karpenter gives a registration 15 minutes", path.display());
        let read = noderotation::policy::read::policy(&serde_json::from_value(policy).unwrap());
        assert_eq!(read.problems, [], "{}", path.display());
        names.insert(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    let linked = read("docs/install.md");
    assert!(names.iter().all(|name| linked.contains(&format!("kustomize/policies/{name}"))), "docs/install.md lists {names:?}");
}

/// One right: where, group, resource (with the name it is restricted to), verb.
type Right = (String, String, String, String);

fn granted() -> BTreeSet<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().map(|items| items.iter().map(text).collect::<Vec<_>>()).unwrap_or_default();
    let mut rights = BTreeSet::new();
    for role in documents("kustomize/without-cronjob/rbac.yaml").iter().filter(|object| object["rules"].is_array()) {
        let place = role["metadata"]["namespace"].as_str().unwrap_or("cluster");
        for rule in role["rules"].as_array().unwrap() {
            for group in list(&rule["apiGroups"]) {
                let group = if group.is_empty() { "core".into() } else { group };
                for resource in list(&rule["resources"]) {
                    let names = list(&rule["resourceNames"]);
                    let resource = names.first().map_or(resource.clone(), |name| format!("{resource}/{name}"));
                    rights.extend(list(&rule["verbs"]).into_iter().map(|verb| (place.into(), group.clone(), resource.clone(), verb)));
                }
            }
        }
    }
    rights
}

#[test]
fn security_md_explains_every_right() {
    let page = read("docs/security.md");
    let explained: BTreeSet<Right> = page
        .lines()
        .skip_while(|line| !line.starts_with("| In | Group"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            assert!(cells.len() == 5 && !cells[4].is_empty(), "{line}");
            (cells[0].into(), cells[1].into(), cells[2].into(), cells[3].into())
        })
        .collect();
    assert_eq!(explained, granted(), "docs/security.md (left), kustomize/without-cronjob/rbac.yaml (right)");
}

#[test]
fn commands_name_files_that_are_there() {
    let mut missing = Vec::new();
    for page in ["README.md", "docs/install.md", "docs/uninstall.md", "docs/runbook.md"] {
        for line in read(page).lines().filter(|line| line.trim_start().starts_with("kubectl") || line.starts_with("sed")) {
            let files = line.split_whitespace().filter(|word| word.starts_with("kustomize/") && !word.contains('*'));
            missing.extend(files.filter(|file| !Path::new(&root()).join(file).exists()).map(|file| format!("{page}: {file}")));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
