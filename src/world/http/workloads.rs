//! Deployments, with their ReplicaSets, and StatefulSets: the controllers of the models' Pods. Their `spec.replicas` can be
//! patched, up to [`MOST_REPLICAS`].

use serde_json::{Value, json};

use super::{
    answer::Answer,
    resource::{DEPLOYMENTS, Kind, REPLICASETS, STATEFULSETS},
    volumes::claim_templates,
};
use crate::world::{
    pods::{NAMESPACE, Workload},
    pool::PoolWorld,
};

/// The most replicas that a workload can be scaled to. Each Pod is played by itself, and what it takes to find room for Pods that
/// wait grows with the cube of their number: more than these, such as by a slip of the hand, would hold the world for minutes.
const MOST_REPLICAS: i64 = 1000;

/// Whether a controller may be stored with so many replicas.
pub(super) fn validate(kind: &Kind, name: &str, object: &Value) -> Result<(), Answer> {
    let replicas = &object["spec"]["replicas"];
    if ![DEPLOYMENTS, REPLICASETS, STATEFULSETS].contains(&kind) || replicas.is_null() {
        return Ok(());
    }
    let right = match replicas.as_i64() {
        Some(count) if count < 0 => "must be greater than or equal to 0".to_owned(),
        Some(count) if count <= MOST_REPLICAS => return Ok(()),
        _ => {
            format!("must be a whole number between 0 and {MOST_REPLICAS}, inclusive: the embedded world runs no more Pods of one workload")
        }
    };
    Err(Answer::invalid(kind, name, "spec.replicas", &format!("Invalid value: {replicas}: {right}")))
}

/// The controllers of this kind in a pool.
pub(super) fn controllers<'a>(pool: &'a PoolWorld, kind: &'a Kind) -> impl Iterator<Item = Value> + 'a {
    let is_sticky = kind == STATEFULSETS;
    let served = [DEPLOYMENTS, REPLICASETS, STATEFULSETS].contains(&kind);
    pool.workloads.iter().filter(move |workload| served && workload.spec.sticky == is_sticky).map(move |workload| object(kind, workload))
}

fn object(kind: &Kind, workload: &Workload) -> Value {
    let (spec, name) = (&workload.spec, &workload.spec.name);
    let labels = json!({"app": name});
    let mut object = json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "uid": format!("owner-{name}")},
        "spec": {
            "replicas": spec.replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": workload.template.spec},
        },
        "status": {"replicas": spec.replicas, "readyReplicas": workload.ready, "availableReplicas": workload.ready},
    });
    if kind == STATEFULSETS {
        object["spec"]["serviceName"] = json!(name);
        // Its Pods don't wait for each other.
        object["spec"]["podManagementPolicy"] = json!("Parallel");
        object["spec"]["volumeClaimTemplates"] = claim_templates();
    }
    if kind == DEPLOYMENTS {
        object["metadata"]["uid"] = json!(format!("deployment-{name}"));
    }
    if kind == REPLICASETS {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": format!("deployment-{name}"), "controller": true});
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    object
}
