//! The harness itself: it starts, brings Nodes, and leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Options, Pool, Pushgateway, Workload, has_condition};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Pods that are Ready at once, for tests that are not about them.
fn quick() -> Options {
    Options { pod_ready_delay: Duration::ZERO, ..Options::default() }
}

#[tokio::test]
async fn a_control_plane_leaves_no_process_and_no_folder() {
    let plane = ControlPlane::start(quick()).await.unwrap();
    let ids = plane.process_ids();
    let folder = plane.directory().to_path_buf();
    assert_eq!(ids.len(), 6, "etcd, API server, controller manager, scheduler, kwok, Karpenter");
    assert!(ids.iter().all(|id| is_running(*id)));
    drop(plane);
    assert!(!ids.iter().any(|id| is_running(*id)));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_part_filled_fleet_has_five_pods_on_each_node() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let workload = plane.part_filled_fleet(&Pool::new("web"), 3).await.unwrap();
    let nodes = plane.pods_by_node(&workload).await.unwrap();
    assert_eq!(nodes.values().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5]);
    for pod in plane.pods_of(&workload).await.unwrap() {
        let status = pod.status.unwrap();
        let conditions = status.conditions.unwrap();
        let since = |kind: &str| {
            let condition = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
            condition.last_transition_time.as_ref().unwrap().0.as_second()
        };
        assert!(since("Ready") - since("PodScheduled") >= 10, "{conditions:?}");
    }
}

#[tokio::test]
async fn two_control_planes_side_by_side_know_nothing_of_each_other() {
    let (first, second) = tokio::join!(ControlPlane::start(quick()), ControlPlane::start(quick()));
    let (first, second) = (first.unwrap(), second.unwrap());
    first.install(&Pool::new("web")).await.unwrap();
    first.deploy(&Workload::new("web", "web")).await.unwrap();
    assert_eq!(first.node_claims_of("web").await.unwrap().len(), 1);
    assert_eq!(second.node_claims_of("web").await.unwrap().len(), 0);
    drop(first);
    second.install(&Pool::new("web")).await.unwrap();
}

#[tokio::test]
async fn nodes_can_register_and_not_become_ready() {
    let plane = ControlPlane::start(quick()).await.unwrap();
    plane.install(&Pool::new("never").never_ready()).await.unwrap();
    plane.apply_objects(&Workload::new("never", "never").objects()).await.unwrap();
    plane.wait_for_claims("never", 1, "Registered").await.unwrap();

    plane.hold_new_nodes().unwrap();
    plane.install(&Pool::new("held")).await.unwrap();
    let held = Workload::new("held", "held");
    plane.apply_objects(&held.objects()).await.unwrap();
    plane.wait_for_claims("held", 1, "Registered").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!has_condition(&plane.node_claims_of("held").await.unwrap()[0].data, "Initialized"));

    plane.release_new_nodes().unwrap();
    plane.wait_for_pods(&held).await.unwrap();
    assert!(!has_condition(&plane.node_claims_of("never").await.unwrap()[0].data, "Initialized"));
}

#[tokio::test]
async fn capacity_can_be_withheld_in_each_way() {
    let plane = ControlPlane::start(quick()).await.unwrap();
    let no_type = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["3"]});
    let pools = [
        Pool::new("limited").limits(json!({"cpu": "4"})),
        Pool::new("unmet").requirement(no_type),
        Pool::new("slow").registration_delay("24h"),
    ];
    for pool in &pools {
        plane.install(pool).await.unwrap();
        plane.apply_objects(&Workload::new(pool.name(), pool.name()).objects()).await.unwrap();
    }
    plane.wait_for_claims("slow", 1, "Launched").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!has_condition(&plane.node_claims_of("slow").await.unwrap()[0].data, "Registered"));
    assert!(plane.node_claims_of("limited").await.unwrap().is_empty());
    assert!(plane.node_claims_of("unmet").await.unwrap().is_empty());
}

