//! The zonal volumes of the models' StatefulSets: each replica's PersistentVolumeClaim, and the PersistentVolume that it is
//! bound to once a Pod of it had a Node.

use serde_json::{Value, json};

use super::{
    answer::Answer,
    request::Call,
    resource::{Kind, VOLUME_CLAIMS, VOLUMES},
};
use crate::{
    api::keys,
    world::{
        pods::{NAMESPACE, Workload},
        pool::PoolWorld,
    },
};

const CLASS: &str = "zonal";
const SIZE: &str = "10Gi";

/// What a StatefulSet makes its claims from.
pub(super) fn claim_templates() -> Value {
    json!([{"metadata": {"name": crate::world::volumes::DATA}, "spec": claim_spec(), "status": {"phase": "Pending"}}])
}

fn claim_spec() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": SIZE}}, "storageClassName": CLASS, "volumeMode": "Filesystem",
    })
}

/// The claims of a pool's replicas.
pub(super) fn claims(pool: &PoolWorld) -> impl Iterator<Item = Value> + '_ {
    replicas(pool).map(|replica| replica.claim())
}

/// The volumes that they are bound to.
pub(super) fn volumes(pool: &PoolWorld) -> impl Iterator<Item = Value> + '_ {
    replicas(pool).filter_map(|replica| replica.volume())
}

/// What the API server gives to a new claim, or a new volume, that somebody makes; nobody binds it.
pub(super) fn furnish(kind: &Kind, object: &mut Value) {
    let finalizer = match kind {
        kind if kind == VOLUME_CLAIMS => "kubernetes.io/pvc-protection",
        kind if kind == VOLUMES => "kubernetes.io/pv-protection",
        _ => return,
    };
    let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!(finalizer)) {
        object["metadata"]["finalizers"] = finalizers.into_iter().chain([json!(finalizer)]).collect();
    }
    object["status"] = json!({"phase": "Pending"});
    let Some(spec) = object["spec"].as_object_mut() else { return };
    spec.entry("volumeMode").or_insert(json!("Filesystem"));
    if kind == VOLUMES {
        spec.entry("persistentVolumeReclaimPolicy").or_insert(json!("Retain"));
    }
}

/// Whether the API server lets a claim be changed so.
pub(super) fn meets_update(call: &Call, before: &Value, after: &Value) -> Result<(), Answer> {
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| !["resources", "volumeAttributesClassName"].contains(&field.as_str()));
        }
        spec
    };
    if fixed(before) == fixed(after) {
        return Ok(());
    }
    let why = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    Err(Answer::invalid(VOLUME_CLAIMS, &call.name, "spec", why))
}

/// A replica that has a claim.
struct Replica<'a> {
    pool: &'a PoolWorld,
    workload: &'a Workload,
    ordinal: u32,
    zone: Option<usize>,
}

fn replicas(pool: &PoolWorld) -> impl Iterator<Item = Replica<'_>> {
    pool.workloads.iter().flat_map(move |workload| {
        let zones = (0_u32..).zip(&workload.volumes);
        zones.map(move |(ordinal, zone)| Replica { pool, workload, ordinal, zone: *zone })
    })
}

impl Replica<'_> {
    fn claim_uid(&self) -> String {
        format!("{}-{}-{}", self.pool.name, self.workload.spec.name, self.ordinal)
    }

    fn volume_name(&self) -> String {
        format!("pvc-{}", self.claim_uid())
    }

    fn claim(&self) -> Value {
        let metadata = json!({
            "name": self.workload.claim_name(self.ordinal), "namespace": NAMESPACE, "uid": self.claim_uid(),
            "labels": {"app": self.workload.spec.name}, "finalizers": ["kubernetes.io/pvc-protection"],
        });
        let mut claim = json!({"metadata": metadata, "spec": claim_spec(), "status": {"phase": "Pending"}});
        if self.zone.is_some() {
            claim["spec"]["volumeName"] = json!(self.volume_name());
            claim["status"] = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": SIZE}});
        }
        claim
    }

    fn volume(&self) -> Option<Value> {
        let zone = self.pool.spec.zones.get(self.zone?)?;
        let name = self.volume_name();
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE,
            "name": self.workload.claim_name(self.ordinal), "uid": self.claim_uid(),
        });
        let in_zone = json!({"matchExpressions": [{"key": keys::ZONE_LABEL, "operator": "In", "values": [zone]}]});
        Some(json!({
            "metadata": {"name": name, "uid": format!("volume-{}", self.claim_uid()), "finalizers": ["kubernetes.io/pv-protection"]},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": SIZE}, "claimRef": claim,
                "csi": {"driver": "zonal.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [in_zone]}},
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": CLASS, "volumeMode": "Filesystem",
            },
            "status": {"phase": "Bound"},
        }))
    }
}
