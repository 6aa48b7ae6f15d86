//! Every annotation of ours with every kind of broken value, on the right object and on the wrong ones, met in every state
//! of a rotation: the pool comes to rest, goes on with its next claim, and says once what it could not read.

use std::collections::BTreeMap;

use serde_json::json;

use super::{memory::Memory, stories::karpenter};
use crate::{
    api::{
        keys,
        time::{later, to_annotation},
    },
    pass::pass,
    rotation::{
        effect::Kind,
        tests::fleet::{Fleet, Object, ago, config, days, fleet, mins, now},
    },
};

const OBJECTS: [(Kind, &str); 3] = [(Kind::NodePool, "web"), (Kind::NodeClaim, "a"), (Kind::Node, "node-a")];
/// Minutes between passes here, and how many passes a pool has to come to its next claim.
const STRIDE: i64 = 5;
const PASSES: i64 = 33;

fn values() -> Vec<String> {
    let huge = "9".repeat(10_000);
    ["", "-1", "2999-01-01T00:00:00Z", "{\"success\":\"three\"", &huge].map(str::to_owned).into()
}

/// A rotation of `a` in every state, beside `c`, which the operator wants rotated half an hour from now.
pub fn states() -> BTreeMap<&'static str, Fleet> {
    let noted = |object: Object| object.note("example.com/note", "mine");
    let with_c = |fleet: Fleet| {
        let asked = to_annotation(later(now(), mins(30)));
        let fleet = fleet.claim("c", |claim| claim.age(days(1)).note(keys::ROTATE_REQUESTED, asked));
        fleet.change(Kind::Node, "node-a", noted).change(Kind::Node, "node-c", noted)
    };
    let draining = || {
        let fleet = fleet().mirrored("a", mins(1)).claim("a", |claim| claim.state("draining")).host("b", |claim| claim);
        fleet.change(Kind::Node, "node-b", |node| node.frozen("a").note("example.com/note", "mine"))
    };
    let failed =
        |fleet: Fleet| fleet.claim("a", |claim| claim.state("failed").note(keys::FAILED_AT, ago(mins(5))).note(keys::RETRY_COUNT, "1"));
    BTreeMap::from([
        ("fresh", with_c(fleet().claim("a", |claim| claim))),
        ("pending", with_c(fleet().awaiting(mins(3)))),
        ("draining, not deleted yet", with_c(draining().change(Kind::Node, "node-a", |node| node.held("a")))),
        ("draining", with_c(draining().change(Kind::NodeClaim, "a", |claim| claim.deleting(mins(1))))),
        ("failed", with_c(failed(fleet()))),
        ("failed, anchored", with_c(failed(fleet().anchored("a")))),
        ("expired", with_c(fleet().anchored("a").claim("a", |claim| claim.state("expired").deleting(mins(1))))),
        ("fallback", with_c(draining().note(keys::ROTATION_MODE, keys::MODE_FORCEFUL_FALLBACK))),
    ])
}

/// Passes until the next claim has its turn.
async fn meets(fleet: Fleet, context: &str) {
    let cluster = Memory::new(fleet, now());
    for number in 0..PASSES {
        {
            let mut state = cluster.state();
            state.now = later(now(), mins(number * STRIDE));
            karpenter(&mut state, u32::try_from(number).unwrap());
        }
        cluster.next_pass();
        let report = pass(&cluster, &config(), 1).await;
        assert!(report.aborted.is_none(), "{context}: {report:?}");
        let state = cluster.state();
        if state.object(Kind::NodePool, "web").unwrap()["metadata"]["annotations"][keys::ACTIVE_ROTATION] == json!("c") {
            return;
        }
    }
    let state = cluster.state();
    panic!("{context}: the next claim never had its turn:\n{}\n{:#?}", state.log.join("\n"), state.object(Kind::NodePool, "web"));
}

/// A freeze that can't be read stops the pool on purpose, until the operator mends it; it has its own tests.
fn ours() -> impl Iterator<Item = &'static str> {
    keys::ANNOTATIONS.iter().map(|key| key.key).filter(|key| *key != keys::FREEZE)
}

#[tokio::test]
async fn no_broken_value_blocks_a_pool_for_good() {
    for (state, fleet) in states() {
        meets(fleet.clone(), state).await;
        for key in ours() {
            for (kind, name) in OBJECTS {
                for value in values() {
                    let context = format!("{state}, {key} of {kind:?} {name} is {:.40}", value);
                    meets(fleet.clone().change(kind, name, |object| object.note(key, value)), &context).await;
                }
            }
        }
    }
}

/// A condition's Event has its name from the object, the reason and the subject: the same one is not written again.
#[tokio::test]
async fn what_cannot_be_read_is_said_under_one_name() {
    let broken = [
        (Kind::NodePool, "web", keys::LAST_ROTATION_AT),
        (Kind::NodePool, "web", keys::LAST_FAILURE_AT),
        (Kind::NodePool, "web", keys::TOTALS),
        (Kind::NodeClaim, "a", keys::FAILED_AT),
        (Kind::NodeClaim, "a", keys::RETRY_COUNT),
        (Kind::NodeClaim, "a", keys::ROTATE_REQUESTED),
    ];
    for (kind, name, key) in broken {
        let fleet = states().remove("failed").unwrap().change(kind, name, |object| object.note(key, "{"));
        // The window is closed, so nothing mends the value.
        let cluster = Memory::new(fleet, later(now(), mins(240)));
        for _ in 0..3 {
            cluster.next_pass();
            pass(&cluster, &config(), 1).await;
        }
        let state = cluster.state();
        let told = state.told.iter().filter(|notice| notice.reason == "StateUnreadable");
        let names: Vec<_> = told.map(|notice| (notice.regarding.clone(), notice.subject.clone())).collect();
        // The window that closed mends the totals with its count; nothing mends the others.
        assert_eq!(names.len(), if key == keys::TOTALS { 1 } else { 3 }, "{key}");
        assert!(
            names.iter().all(|name| *name == names[0] && name.1 == format!("{}/{key}", if kind == Kind::NodePool { "web" } else { "a" })),
            "{key}: {names:?}"
        );
    }
}
