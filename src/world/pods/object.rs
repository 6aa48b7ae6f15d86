//! Pods as objects: made when somebody asks for them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodCondition;
use serde_json::json;

use super::{NAMESPACE, Owner, Phase, Pod, Workload};
use crate::{
    api::{
        json, keys,
        pod::{Pod as Object, PodStatus, Volume, VolumeClaim},
        time::to_api,
    },
    world::{fleet::WorkloadSpec, pool::PoolWorld, size::Size, volumes::DATA},
};

/// A Pod's status; whether it is Ready, where that is known.
pub(in crate::world) fn status(phase: &str, ready: Option<&str>) -> PodStatus {
    let ready = ready.map(|status| vec![PodCondition { type_: "Ready".into(), status: status.into(), ..PodCondition::default() }]);
    PodStatus { phase: Some(phase.into()), conditions: ready, ..PodStatus::default() }
}

/// What the Pods of a workload have in common.
pub(super) fn template(pool: &str, spec: &WorkloadSpec) -> Object {
    let kind = if spec.sticky { "StatefulSet" } else { "ReplicaSet" };
    let requests = json!({"cpu": format!("{}m", spec.request.cpu), "memory": format!("{}Mi", spec.request.memory)});
    let object = json!({
        "metadata": {
            "namespace": NAMESPACE, "labels": {"app": spec.name},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": spec.name, "uid": format!("owner-{}", spec.name), "controller": true}],
        },
        "spec": {
            "nodeSelector": {keys::NODEPOOL_LABEL: pool}, "terminationGracePeriodSeconds": spec.grace,
            "containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}],
        },
    });
    json::from_value(&object).unwrap_or_default()
}

/// The Pod of the DaemonSets, but for name, uid and Node; `None` where they take nothing.
pub(in crate::world) fn agent(takes: Size) -> Option<Object> {
    if takes == Size::default() {
        return None;
    }
    let requests = json!({"cpu": format!("{}m", takes.cpu), "memory": format!("{}Mi", takes.memory)});
    let object = json!({
        "metadata": {
            "namespace": "kube-system",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": true}],
        },
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "agent", "image": "agent", "resources": {"requests": requests}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    json::from_value(&object).ok()
}

fn on_node(agent: &Object, node: &str) -> Object {
    let mut agent = agent.clone();
    let name = format!("agent-{node}");
    agent.metadata.name = Some(name.clone());
    agent.metadata.uid = Some(name);
    agent.spec.get_or_insert_default().node_name = Some(node.to_owned());
    agent
}

impl Workload {
    /// The name of its Pod: a StatefulSet's keeps it, a Deployment's gets another each time.
    fn pod_name(&self, id: u32, pod: &Pod) -> String {
        [&self.spec.name, "-", &pod.ordinal.unwrap_or(id).to_string()].concat()
    }
}

impl PoolWorld {
    /// The Pods on a Node, as objects.
    pub(in crate::world) fn objects_on(&self, node: &str) -> Vec<Object> {
        let Some(host) = self.host_of.get(node).and_then(|id| self.hosts.get(*id)) else { return Vec::new() };
        let mut objects: Vec<Object> = host.pods.iter().filter_map(|id| self.object(*id)).collect();
        objects.extend(self.agent.as_ref().map(|agent| on_node(agent, node)));
        objects
    }

    /// A Pod, as an object.
    pub(in crate::world) fn object(&self, id: u32) -> Option<Object> {
        let pod = self.pods.get(&id)?;
        let workload = match &pod.owner {
            Owner::Placeholder(name) => return self.view.placeholders.get(name).map(|object| (**object).clone()),
            Owner::Workload(workload) => &self.workloads[*workload],
        };
        let mut object = workload.template.clone();
        object.metadata.name = Some(workload.pod_name(id, pod));
        object.metadata.uid = Some([&self.name, "-pod-", &id.to_string()].concat());
        if let Some(written) = &pod.written {
            let some = |list: &BTreeMap<String, String>| (!list.is_empty()).then(|| list.clone());
            object.metadata.labels = some(&written.labels);
            object.metadata.annotations = some(&written.annotations);
        }
        let host = pod.host.and_then(|host| self.hosts.get(host));
        let spec = object.spec.get_or_insert_default();
        spec.node_name = host.map(|host| host.node.clone());
        spec.volumes = pod.ordinal.map(|ordinal| {
            let claim = VolumeClaim { claim_name: workload.claim_name(ordinal) };
            vec![Volume { name: Some(DATA.into()), persistent_volume_claim: Some(claim) }]
        });
        let (phase, ready) = match pod.phase {
            Phase::Pending => ("Pending", "False"),
            Phase::Starting => ("Pending", "False"),
            Phase::Ready => ("Running", "True"),
            Phase::Ending => ("Running", "False"),
        };
        object.status = Some(PodStatus { start_time: pod.since.map(to_api), ..status(phase, Some(ready)) });
        if pod.phase == Phase::Ending {
            object.metadata.deletion_timestamp = Some(to_api(self.now));
        }
        Some(object)
    }

    /// The id of the workload's Pod of this name.
    pub(in crate::world) fn pod_named(&self, name: &str) -> Option<u32> {
        let (workload, number) = name.rsplit_once('-')?;
        let number: u32 = number.parse().ok()?;
        let is_it = |id: u32| {
            let pod = self.pods.get(&id)?;
            let Owner::Workload(index) = pod.owner else { return None };
            (self.workloads[index].pod_name(id, pod) == name).then_some(id)
        };
        let sets = self.workloads.iter().filter(|known| known.spec.sticky && known.spec.name == workload);
        is_it(number).or_else(|| sets.flat_map(|set| set.pods.iter()).find_map(|id| is_it(*id)))
    }
}
