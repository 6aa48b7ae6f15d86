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
    let committed = std::fs::read_to_string(COMMITTED).unwrap();
    let lines: Vec<(&str, &str)> = answers.lines().zip(committed.lines()).collect();
    let differ = |index: &usize| lines[*index].0 != lines[*index].1;
    let words = |index: usize| {
        let before = index.saturating_sub(3);
        let asked: Vec<&str> = lines[before..index].iter().map(|(ours, _)| *ours).collect();
        format!("{}\n-{}\n+{}", asked.join("\n"), lines[index].1, lines[index].0)
    };
    let differences: Vec<String> = (0..lines.len()).filter(differ).take(20).map(words).collect();
    assert!(differences.is_empty(), "the real API server (-) and the world (+):\n{}", differences.join("\n\n"));
    assert_eq!(answers.lines().count(), committed.lines().count());
}
