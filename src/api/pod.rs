//! The parts of a Pod that are used. Pods are read by the hundred, created and deleted, and never patched: what is left out is
//! lost on nobody, and Kubernetes' own type is a hundred types deep.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        LocalObjectReference, NodeAffinity, PodCondition, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

use super::shared::Shared;

/// A Pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its metadata, whole.
    pub metadata: ObjectMeta,
    /// What it wants.
    pub spec: Option<PodSpec>,
    /// What has become of it.
    pub status: Option<PodStatus>,
}

/// What a Pod wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Where it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Shared<Affinity>>,
    /// Whether it gets a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// Its containers.
    #[serde(deserialize_with = "null_is_none")]
    pub containers: Shared<Vec<Container>>,
    /// Whether Services are put in its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_service_links: Option<bool>,
    /// Secrets to pull its images with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// What runs before, and beside, its containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Container>>,
    /// Its Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Labels that its Node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<Shared<BTreeMap<String, String>>>,
    /// What running it takes besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<BTreeMap<String, Quantity>>,
    /// Its priority's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// What all of its containers get together, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// When its containers are started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Only written.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub security_context: Option<PodSecurityContext>,
    /// How long it gets to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Taints that it doesn't mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Shared<Vec<Toleration>>>,
    /// Its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
}

/// Where a Pod may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// On which Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// `Always` for an init container that goes on beside the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Only written.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub security_context: Option<SecurityContext>,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Only written.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub name: Option<String>,
    /// Its claim, where it is one that outlives the Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<VolumeClaim>,
}

/// The claim of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaim {
    /// Its name.
    pub claim_name: String,
}

/// What has become of a Pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Ready` and others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodCondition>>,
    /// What has become of its containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_statuses: Option<Vec<ContainerStatus>>,
    /// The same of those that run before and beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// In a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When its kubelet took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

/// What has become of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// What its kubelet has set aside for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Its image.
    pub image: String,
    /// What it gets at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ContainerState>,
}

/// What a container does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ContainerStateWaiting>,
}

/// Why a container waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerStateWaiting {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// In a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Serialize for Pod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("apiVersion", "v1")?;
        object.serialize_entry("kind", "Pod")?;
        object.serialize_entry("metadata", &self.metadata)?;
        if let Some(spec) = &self.spec {
            object.serialize_entry("spec", spec)?;
        }
        if let Some(status) = &self.status {
            object.serialize_entry("status", status)?;
        }
        object.end()
    }
}

fn null_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shared<Vec<Container>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod as Whole;
    use serde_json::{Value, json};

    use super::*;

    /// Every field that is used, as Kubernetes' own type spells it.
    fn pod() -> Value {
        let resources = json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}});
        let container = json!({"name": "app", "image": "app", "resources": resources, "restartPolicy": "Always"});
        let status = json!({
            "name": "app", "image": "app", "imageID": "", "ready": false, "restartCount": 0, "allocatedResources": {"cpu": "1"},
            "resources": resources, "state": {"waiting": {"message": "m", "reason": "r"}},
        });
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "a"}, "creationTimestamp": "2026-11-30T07:00:00Z"},
            "spec": {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
                "automountServiceAccountToken": false, "containers": [container], "enableServiceLinks": false,
                "imagePullSecrets": [{"name": "s"}], "initContainers": [container], "nodeName": "n", "nodeSelector": {"a": "b"},
                "overhead": {"cpu": "10m"}, "priorityClassName": "p", "resources": resources, "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [status], "initContainerStatuses": [status],
                "message": "m", "phase": "Pending", "reason": "r", "startTime": "2026-11-30T07:00:00Z",
            },
        })
    }

    /// What ours leave out of this one.
    fn without_the_rest(mut pod: Value) -> Value {
        for statuses in ["containerStatuses", "initContainerStatuses"] {
            for key in ["imageID", "ready", "restartCount"] {
                pod["status"][statuses][0].as_object_mut().unwrap().remove(key);
            }
        }
        pod["spec"]["volumes"][0].as_object_mut().unwrap().remove("name");
        pod
    }

    #[test]
    fn every_field_is_named_as_in_kubernetes_own_type() {
        let whole: Whole = serde_json::from_value(pod()).unwrap();
        assert_eq!(serde_json::to_value(&whole).unwrap(), pod());
        let used: Pod = serde_json::from_value(pod()).unwrap();
        assert_eq!(serde_json::to_value(&used).unwrap(), without_the_rest(pod()));
    }

    #[test]
    fn whatever_else_a_pod_holds_is_passed_over_and_null_is_none() {
        let odd =
            json!({"metadata": {"name": "a"}, "spec": {"containers": null, "ephemeralContainers": 7, "hostUsers": "x"}, "status": null});
        let read: Pod = serde_json::from_value(odd).unwrap();
        assert_eq!(read.spec, Some(PodSpec::default()));
    }
}
