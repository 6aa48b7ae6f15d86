//! Passes whose requests go wrong.

use std::time::Duration;

use tower::Layer;

use super::{
    fleet::{at, config, terms, world},
    gate::writes,
    interleaved::{to_rest, turning_points},
    invariants::Invariants,
};
use crate::{
    kube::session::Session,
    pass::{pass_over, ready},
    world::{
        fleet::Model,
        http::faults::{Fault, Faults, Plan},
    },
};

/// A run that may end in any error; as the program does, it gives the Lease back where it can.
async fn try_run(client: kube::Client) {
    let mut session = Session::begin(client, terms());
    if let Ok(look) = ready(&mut session, &config(), Duration::ZERO).await {
        pass_over(&session, 8, look).await;
        session.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_a_write_it_does_no_harm() {
    let faults = [
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::Repeated,
        Fault::StoredAnd(504),
        Fault::Refused(409),
        Fault::Throttled(1),
        Fault::Slow(Duration::from_secs(12)),
        Fault::Late(Duration::from_secs(12)),
    ];
    for point in &turning_points().await {
        for number in writes(&point.seen) {
            for fault in faults {
                let world = point.world.fork();
                let invariants = Invariants::in_trouble(&world);
                let layer = Faults::new(Plan::At(number, fault));
                try_run(kube::Client::new(layer.layer(invariants.door()), "default")).await;
                let words = format!("{} {fault}", point.seen[number]);
                assert_eq!(layer.seen()[number].fault, Some(fault), "{words}");
                to_rest(&invariants, &words).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_trouble_does_no_harm() {
    for seed in 0..6 {
        let world = world(&["web"], 2, &Model::default(), seed, at("2026-12-02T02:00:00Z"));
        let invariants = Invariants::in_trouble(&world);
        let layer = Faults::new(Plan::seeded(seed, 12));
        let client = kube::Client::new(layer.layer(invariants.door()), "default");
        for _ in 0..25 {
            try_run(client.clone()).await;
            let left = 60 - world.now().timestamp() % 60;
            tokio::time::sleep(Duration::from_secs(left.unsigned_abs())).await;
        }
        assert!(layer.seen().iter().filter(|seen| seen.fault.is_some()).count() > 10);
        to_rest(&invariants, &format!("seed {seed}")).await;
    }
}
