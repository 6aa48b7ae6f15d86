//! Where the placeholder may go (§6): into the same pool, to a node like the old one, and rather not to a node that is
//! itself about to be replaced.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm};

use crate::api::{
    karpenter::{Node, NodeClaim, NodePool, Requirement},
    keys,
};

/// The placeholder's affinity, and what could not be replicated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Affinity {
    /// For the Pod.
    pub node_affinity: NodeAffinity,
    /// Keys that were left out.
    pub dropped: Vec<Dropped>,
}

/// A key of `matchNodeRequirements` that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The key.
    pub key: String,
    /// Its values on the old node; empty where it has none.
    pub values: Vec<String>,
    /// Why, with what the pool allows.
    pub why: String,
}

impl std::fmt::Display for Dropped {
    /// `topology.kubernetes.io/zone c: not asked of the replacement, since NodePool web allows only: In [a, b]`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = self.values.iter().map(|value| format!(" {value}")).collect::<Vec<_>>().join(",");
        write!(formatter, "{}{values}: not asked of the replacement, since {}", self.key, self.why)
    }
}

/// The placeholder's affinity. `required` and `preferred` are the keys of the policy's `matchNodeRequirements`;
/// `triggered` are the Nodes of claims past their own trigger (the candidate's need not be among them).
///
/// A required hostname term is never written, whatever the policy lists: Karpenter provisions nothing for such a Pod. Nor
/// are there ever two terms for one key, which could contradict.
pub fn affinity<'a>(
    pool: &NodePool,
    claim: &NodeClaim,
    node: &'a Node,
    required: &[String],
    preferred: &[String],
    triggered: impl IntoIterator<Item = &'a Node>,
) -> Affinity {
    let mut seen = BTreeSet::from([keys::NODEPOOL_LABEL]);
    let (required, mut dropped) = replicate(pool, claim, node, required.iter().filter(|key| seen.insert(key)));
    let (preferred, dropped_too) = replicate(pool, claim, node, preferred.iter().filter(|key| seen.insert(key)));
    dropped.extend(dropped_too);

    let mut terms = vec![expression(keys::NODEPOOL_LABEL, "In", vec![pool.metadata.name.clone()])];
    terms.extend(required);
    let preferences: Vec<_> = elsewhere(node, triggered)
        .map(|term| PreferredSchedulingTerm { weight: 100, preference: selector_term(vec![term]) })
        .into_iter()
        .chain(preferred.into_iter().map(|term| PreferredSchedulingTerm { weight: 1, preference: selector_term(vec![term]) }))
        .collect();
    let node_affinity = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: vec![selector_term(terms)] }),
        preferred_during_scheduling_ignored_during_execution: Some(preferences).filter(|preferences| !preferences.is_empty()),
    };
    Affinity { node_affinity, dropped }
}

fn expression(key: &str, operator: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.into(), operator: operator.into(), values: Some(values) }
}

fn selector_term(expressions: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None }
}

/// Not on the old node, nor on one past its own trigger. By the *label*, which need not be the Node's name (case C06); a
/// Node without it adds nothing, and an empty list is no term (the API server refuses it).
fn elsewhere<'a>(node: &'a Node, triggered: impl IntoIterator<Item = &'a Node>) -> Option<NodeSelectorRequirement> {
    let labels = triggered.into_iter().chain([node]).filter_map(|node| node.metadata.label(keys::HOSTNAME_LABEL));
    let hosts: BTreeSet<&str> = labels.filter(|host| !host.is_empty()).collect();
    (!hosts.is_empty()).then(|| expression(keys::HOSTNAME_LABEL, "NotIn", hosts.into_iter().map(String::from).collect()))
}

fn replicate<'a>(
    pool: &NodePool,
    claim: &NodeClaim,
    node: &Node,
    keys: impl Iterator<Item = &'a String>,
) -> (Vec<NodeSelectorRequirement>, Vec<Dropped>) {
    let (mut terms, mut dropped) = (Vec::new(), Vec::new());
    for key in keys {
        match replicate_key(pool, claim, node, key) {
            Ok(term) => terms.push(term),
            Err(drop) => dropped.push(drop),
        }
    }
    (terms, dropped)
}

/// One key of the old node: its label, else what its claim asked for; only those values that the pool still allows.
fn replicate_key(pool: &NodePool, claim: &NodeClaim, node: &Node, key: &str) -> Result<NodeSelectorRequirement, Dropped> {
    let values = values_of(claim, node, key);
    let drop = |why: String| Dropped { key: key.into(), values: values.clone(), why };
    if key == keys::HOSTNAME_LABEL {
        return Err(drop("a new node has another hostname, and Karpenter provisions nothing for a Pod that names one".into()));
    }
    if values.is_empty() {
        return Err(drop("neither the Node's labels nor the NodeClaim's requirements have a value for it".into()));
    }
    let rules = Rules::of(pool, key);
    let allowed: Vec<String> = values.iter().filter(|value| rules.allow(value)).cloned().collect();
    if allowed.is_empty() {
        return Err(drop(format!("NodePool {} allows only: {rules}", pool.metadata.name)));
    }
    Ok(expression(key, "In", allowed))
}

fn values_of(claim: &NodeClaim, node: &Node, key: &str) -> Vec<String> {
    if let Some(value) = node.metadata.label(key) {
        return vec![value.into()];
    }
    let requirement = claim.spec.requirements.iter().find(|requirement| requirement.key == key && requirement.operator == "In");
    requirement.map(|requirement| requirement.values.clone()).unwrap_or_default()
}

/// What a pool says about one key: its template's requirements, and its template's label, which Karpenter treats as one.
struct Rules<'a> {
    requirements: Vec<&'a Requirement>,
    label: Option<&'a String>,
}

impl<'a> Rules<'a> {
    fn of(pool: &'a NodePool, key: &str) -> Self {
        let template = &pool.spec.template;
        Self {
            requirements: template.spec.requirements.iter().filter(|requirement| requirement.key == key).collect(),
            label: template.metadata.labels.get(key),
        }
    }

    fn allow(&self, value: &str) -> bool {
        self.label.is_none_or(|label| label == value) && self.requirements.iter().all(|requirement| allows(requirement, value))
    }
}

impl std::fmt::Display for Rules<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let requirements = self.requirements.iter().map(|requirement| {
            let values = requirement.values.join(", ");
            if values.is_empty() { requirement.operator.clone() } else { format!("{} [{values}]", requirement.operator) }
        });
        let label = self.label.map(|label| format!("the template's label {label}"));
        write!(formatter, "{}", requirements.chain(label).collect::<Vec<_>>().join(" and "))
    }
}

/// Whether a requirement admits a value. One that can't be understood admits it: a placeholder that asks for too much
/// times out harmlessly, while one in the wrong zone strands the Pods that have their volumes there.
fn allows(requirement: &Requirement, value: &str) -> bool {
    let listed = || requirement.values.iter().any(|allowed| allowed == value);
    let compares = |holds: fn(i64, i64) -> bool| {
        let bound = requirement.values.first().and_then(|bound| bound.parse::<i64>().ok());
        // As in Karpenter, a value that is no integer is outside of every bound.
        bound.is_none_or(|bound| value.parse::<i64>().is_ok_and(|value| holds(value, bound)))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "DoesNotExist" => false,
        "Gt" => compares(|value, bound| value > bound),
        "Lt" => compares(|value, bound| value < bound),
        "Gte" => compares(|value, bound| value >= bound),
        "Lte" => compares(|value, bound| value <= bound),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
