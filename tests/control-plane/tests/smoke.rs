//! The harness itself: it starts, brings Nodes, and leaves nothing behind.

use std::path::Path;

use control_plane::{ControlPlane, Options, Pool};

#[tokio::test]
async fn a_control_plane_leaves_no_process_and_no_folder() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
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
    let start = std::time::Instant::now();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    println!("started {:?}", start.elapsed());
    let workload = plane.part_filled_fleet(&Pool::new("web"), 3).await.unwrap();
    println!("filled {:?}", start.elapsed());
    let nodes = plane.pods_by_node(&workload).await.unwrap();
    assert_eq!(nodes.values().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5]);
    println!("{}", plane.describe_state().await);
}

fn is_running(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}
