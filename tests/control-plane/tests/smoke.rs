//! The harness itself: it starts, brings Nodes, and leaves nothing behind.

use control_plane::{ControlPlane, Options};

#[tokio::test]
async fn starts_and_leaves_no_process() {
    let start = std::time::Instant::now();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    println!("{:?}", start.elapsed());
    let ids = plane.process_ids();
    println!("{}", plane.describe_state().await);
    drop(plane);
    for id in ids {
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "process {id} is left");
    }
}
