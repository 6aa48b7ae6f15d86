//! Facts about Kubernetes and Karpenter that the harness must show, or tests on it prove nothing.
#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Observed, Options, Pool, Workload};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use serde_json::json;

/// Deletes the only NodeClaim of a part-filled pool once a placeholder brought a second Node; answers what was seen
/// until the NodeClaim was gone or there was one too many.
async fn rotate(keep_placeholder: bool) -> Observed {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let workload = plane.part_filled_fleet(&Pool::new("web"), 1).await.unwrap();
    let old = plane.node_claims_of("web").await.unwrap()[0].name_any();
    let observer = plane.observe(&workload).await.unwrap();

    let placeholder = Workload::new("placeholder", "web").cpu("5").without_budget().pod_spec("priorityClassName", json!("surge"));
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "surge"},
        "value": -10, "preemptionPolicy": "Never",
    });
    plane.apply_objects(&[class]).await.unwrap();
    plane.deploy(&placeholder).await.unwrap();
    plane.wait_for_claims("web", 2, "Initialized").await.unwrap();

    plane.node_claims().delete(&old, &Default::default()).await.unwrap();
    if !keep_placeholder {
        plane.run_kubectl(&["delete", "deployment", "placeholder", "--cascade=foreground"], "").await.unwrap();
    }
    plane
        .wait_for("the NodeClaim is gone, or there is one too many", Duration::from_secs(180), async || {
            let gone = plane.node_claims_of("web").await?.iter().all(|claim| claim.name_any() != old);
            Ok(gone || observer.observed().claims_max > 2)
        })
        .await
        .unwrap();
    observer.observed()
}

#[tokio::test]
async fn a_placeholder_kept_through_the_drain_brings_a_third_node() {
    assert_eq!(rotate(true).await.claims_max, 3);
}

#[tokio::test]
async fn a_placeholder_deleted_with_the_claim_brings_none() {
    let observed = rotate(false).await;
    assert_eq!(observed.claims_max, 2);
    assert_eq!(observed.ready_min, 4, "the budget lets one of five Pods be away, and does so");
}

#[tokio::test]
async fn a_node_comes_within_seconds_and_a_pod_ends_when_told() {
    let options = Options { pod_ready_delay: Duration::ZERO, pod_stop_delay: Duration::from_secs(4), ..Options::default() };
    let plane = ControlPlane::start(options).await.unwrap();
    plane.install(&Pool::new("web")).await.unwrap();
    let start = Instant::now();
    let workload = Workload::new("web", "web");
    plane.apply_objects(&workload.objects()).await.unwrap();
    plane.wait_for_claims("web", 1, "Launched").await.unwrap();
    println!("launched after {:?}", start.elapsed());
    plane.wait_for_claims("web", 1, "Initialized").await.unwrap();
    println!("initialized after {:?}", start.elapsed());
    plane.wait_for_pods(&workload).await.unwrap();
    println!("Pod Ready after {:?}", start.elapsed());

    let pods: Api<Pod> = Api::namespaced(plane.client(), "default");
    let name = plane.pods_of(&workload).await.unwrap()[0].name_any();
    let deleted = Instant::now();
    pods.delete(&name, &Default::default()).await.unwrap();
    plane
        .wait_for("the Pod is gone", Duration::from_secs(30), async || {
            Ok(plane.pods_of(&workload).await?.iter().all(|pod| pod.name_any() != name))
        })
        .await
        .unwrap();
    println!("Pod gone after {:?}", deleted.elapsed());
    assert!(deleted.elapsed() > Duration::from_millis(3500));
    assert!(deleted.elapsed() < Duration::from_secs(12));
}

#[tokio::test]
async fn a_file_of_instance_types_can_leave_out_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("instance-types.json");
    let offering = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
    ]);
    let small = json!([{
        "name": "small", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "4Gi"},
        "offerings": [{"Price": 1, "Available": true, "Requirements": offering}],
    }]);
    std::fs::write(&file, small.to_string()).unwrap();
    let options = Options { pod_ready_delay: Duration::ZERO, instance_types: Some(file), ..Options::default() };
    let plane = ControlPlane::start(options).await.unwrap();
    plane.install(&Pool::new("web")).await.unwrap();
    plane.apply_objects(&Workload::new("web", "web").objects()).await.unwrap();
    let events = async || plane.run_kubectl(&["get", "events"], "").await;
    plane
        .wait_for("Karpenter says that it can't", Duration::from_secs(30), async || {
            Ok(events().await?.contains("filtered out all available instance types"))
        })
        .await
        .unwrap();
    assert!(plane.node_claims_of("web").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_static_pool_has_its_nodes_without_any_pod() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    plane.install(&Pool::new("fixed").replicas(2)).await.unwrap();
    plane.wait_for_claims("fixed", 2, "Initialized").await.unwrap();
}