#[tokio::test]
async fn an_observer_sees_what_was_there_for_a_moment_only() {
    let plane = ControlPlane::start(quick()).await.unwrap();
    let workload = plane.part_filled_fleet(&Pool::new("web"), 2).await.unwrap();
    let observer = plane.observe(&workload).await.unwrap();
    let claim = plane.node_claims_of("web").await.unwrap()[0].name_any();
    plane.node_claims().delete(&claim, &Default::default()).await.unwrap();
    plane
        .wait_for("the claim is gone", Duration::from_secs(60), async || {
            Ok(plane.node_claims_of("web").await?.iter().all(|other| other.name_any() != claim))
        })
        .await
        .unwrap();
    let observed = observer.observed();
    assert!(observed.claims_seen.contains(&claim));
    assert!(observed.claims_max >= 2, "{observed:?}");
    assert!((9..=10).contains(&observed.ready_min), "{observed:?}");
}

#[tokio::test]
async fn a_service_account_has_its_own_rights_only_and_the_audit_log_names_it() {
    let plane = ControlPlane::start(Options { karpenter: false, ..quick() }).await.unwrap();
    let kubeconfig = plane.kubeconfig_for("default", "default").await.unwrap();
    let mut kubectl = plane.kubectl();
    let answer = kubectl.env("KUBECONFIG", kubeconfig).args(["get", "nodes"]).output().unwrap();
    assert!(String::from_utf8_lossy(&answer.stderr).contains("Forbidden"), "{answer:?}");
    let log = std::fs::read_to_string(plane.audit_log()).unwrap();
    assert!(log.contains(r#""username":"system:serviceaccount:default:default""#));

    let folder = tempfile::tempdir().unwrap();
    let kustomization = "resources: [account.yaml]\nnamespace: default\n";
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization).unwrap();
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader}}";
    std::fs::write(folder.path().join("account.yaml"), account).unwrap();
    plane.apply_kustomization(folder.path()).await.unwrap();
    assert!(plane.kubeconfig_for("default", "reader").await.unwrap().exists());
    let nodes: Api<Node> = Api::all(plane.client());
    assert!(nodes.list(&Default::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_pushgateway_forgets_when_it_starts_again() {
    let mut gateway = Pushgateway::start().await.unwrap();
    let address = gateway.url();
    push(&address, "pushed_total 7\n").await;
    assert!(gateway.metrics().await.unwrap().contains("pushed_total{instance=\"\",job=\"smoke\"} 7"));
    gateway.stop();
    assert!(gateway.metrics().await.is_err());
    gateway.restart().await.unwrap();
    assert_eq!(gateway.url(), address);
    assert!(!gateway.metrics().await.unwrap().contains("pushed_total"));
}

async fn push(address: &str, metrics: &str) {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    let request = format!("PUT /metrics/job/smoke HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{metrics}", metrics.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
}

/// The process below is killed in a way that runs no destructor; what it started must end all the same.
#[tokio::test]
async fn nothing_outlives_a_killed_owner() {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_cluster")).stdout(Stdio::null()).spawn().unwrap();
    let children = loop {
        // Until a child runs its own program it may not have asked yet to end with its owner.
        let children = children_of(owner.id());
        if children.len() == 6 && children.iter().all(|id| runs_its_program(*id)) {
            break children;
        }
        assert!(owner.try_wait().unwrap().is_none(), "it ended by itself");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    owner.kill().unwrap();
    owner.wait().unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while children.iter().any(|id| is_running(*id)) {
        assert!(Instant::now() < patience, "still running: {:?}", children.iter().filter(|id| is_running(**id)).collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn runs_its_program(id: u32) -> bool {
    std::fs::read_link(format!("/proc/{id}/exe"))
        .is_ok_and(|program| program.parent().is_some_and(|folder| folder.ends_with("control-plane/bin")))
}

fn is_running(id: u32) -> bool {
    // a process that has ended and was not yet awaited by its new parent is a zombie
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.trim().is_empty())
}

fn children_of(id: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(Path::new("/proc").join(id.to_string()).join("task")).into_iter().flatten().flatten() {
        let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    children
}
