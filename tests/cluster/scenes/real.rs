//! The scenes on the real control plane: each pass a process of its own.

use std::{collections::BTreeMap, time::Duration};

use control_plane::{ControlPlane, Options};
use futures::future::join_all;
use noderotation::{
    api::time::{Time, parse_annotation},
    clock::Clock,
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    operator::Operator,
    scene::{CADENCE, Deed, Scene},
    story::{Row, Seen, Teller, look},
};
use crate::{
    chronicle::{Chronicle, Version},
    passes::Passes,
    pools::LIMIT,
};

const PAUSE: Duration = Duration::from_millis(300);
/// So many passes follow the last scene's end, and must find nothing to do.
const IDLE: usize = 2;
/// So old the claims must be: see the scene `forced`.
const AGE: Duration = Duration::from_secs(13);

/// What was seen, and how long the slowest pass took.
pub struct Played {
    pub rows: BTreeMap<String, Vec<Row>>,
    pub slowest: Duration,
}

pub async fn play(scenes: &[Scene]) -> Played {
    let passes = Passes::start(Options { pod_ready_delay: super::POD_READY, batch_idle: super::BATCH, ..Options::default() }).await;
    let plane = &passes.plane;
    join_all(scenes.iter().map(|scene| fill(plane, scene))).await;
    let names: Vec<&str> = scenes.iter().map(|scene| scene.name).collect();
    let present = look(&plane.client()).await;
    let mut teller = Teller::new(&names, present.clone());
    let mut operator = Operator::new(plane.client(), scenes);
    for scene in scenes.iter().filter(|scene| scene.spare) {
        operator.perform(scene.name, &Deed::Protect("b"), &teller).await;
    }
    be_of_age(&present).await;
    let chronicle = Chronicle::begin(plane);
    let policies: Vec<_> = scenes.iter().map(Scene::policy).collect();
    plane.apply_objects(&policies).await.unwrap();

    let slowest = rotate(&passes, scenes, &chronicle, &mut teller, &mut operator).await;
    // Once more, now that all versions of all kinds can be put in order.
    let history = chronicle.history().await;
    let mut teller = Teller::new(&names, present);
    history.all().for_each(|version| teller.see(version.at, vec![seen(version)]));
    Played { rows: teller.into_rows(), slowest }
}

async fn rotate(passes: &Passes, scenes: &[Scene], chronicle: &Chronicle, teller: &mut Teller, operator: &mut Operator) -> Duration {
    let (began, mut next, mut slowest, mut told, mut idle) = (Instant::now(), Instant::now(), Duration::ZERO, 0, 0);
    while idle <= IDLE {
        for version in chronicle.since(told) {
            told += 1;
            teller.see(version.at, vec![seen(&version)]);
        }
        operator.act(Clock::local().now(), teller).await;
        if Instant::now() < next {
            sleep(PAUSE).await;
            continue;
        }
        let begin = Instant::now();
        next = begin + Duration::from_secs(CADENCE.cast_unsigned());
        let pass = passes.pass().await;
        assert_eq!(pass.code, Some(0), "{}", pass.log);
        slowest = slowest.max(begin.elapsed());
        let has_ended = |scene: &Scene| teller.rows(scene.name).iter().any(|row| row.head() == scene.end);
        if scenes.iter().all(has_ended) {
            idle += 1;
        } else if began.elapsed() > LIMIT {
            let told: Vec<String> = scenes.iter().map(|scene| super::compare::listed(scene.name, teller.rows(scene.name))).collect();
            panic!(
                "not all scenes have ended within {LIMIT:?}\n{}\n{}\n{}",
                told.join("\n"),
                pass.log,
                passes.plane.describe_state().await
            );
        }
    }
    sleep_until(next).await;
    slowest
}

fn seen(version: &Version) -> Seen {
    (version.kind, version.name().to_owned(), (!version.gone).then(|| version.object.clone()))
}

/// The Nodes, with the workload's Pods on the first.
async fn fill(plane: &ControlPlane, scene: &Scene) {
    let workload = scene.workload();
    plane.install(&scene.pool()).await.unwrap();
    plane.deploy(&workload).await.unwrap();
    if scene.spare {
        let (_, cpus) = scene.pods;
        let other = control_plane::Workload::new(&format!("{}-spare", scene.name), scene.name).cpu(&cpus.to_string()).without_budget();
        plane.deploy(&other).await.unwrap();
        plane.wait_for_claims(scene.name, 2, "Initialized").await.unwrap();
        plane.deploy(&other.replicas(0)).await.unwrap();
    } else {
        plane.wait_for_claims(scene.name, 1, "Initialized").await.unwrap();
    }
    // What Karpenter counts: with KWOK, what the Node's first Pods asked for.
    let (count, cpus) = scene.pods;
    if let Some(patch) = scene.stalled(count * cpus) {
        let patch = patch.to_string();
        plane.run_kubectl(&["patch", "nodepool", scene.name, "--type=merge", "--patch", &patch], "").await.unwrap();
    }
}

async fn be_of_age(present: &[Seen]) {
    let claims = present.iter().filter(|(kind, _, _)| *kind == "NodeClaim").filter_map(|(_, _, claim)| claim.as_ref());
    let created = claims.map(|claim| parse_annotation(claim["metadata"]["creationTimestamp"].as_str().unwrap()).unwrap());
    let youngest: Time = created.max().unwrap();
    let of_age = youngest + AGE - Clock::local().now();
    sleep(of_age.to_std().unwrap_or_default()).await;
}
