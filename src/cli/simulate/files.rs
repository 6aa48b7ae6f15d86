//! A fleet and its policies from YAML or JSON, as `kubectl get -o yaml` prints it: lists and any number of documents.

use std::{
    io,
    path::{Path, PathBuf},
};

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::question::Found;
use crate::{
    api::{
        json,
        karpenter::{Node, NodeClaim, NodeClaimSpec, NodePool},
        pod::Pod,
        time::parse_duration,
    },
    cli::check::yaml::{self, Content, Node as Yaml},
    policy::read,
};

/// A document, with its places where it came as YAML.
struct Document {
    value: Value,
    places: Option<Yaml>,
}

/// Reads files; `-` is standard input.
///
/// # Errors
/// What can't be read: file, place, object, field, what stands there and what would be right.
pub fn read(paths: &[PathBuf]) -> Result<Found, String> {
    let mut found = Found::default();
    for path in paths {
        let name = path.display().to_string();
        let text = text(path).map_err(|error| format!("reading {name}: {error}"))?;
        for document in documents(&name, &text)? {
            take(&name, document, &mut found)?;
        }
    }
    Ok(found)
}

fn text(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut io::stdin(), &mut text).map(|_| text)
}

fn documents(file: &str, text: &str) -> Result<Vec<Document>, String> {
    if text.trim_start().starts_with('{') {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        // What is no JSON may still be YAML in braces.
        if let Ok(values) = values {
            return Ok(values.into_iter().map(|value| Document { value, places: None }).collect());
        }
    }
    let (documents, fault) = yaml::documents(text);
    match fault {
        Some(fault) => Err(format!("{file}:{}:{}: {}", fault.at.line, fault.at.column, fault.why)),
        None => Ok(documents.into_iter().map(|places| Document { value: places.json(), places: Some(places) }).collect()),
    }
}

/// Sorts one object in; other kinds are none of ours.
fn take(file: &str, document: Document, found: &mut Found) -> Result<(), String> {
    let text = |field: &str| document.value[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if kind.ends_with("List") && document.value["items"].is_array() {
        let places = document.places.as_ref().and_then(|places| match &places.field("items")?.content {
            Content::List(items) => Some(items.clone()),
            Content::Scalar(_) | Content::Object(_) => None,
        });
        if kind == "PodDisruptionBudgetList" {
            found.objects.budgets.get_or_insert_default();
        }
        let items = document.value["items"].as_array().cloned().unwrap_or_default();
        for (index, value) in items.into_iter().enumerate() {
            let places = places.as_ref().and_then(|places| places.get(index).cloned());
            take(file, Document { value, places }, found)?;
        }
        return Ok(());
    }
    let objects = &mut found.objects;
    let about = Read { file, kind: &kind, document: &document };
    match (group, kind.as_str()) {
        ("noderotation.io", "RotationPolicy") => {
            let policy = read::policy(&document.value);
            if let Some(problem) = policy.problems.first() {
                return Err(about.wrong(&problem.path, &problem.to_string()));
            }
            found.policies.insert(about.name()?, policy);
        }
        ("karpenter.sh", "NodePool") => {
            let pool: NodePool = about.object()?;
            about.durations("spec.template.spec", &pool.spec.template.spec)?;
            objects.pools.insert(about.name()?, pool.into());
        }
        ("karpenter.sh", "NodeClaim") => {
            let claim: NodeClaim = about.object()?;
            about.durations("spec", &claim.spec)?;
            about.created(claim.metadata.creation_timestamp.is_some())?;
            objects.claims.insert(about.name()?, claim.into());
        }
        ("", "Node") => {
            let node: Node = about.object()?;
            about.created(node.metadata.creation_timestamp.is_some())?;
            objects.nodes.insert(about.name()?, node.into());
        }
        ("", "Pod") => objects.pods.push(about.object::<Pod>()?),
        ("policy", "PodDisruptionBudget") => {
            let budget: PodDisruptionBudget = about.object()?;
            about.amounts(&budget)?;
            objects.budgets.get_or_insert_default().push(budget);
        }
        _ => {}
    }
    Ok(())
}

/// An object that is being read.
struct Read<'a> {
    file: &'a str,
    kind: &'a str,
    document: &'a Document,
}

impl Read<'_> {
    fn object<T: DeserializeOwned>(&self) -> Result<T, String> {
        json::from_value(&self.document.value).map_err(|error| {
            let path = error.path.to_string();
            let pointer: String = error.path.iter().map(|part| format!("/{part}").replace(['[', ']'], "")).collect();
            let value = self.document.value.pointer(&pointer).map(|value| format!("{value}: ")).unwrap_or_default();
            let expected = if path.ends_with("Timestamp") { "; an instant is such as 2030-01-07T06:00:00Z" } else { "" };
            self.wrong(&path, &format!("{path}: {value}{}{expected}", error.why))
        })
    }

    fn name(&self) -> Result<String, String> {
        let name = self.document.value["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| self.wrong("metadata.name", "metadata.name: missing: the object's name"))
    }

    /// What Karpenter's admission would refuse must not be read as unset.
    fn durations(&self, path: &str, spec: &NodeClaimSpec) -> Result<(), String> {
        let expire_after = ("expireAfter", &spec.expire_after, "Never, or a duration such as 336h");
        let grace = ("terminationGracePeriod", &spec.termination_grace_period, "a duration such as 1h");
        for (field, value, expected) in [expire_after, grace] {
            let Some(text) = value else { continue };
            if parse_duration(text).is_none() && !(text == "Never" && field == "expireAfter") {
                let path = format!("{path}.{field}");
                return Err(self.wrong(&path, &format!("{path}: {text:?}: {expected}")));
            }
        }
        Ok(())
    }

    /// What the API server would refuse must not be counted with.
    fn amounts(&self, budget: &PodDisruptionBudget) -> Result<(), String> {
        let Some(spec) = &budget.spec else { return Ok(()) };
        for (field, value) in [("maxUnavailable", &spec.max_unavailable), ("minAvailable", &spec.min_available)] {
            let (is_right, told) = match value {
                None => continue,
                Some(IntOrString::Int(count)) => (*count >= 0, count.to_string()),
                Some(IntOrString::String(text)) => {
                    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok());
                    (percent.is_some_and(|percent| percent <= 100), format!("{text:?}"))
                }
            };
            if !is_right {
                let path = format!("spec.{field}");
                return Err(self.wrong(&path, &format!("{path}: {told}: a whole number from 0 on, or a percentage such as \"50%\"")));
            }
        }
        Ok(())
    }

    fn created(&self, is_known: bool) -> Result<(), String> {
        let path = "metadata.creationTimestamp";
        if is_known {
            Ok(())
        } else {
            Err(self.wrong(path, &format!("{path}: missing: when it was created, such as 2030-01-07T06:00:00Z")))
        }
    }

    fn wrong(&self, path: &str, message: &str) -> String {
        let place = self.document.places.as_ref().map(|places| places.locate(path));
        let place = place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default();
        let name = self.document.value["metadata"]["name"].as_str().unwrap_or("(without a name)");
        format!("{}{place}: {} {name}: {message}", self.file, self.kind)
    }
}
