//! The world's side of the conversation: it answers what the real API server does.

use std::time::Duration;

use control_plane::conversation::{COMMITTED, Conversation};

use crate::world::http::{Actor, World};

use super::fleet::at;

#[tokio::test(start_paused = true)]
async fn the_world_answers_as_the_real_api_server() {
    let world = World::new(Vec::new(), at("2026-12-02T01:50:00Z"));
    let answers = Conversation::have(world.client(Actor::Operator), async |token| {
        tokio::time::sleep(Duration::from_secs(301)).await;
        token
    })
    .await;
    assert_eq!(answers, std::fs::read_to_string(COMMITTED).unwrap());
}
