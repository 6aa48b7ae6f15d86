//! The scenes: the embedded world and the real control plane play the same ones, and come to the same.
//!
//! A scene ([`scene::scenes`]) is a pool, a workload, a policy and what an operator does meanwhile, declared once. All of them
//! are played side by side, with a pass every two seconds: in the world behind its HTTP door, with the real client and a clock
//! that jumps, and with real passes over real Karpenter. The world's model has the delays that the control plane was set to,
//! and nothing is fitted. Both are told from the objects of the API alone ([`story`]), by the same words: what happened to
//! whom, in which state claim, pool and Nodes were then.
//!
//! # What must be the same ([`compare`])
//! - **The transitions of each pool and all that is told of each.** A third Node, a drain before its surge, another count, an
//!   attempt more, a path that is not `absorbed`: each is a difference.
//! - **Their order.** What happens to one claim is ordered. What happens to two of them is where the world has more than a
//!   cadence in between: below that, no pass could have told which came first.
//! - **Their times**, from the last moment that an object itself tells (a start, a delete, a count) on:
//!   - Nothing comes earlier than in the world by more than one cadence. A busy machine only makes things later, so this is
//!     exact for every transition: each delay and each dependency that the world has and Karpenter lacks is found.
//!   - A busy machine makes one pool late, but hardly all of them. So of the pools that make the same transition, three at
//!     least, the quickest may be later by one cadence and the slowest pass. That pass stands for what the machine itself
//!     needs: it is a process and some twenty requests. Delays that the world lacks are found where they are longer.
//!
//! # What is different on purpose
//! - Karpenter tries a refused eviction again after a tenth of a second, twice that, and so on up to ten; the world counts in
//!   whole seconds. Where a Pod is Ready just as Karpenter tries, this try may succeed or the next; the world takes the
//!   earlier, and budgets are lifted in the middle between two tries.
//! - kwok starts Pods on Nodes that are not Ready. No kubelet does that: such a placeholder doesn't count as placed.
//! - KWOK says of a Node that is being deleted that its instance is gone, and so one that isn't Ready goes at once, without a
//!   drain. A real provider doesn't, and the world neither: the end of what was never Ready isn't told.
//! - With KWOK `spec.limits` are measured by what Pods asked for: a scene's limits are set so that the same has room on both sides.

use std::{collections::BTreeMap, time::Duration};

use noderotation::world::fleet::Model;

mod compare;
mod embedded;
mod operator;
mod real;
mod scene;
mod story;

/// How long Karpenter gathers Pods. Stamps have whole seconds: what came for an attempt is told from what was there by a
/// second that is later. Where a batch ends between the deletes of a claim and of its placeholder, Karpenter plans the Pods
/// around the placeholder and launches a third Node: so a batch lasts for longer than a pass takes from one pool's drain to
/// the next one's, also on a busy machine.
const BATCH: Duration = Duration::from_secs(2);
/// How long Pods take to be Ready, the placeholder too, and a part of a second more.
const POD_READY: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn the_world_and_the_real_control_plane_come_to_the_same() {
    let scenes = scene::scenes();
    let in_world = tokio::task::spawn_blocking(|| embedded::play(&scene::scenes(), &embedded::model()));
    let real = real::play(&scenes).await;
    let world = in_world.await.unwrap();
    let differences = compare::differences(&world, &real.rows, real.slowest);
    let told = |rows: &BTreeMap<String, Vec<story::Row>>| rows.iter().map(|(pool, rows)| compare::listed(pool, rows)).collect::<String>();
    assert!(
        differences.is_empty(),
        "{}\n\nIn the world:\n{}\nOn the real control plane, with passes of {:?} at most:\n{}",
        differences.join("\n"),
        told(&world),
        real.slowest,
        told(&real.rows)
    );
}

/// The world against itself, with one delay another.
#[test]
fn a_delay_that_is_wrong_by_more_than_a_cadence_is_a_difference() {
    let mut scenes = scene::scenes();
    scenes.retain(|scene| ["plain", "wide", "held"].contains(&scene.name));
    let right = embedded::play(&scenes, &embedded::model());
    assert_eq!(compare::differences(&right, &right, Duration::ZERO), [""; 0]);
    let differs = |model: Model| {
        let found = compare::differences(&embedded::play(&scenes, &model), &right, Duration::ZERO);
        found.first().and_then(|first| first.split(':').next().map(str::to_owned))
    };
    let early = Some("too early".to_owned());
    assert_eq!(differs(Model { batch: 5, ..embedded::model() }), early);
    assert_eq!(differs(Model { initialize: 5..=5, ..embedded::model() }), early);
    assert_eq!(differs(Model { pause: 7..=7, ..embedded::model() }), early);
    assert_eq!(differs(Model { terminate: 9..=9, ..embedded::model() }), early);
    assert_eq!(differs(Model { drain: 9, ..embedded::model() }), early);
    assert_eq!(differs(Model { pause: 0..=0, ..embedded::model() }), Some("too late, and all others more so".to_owned()));
}
