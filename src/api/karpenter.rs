//! Partial structs of the objects the program reads: NodePool, NodeClaim and Node. Only the fields used are here;
//! they are written by merge patches of single keys, so unknown fields survive. Quantities stay raw JSON until
//! they are needed: in Karpenter's CRDs they may be numbers, and one that can't be read must harm nothing else.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::api::core::v1::Taint;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::Value;

use super::{
    keys,
    meta::Meta,
    pod::Pod,
    shared::Shared,
    time::{Time, later, parse_duration},
};

/// Resources by name, as they stand in the object.
pub type RawResources = BTreeMap<String, Value>;

/// A NodePool (`karpenter.sh/v1`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodePool {
    /// Its metadata.
    pub metadata: Meta,
    /// What it wants.
    pub spec: Shared<NodePoolSpec>,
    /// What it has.
    pub status: Shared<NodePoolStatus>,
}

/// A NodePool's spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodePoolSpec {
    /// What its NodeClaims are made from.
    pub template: NodeClaimTemplate,
    /// The most that it may provision, per resource (`nodes` counts NodeClaims).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<RawResources>,
    /// Set on a static pool: the number of nodes it always has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The template in a NodePool's spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the claims.
    pub metadata: TemplateMeta,
    /// Their spec.
    pub spec: Shared<NodeClaimSpec>,
}

/// The metadata of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateMeta {
    /// Labels for the claims and their Nodes.
    pub labels: Shared<BTreeMap<String, String>>,
    /// Annotations for the claims and their Nodes.
    pub annotations: Shared<BTreeMap<String, String>>,
}

/// A NodeClaim's spec, and that of a NodePool's template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// A Go duration, or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<String>,
    /// A Go duration; absent means that a drain may last for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<String>,
    /// What the instance must be. Shared, for many claims of a pool have the same.
    pub requirements: Shared<Vec<Requirement>>,
    /// Taints of the Node.
    pub taints: Vec<Taint>,
}

/// One requirement on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte` or `Lte`.
    pub operator: String,
    /// The values it compares with.
    pub values: Vec<String>,
}

/// A NodePool's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodePoolStatus {
    /// What is provisioned, per resource.
    pub resources: RawResources,
}

/// A NodeClaim (`karpenter.sh/v1`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeClaim {
    /// Its metadata.
    pub metadata: Meta,
    /// What it wants.
    #[serde(deserialize_with = "claim_spec")]
    pub spec: Shared<NodeClaimSpec>,
    /// What it is.
    pub status: Shared<NodeClaimStatus>,
}

/// More values than this are no choice that a replacement could be asked to repeat, and aren't read: a claim lists every
/// instance type that it might have become, a hundred and more. Which one it became its Node's label tells.
const CHOICES: usize = 16;

/// A claim's spec, without the requirements that leave too much open.
fn claim_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shared<NodeClaimSpec>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        expire_after: Option<String>,
        termination_grace_period: Option<String>,
        requirements: Vec<Narrow>,
        taints: Vec<Taint>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Narrow {
        key: String,
        operator: String,
        values: Few,
    }
    let Spec { expire_after, termination_grace_period, requirements, taints } = Spec::deserialize(deserializer)?;
    let narrow = requirements.into_iter().filter(|requirement| !requirement.values.too_many);
    let read = |Narrow { key, operator, values }| Requirement { key, operator, values: values.values };
    Ok(NodeClaimSpec { expire_after, termination_grace_period, requirements: narrow.map(read).collect(), taints }.into())
}

/// Values, unless they are too many.
#[derive(Default)]
struct Few {
    values: Vec<String>,
    too_many: bool,
}

impl<'de> Deserialize<'de> for Few {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Few;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a sequence of strings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Few, A::Error> {
                let mut few = Few::default();
                while few.values.len() < CHOICES {
                    match values.next_element()? {
                        Some(value) => few.values.push(value),
                        None => return Ok(few),
                    }
                }
                few.too_many = values.next_element::<IgnoredAny>()?.is_some();
                while values.next_element::<IgnoredAny>()?.is_some() {}
                Ok(few)
            }
        }
        deserializer.deserialize_seq(Values)
    }
}

