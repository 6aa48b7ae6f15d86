//! The placeholder (§6): a bare Pod that asks for the old node's room, so that Karpenter brings another node; and what
//! has become of it.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{
        Capabilities, LocalObjectReference, NodeAffinity, PodSecurityContext, ResourceRequirements, SeccompProfile, SecurityContext, Taint,
        Toleration,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use sha2::{Digest, Sha256};

use super::pods::{is_completed, is_terminating, node_of, phase};
use crate::api::{
    karpenter::NodePool,
    keys,
    pod::{Affinity, Container, Pod, PodSpec},
    quantity::{Quantity, Resources},
};

/// What is the same for every placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceholderSettings {
    /// The program's namespace, where placeholders live.
    pub namespace: String,
    /// The pause image.
    pub image: String,
    /// Secrets to pull it with.
    pub pull_secrets: Vec<String>,
}

/// The longest name of an object.
const NAME_MAX: usize = 253;
/// The longest value of a label.
const LABEL_MAX: usize = 63;
/// The user that the pause image runs as anyway.
const USER: i64 = 65535;

/// The name of a claim's placeholder; hash-shortened where it would be too long for a name.
pub fn placeholder_name(claim: &str) -> String {
    shortened(&format!("{}{claim}", keys::PLACEHOLDER_PREFIX), NAME_MAX)
}

/// The value of the label `surge-for`: the claim's name where a label can hold it, else its beginning and a hash, so that
/// two long names never share one (case C06).
pub fn surge_for_label(claim: &str) -> String {
    shortened(claim, LABEL_MAX)
}

/// The text itself where it is at most `max` long and valid as a label value; else as much of it as fits and 64 bits of
/// its SHA-256. Starts and ends with a letter or digit, as names and label values must.
fn shortened(text: &str, max: usize) -> String {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let bytes = text.as_bytes();
    if bytes.len() <= max && is_end(bytes.first()) && is_end(bytes.last()) && text.chars().all(is_inner) {
        return text.into();
    }
    let hash: String = Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = text.chars().filter(|letter| is_inner(*letter)).take(max - hash.len() - 1).collect();
    // The parts of a name between dots must not end with a hyphen or begin with one.
    let kept = kept.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    if kept.is_empty() { hash } else { format!("{kept}-{hash}") }
}

/// The claim that a placeholder belongs to. Its annotation decides: the label may hold a shortened name.
pub fn claim_of(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(keys::SURGE_FOR).map(String::as_str)
}

