//! The real API server's side of the conversation. `UPDATE_CONVERSATION=1` commits its answers anew.
#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::path::Path;
use std::time::Duration;

use control_plane::conversation::{COMMITTED, Conversation, MAPS};
use control_plane::{ControlPlane, Options};

#[tokio::test]
async fn the_real_api_server_answers_as_committed() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    // The NodePools of the conversation are nobody's but ours.
    plane.stop_karpenter();
    plane.apply_kustomization(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds")).await.unwrap();
    let answers = Conversation::have(plane.client(), async |token| {
        plane.forget_old_versions().await.unwrap();
        let page = format!("{MAPS}?limit=2&continue={token}");
        plane
            .wait_for("the API server has forgotten it, too", Duration::from_secs(60), async || {
                let answer = plane.run_kubectl(&["get", "--raw", &page], "").await;
                Ok(answer.is_err_and(|error| error.to_string().contains("Expired")))
            })
            .await
            .unwrap();
        token
    })
    .await;
    if std::env::var_os("UPDATE_CONVERSATION").is_some() {
        std::fs::write(COMMITTED, &answers).unwrap();
    }
    assert_eq!(answers, std::fs::read_to_string(COMMITTED).unwrap());
}
