//! Two passes at once, as when the Lease is taken from the first: it is held before one of its requests, another does a
//! whole pass, or a part of one, and then the first goes on, believing that it is alone.

use std::time::Duration;

use super::{
    fleet::{NAMESPACE, at, run, world},
    gate::{Gate, writes},
    invariants::Invariants,
};
use crate::{
    api::keys::PROGRAM,
    world::{
        fleet::Model,
        http::{
            World,
            resource::{Key, Kind},
        },
    },
};

/// A world right before a pass that writes, and what that pass asks.
pub struct TurningPoint {
    pub world: World,
    pub seen: Vec<String>,
}

/// Every pass that writes, from the start of a rotation to its end.
pub async fn turning_points() -> Vec<TurningPoint> {
    let begin = at("2026-12-02T02:00:00Z");
    let world = world(&["web"], 2, &Model::default(), 7, begin);
    let invariants = Invariants::of(&world);
    let mut points = Vec::new();
    while !invariants.is_at_rest() {
        world.look(|_| ());
        let before = world.fork();
        let gate = Gate::open_to_all();
        let report = run(gate.client(invariants.door())).await.unwrap();
        assert!(!report.failed(), "{report:?}");
        let seen = gate.seen();
        if !writes(&seen).is_empty() {
            points.push(TurningPoint { world: before, seen });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(points.len() < 20);
    }
    invariants.assert_rest("alone");
    points
}

/// Passes until the rotation is over.
pub async fn to_rest(invariants: &Invariants, words: &str) {
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        run(Gate::open_to_all().client(invariants.door())).await;
        if invariants.is_at_rest() {
            return invariants.assert_rest(words);
        }
    }
    invariants.assert(words);
    panic!("{words}: it never comes to rest");
}

/// Holds one pass before its `first` request while another takes the Lease and works, up to its `second` request where
/// that is given; then the one goes on to its end, and then the other.
async fn interleave(point: &TurningPoint, first: usize, second: Option<usize>) {
    let world = point.world.fork();
    let invariants = Invariants::of(&world);
    let (one, other) = (Gate::before(first), Gate::before(second.unwrap_or(usize::MAX)));
    let running = async {
        run(one.client(invariants.door())).await;
        one.end();
    };
    let rival = async {
        one.reached().await;
        take_away_lease(&world);
        run(other.client(invariants.door())).await;
        other.end();
    };
    let order = async {
        one.reached().await;
        other.reached().await;
        one.open();
        one.ended().await;
        other.open();
    };
    tokio::join!(running, rival, order);
    let asked = point.seen.get(first).map_or("its end", String::as_str);
    let words = format!("held before {first} ({asked}), the other before {second:?}");
    to_rest(&invariants, &words).await;
}

fn take_away_lease(world: &World) {
    let kind = Kind::served("coordination.k8s.io", "v1", "leases").unwrap();
    world.state().shelf.remove(&Key::of(kind, NAMESPACE, PROGRAM));
}

#[tokio::test(start_paused = true)]
async fn a_whole_pass_at_every_request_of_another_does_no_harm() {
    let points = turning_points().await;
    assert!(points.len() >= 3, "start, drain, release");
    for point in &points {
        for first in 0..=point.seen.len() {
            interleave(point, first, None).await;
        }
    }
}

#[test]
fn two_passes_interleaved_at_every_pair_of_requests_do_no_harm() {
    // Side by side, since there are thousands: each with a clock, and so with a world, of its own.
    let alone = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let count = alone().block_on(turning_points()).len();
    assert!(count >= 3, "start, drain, release");
    std::thread::scope(|scope| {
        for index in 0..count {
            scope.spawn(move || alone().block_on(every_pair(index)));
        }
    });
}

async fn every_pair(index: usize) {
    let point = turning_points().await.remove(index);
    for first in 0..point.seen.len() {
        for second in 0..point.seen.len() {
            interleave(&point, first, Some(second)).await;
        }
    }
}

/// A write is judged on what the pass knows; only the Node has to be read, once, for its resources,
/// and the placeholder is looked for before it is created.
#[tokio::test(start_paused = true)]
async fn a_start_reads_no_object_again_that_it_writes() {
    let start = &turning_points().await[0].seen;
    // Anchor, stamp, hold and placeholder; and how far windows are judged.
    assert_eq!(writes(start).len(), 5, "{start:?}");
    let of_one = |line: &&String| {
        line.starts_with("GET") && ["/nodepools/", "/nodeclaims/", "/nodes/", "/pods/"].iter().any(|kind| line.contains(kind))
    };
    let read: Vec<&String> = start.iter().filter(of_one).collect();
    assert_eq!(read, ["GET /api/v1/nodes/node-web-0", "GET /api/v1/namespaces/rotation/pods/noderotation-surge-web-0"]);
}