/// A NodeClaim's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    /// The Node it became.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// `Launched`, `Registered`, `Initialized`, `Ready`, `Drained`, `VolumesDetached`, …
    pub conditions: Vec<Condition>,
    /// What the instance has, as Karpenter plans with it. Shared, for a pool has few types of instances.
    pub capacity: Shared<RawResources>,
    /// What Pods may use of it, as Karpenter plans with it; likewise.
    pub allocatable: Shared<RawResources>,
}

/// A condition of a NodeClaim or a Node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A Node, whole or (with only `metadata`) from a metadata list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: NodeSpec,
    /// Its status.
    pub status: Shared<NodeStatus>,
}

/// A Node's spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// A Node's status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// What Pods may use, as the kubelet reports it.
    pub allocatable: Shared<RawResources>,
    /// `Ready` and others.
    pub conditions: Vec<Condition>,
}

fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
}

impl Node {
    /// Whether its kubelet says `Ready=True`.
    pub fn is_ready(&self) -> bool {
        is_true(&self.status.conditions, "Ready")
    }
}

impl NodeClaim {
    /// The NodePool it belongs to.
    pub fn pool(&self) -> Option<&str> {
        self.metadata.label(keys::NODEPOOL_LABEL)
    }

    /// The Node it became, where there is one.
    pub fn node(&self) -> Option<&str> {
        self.status.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether a condition is `True`.
    pub fn is(&self, condition: &str) -> bool {
        is_true(&self.status.conditions, condition)
    }

    /// Its own lifetime; `None` for `Never`, and where it can't be read.
    pub fn expire_after(&self) -> Option<chrono::TimeDelta> {
        self.spec.expire_after()
    }

    /// When Karpenter will expire it: creation + `expireAfter`.
    pub fn deadline(&self) -> Option<Time> {
        Some(later(self.metadata.creation_timestamp?, self.expire_after()?))
    }
}

impl NodeClaimSpec {
    /// `expireAfter`; `None` for `Never`, absence, and what can't be read.
    pub fn expire_after(&self) -> Option<chrono::TimeDelta> {
        self.expire_after.as_deref().and_then(parse_duration)
    }

    /// `terminationGracePeriod`; `None` where it is unset or can't be read.
    pub fn grace(&self) -> Option<chrono::TimeDelta> {
        self.termination_grace_period.as_deref().and_then(parse_duration)
    }
}

/// The metadata of a Pod, in our form.
pub fn pod_meta(pod: &Pod) -> Meta {
    let meta = &pod.metadata;
    Meta {
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp.as_ref().map(super::time::from_api),
        deletion_timestamp: meta.deletion_timestamp.as_ref().map(super::time::from_api),
        labels: meta.labels.clone().unwrap_or_default().into(),
        annotations: meta.annotations.clone().unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_keeps_only_requirements_that_leave_few_values_open_and_a_pool_keeps_all() {
        let values = |count: usize| (0..count).map(|number| format!("type-{number}")).collect::<Vec<_>>();
        let requirement = |key: &str, count: usize| json!({"key": key, "operator": "In", "values": values(count)});
        let exists = json!({"key": "gpu", "operator": "Exists"});
        let requirements = json!([requirement("zone", 1), requirement("many", CHOICES), requirement("type", CHOICES + 1), exists]);
        let claim: NodeClaim = serde_json::from_value(json!({"spec": {"requirements": requirements, "expireAfter": "1h"}})).unwrap();
        let kept: Vec<_> = claim.spec.requirements.iter().map(|kept| (kept.key.as_str(), kept.values.len())).collect();
        assert_eq!(kept, [("zone", 1), ("many", CHOICES), ("gpu", 0)]);
        assert_eq!(claim.spec.expire_after.as_deref(), Some("1h"));
        let pool: NodePool = serde_json::from_value(json!({"spec": {"template": {"spec": {"requirements": requirements}}}})).unwrap();
        assert_eq!(pool.spec.template.spec.requirements.len(), 4);
    }
}
