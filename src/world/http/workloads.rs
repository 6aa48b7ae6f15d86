//! Deployments, with their ReplicaSets, and StatefulSets: the controllers of the models' Pods. Their `spec.replicas` can be
//! patched.

use serde_json::{Value, json};

use super::{
    resource::{DEPLOYMENTS, Kind, REPLICASETS, STATEFULSETS},
    volumes::claim_templates,
};
use crate::world::{
    pods::{NAMESPACE, Workload},
    pool::PoolWorld,
};

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