/// The placeholder Pod for a claim of the pool.
pub fn placeholder(settings: &PlaceholderSettings, pool: &NodePool, claim: &str, request: &Resources, node_affinity: NodeAffinity) -> Pod {
    let text = |key: &str, value: String| (key.to_owned(), value);
    let metadata = ObjectMeta {
        name: Some(placeholder_name(claim)),
        namespace: Some(settings.namespace.clone()),
        labels: Some(BTreeMap::from([
            text(keys::SURGE_FOR, surge_for_label(claim)),
            text(keys::NODEPOOL_LABEL, pool.metadata.name.clone()),
        ])),
        annotations: Some(BTreeMap::from([text(keys::SURGE_FOR, claim.to_owned()), text(keys::DO_NOT_DISRUPT, "true".to_owned())])),
        ..ObjectMeta::default()
    };
    let secrets = settings.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() }).collect::<Vec<_>>();
    let spec = PodSpec {
        affinity: Some(Affinity { node_affinity: Some(node_affinity) }.into()),
        automount_service_account_token: Some(false),
        containers: vec![container(settings, request)].into(),
        enable_service_links: Some(false),
        image_pull_secrets: Some(secrets).filter(|secrets| !secrets.is_empty()),
        priority_class_name: Some(keys::SURGE_PRIORITY_CLASS.into()),
        // A pause that crashes begins again on the same node and keeps its place. What the kubelet refuses is Failed all the same.
        restart_policy: Some("Always".into()),
        security_context: Some(PodSecurityContext {
            run_as_group: Some(USER),
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        termination_grace_period_seconds: Some(0),
        tolerations: Some(pool.spec.template.spec.taints.iter().map(toleration).collect()),
        ..PodSpec::default()
    };
    Pod { metadata, spec: Some(spec), status: None }
}

fn container(settings: &PlaceholderSettings, request: &Resources) -> Container {
    let mut request = request.clone();
    let has = |resource: &str| request.0.contains_key(resource);
    if !has("cpu") && !has("memory") && request.0.keys().any(|resource| resource.starts_with("hugepages-")) {
        // The API server wants hugepages to come with one of them, and is content with 0.
        request.0.insert("cpu".into(), Quantity::ZERO);
    }
    let limits =
        Resources(request.0.iter().filter(|(resource, _)| needs_limit(resource)).map(|(key, value)| (key.clone(), *value)).collect());
    Container {
        name: "pause".into(),
        image: Some(settings.image.clone()),
        resources: Some(ResourceRequirements {
            claims: None,
            limits: Some(limits.to_api()).filter(|limits| !limits.is_empty()),
            requests: Some(request.to_api()).filter(|requests| !requests.is_empty()),
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".into()]) }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Whether the API server insists on a limit equal to the request: for hugepages, and for resources that aren't
/// Kubernetes' own (case C09).
fn needs_limit(resource: &str) -> bool {
    resource.starts_with("hugepages-") || (resource.contains('/') && !resource.contains("kubernetes.io/"))
}

fn toleration(taint: &Taint) -> Toleration {
    Toleration {
        key: Some(taint.key.clone()),
        operator: Some("Equal".into()),
        value: Some(taint.value.clone().unwrap_or_default()),
        effect: Some(taint.effect.clone()),
        toleration_seconds: None,
    }
}

/// What has become of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceholderState {
    /// There is none.
    Missing,
    /// It has ended (a kubelet refused it, it was evicted or preempted): counts as missing, but has the name, so it is
    /// deleted first.
    Terminal {
        /// `Failed` or `Succeeded`, with reason and message.
        why: String,
    },
    /// It is being deleted, and has the name until then: wait a pass.
    Terminating,
    /// It has no node yet.
    Unbound,
    /// It has a node, and doesn't run yet.
    Bound {
        /// The node.
        node: String,
        /// What its container waits for, where the kubelet says so.
        waiting: Option<Waiting>,
    },
    /// It runs.
    Running {
        /// The node.
        node: String,
    },
}

/// Why a container doesn't run, as its kubelet says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its image.
    pub image: String,
    /// Such as `ErrImagePull`.
    pub reason: String,
    /// For people; may be empty.
    pub message: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "image {}: {}", self.image, joined(&[&self.reason, &self.message]))
    }
}

impl fmt::Display for PlaceholderState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(formatter, "there is no placeholder"),
            Self::Terminal { why } => write!(formatter, "the placeholder has ended: {why}"),
            Self::Terminating => write!(formatter, "an earlier placeholder is still terminating"),
            Self::Unbound => write!(formatter, "the placeholder has no node yet"),
            Self::Bound { node, waiting: None } => write!(formatter, "the placeholder is bound to node {node} and doesn't run yet"),
            Self::Bound { node, waiting: Some(waiting) } => {
                write!(formatter, "the placeholder is bound to node {node} and waits: {waiting}")
            }
            Self::Running { node } => write!(formatter, "the placeholder runs on node {node}"),
        }
    }
}

fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

impl PlaceholderState {
    /// What a Pod says.
    pub fn of(pod: Option<&Pod>) -> Self {
        let Some(pod) = pod else { return Self::Missing };
        if is_terminating(pod) {
            return Self::Terminating;
        }
        let status = pod.status.as_ref();
        if is_completed(pod) {
            let text = |field: Option<&String>| field.cloned().unwrap_or_default();
            let reason = text(status.and_then(|status| status.reason.as_ref()));
            let message = text(status.and_then(|status| status.message.as_ref()));
            return Self::Terminal { why: joined(&[phase(pod), &reason, &message]) };
        }
        match node_of(pod) {
            None => Self::Unbound,
            Some(node) if phase(pod) == "Running" => Self::Running { node: node.into() },
            Some(node) => Self::Bound { node: node.into(), waiting: waiting(pod) },
        }
    }

    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Bound { node, .. } | Self::Running { node } => Some(node),
            Self::Missing | Self::Terminal { .. } | Self::Terminating | Self::Unbound => None,
        }
    }
}

fn waiting(pod: &Pod) -> Option<Waiting> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    // The status may name no image before the first pull.
    let declared = || Some(pod.spec.as_ref()?.containers.first()?.image.clone()).flatten();
    let image = Some(status.image.clone()).filter(|image| !image.is_empty()).or_else(declared).unwrap_or_default();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Some(Waiting { image, reason: text(&waiting.reason), message: text(&waiting.message) })
}

#[cfg(test)]
mod tests;
