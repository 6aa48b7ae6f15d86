//! The Lease of a pass, stolen and broken, in the world's time.

use std::time::Duration;

use serde_json::json;

use super::{
    fleet::{NAMESPACE, at, config, run, terms, world},
    gate::{Gate, writes},
    interleaved::{to_rest, turning_points},
    invariants::Invariants,
};
use crate::{
    api::{keys::PROGRAM, time::to_micro},
    cluster::Failure,
    kube::session::Session,
    pass::{Unready, pass_over, ready},
    world::{
        fleet::Model,
        http::{
            Actor,
            resource::{Key, Kind},
        },
    },
};

fn key() -> (&'static Kind, Key) {
    let kind = Kind::served("coordination.k8s.io", "v1", "leases").unwrap();
    (kind, Key::of(kind, NAMESPACE, PROGRAM))
}

#[tokio::test(start_paused = true)]
async fn a_broken_record_is_taken_once_nobody_has_written_it_for_its_duration() {
    let world = world(&["web"], 2, &Model::default(), 1, at("2026-12-02T02:00:00Z"));
    for renewed in ["soon", "2036-12-02T02:00:00.000000Z"] {
        let (kind, key) = key();
        let spec = json!({"holderIdentity": "laptop", "leaseDurationSeconds": 15, "renewTime": renewed});
        let record =
            json!({"metadata": {"name": PROGRAM, "namespace": NAMESPACE, "creationTimestamp": "2026-12-02T01:00:00Z"}, "spec": spec});
        world.state().put(kind, key, record);
        let mut hasty = Session::open(world.client(Actor::Program), terms()).await.unwrap();
        let held = hasty.take_lease(Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(held.by, "laptop");
        assert!(held.oddity.is_some(), "{held}");
        let (begun, mut patient) = (world.now(), Session::open(world.client(Actor::Program), terms()).await.unwrap());
        assert_eq!(patient.take_lease(Duration::from_secs(60)).await.unwrap(), None);
        let waited = (world.now() - begun).num_seconds();
        assert!((15..20).contains(&waited), "{waited}");
        patient.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_whose_lease_was_taken_while_it_stood_still_writes_nothing_more() {
    for point in &turning_points().await {
        for number in writes(&point.seen) {
            let world = point.world.fork();
            let invariants = Invariants::of(&world);
            // The last request before the write: its answer tells the time.
            let gate = Gate::before(number - 1);
            let slow = async {
                let mut session = Session::begin(gate.client(invariants.door()), terms());
                let look = match ready(&mut session, &config(), Duration::ZERO).await {
                    Err(Unready::Held(_)) => return None,
                    look => look.unwrap(),
                };
                let report = pass_over(&session, 8, look).await;
                session.close().await;
                Some(report)
            };
            let rival = async {
                gate.reached().await;
                let (kind, key) = key();
                let spec = json!({"holderIdentity": "rival", "leaseDurationSeconds": 20, "renewTime": to_micro(world.now())});
                world.state().put(kind, key.clone(), json!({"metadata": {"name": PROGRAM, "namespace": NAMESPACE}, "spec": spec}));
                // Longer than a write is allowed after a renewal, and less than the read is waited for.
                tokio::time::sleep(Duration::from_secs(12)).await;
                let asked = gate.seen().len();
                gate.open();
                asked
            };
            let (report, asked) = tokio::join!(slow, rival);
            let words = format!("before {}", point.seen[number]);
            match report {
                Some(report) => assert!(matches!(report.aborted, Some(Failure::LeaseLost(_))), "{words}: {report:?}"),
                None => assert!(point.seen[number - 1].contains("/leases"), "{words}: it holds the Lease"),
            }
            let later: Vec<String> = gate.seen().split_off(asked);
            assert!(writes(&later).is_empty(), "{words}: {later:?}");
            to_rest(&invariants, &words).await;
        }
    }
}

/// What was read before the other pass is not acted on.
#[tokio::test(start_paused = true)]
async fn a_pass_looks_again_where_another_held_the_lease_since_it_looked() {
    for point in &turning_points().await {
        let world = point.world.fork();
        let invariants = Invariants::of(&world);
        let takes = point.seen.iter().position(|line| line.contains("/leases") && !line.starts_with("GET")).unwrap();
        let gate = Gate::before(takes);
        let rival = async {
            gate.reached().await;
            run(Gate::open_to_all().client(invariants.door())).await.unwrap();
            let asked = gate.seen().len();
            gate.open();
            asked
        };
        let (report, asked) = tokio::join!(run(gate.client(invariants.door())), rival);
        assert!(!report.unwrap().failed());
        let later = gate.seen().split_off(asked);
        let lists = later.iter().position(|line| line.starts_with("GET /apis/karpenter.sh/v1/nodeclaims?"));
        let writes = writes(&later);
        assert!(lists.is_some_and(|lists| writes.iter().all(|write| lists < *write)), "{later:?}");
        to_rest(&invariants, &later.join(", ")).await;
    }
}
