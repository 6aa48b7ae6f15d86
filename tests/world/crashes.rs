//! Every fault at every write of each kind of rotation.

use chrono::TimeDelta;
use noderotation::api::time::later;
use serde_json::json;

use crate::{
    door::FAULTS,
    scenario::{Meddling, Scenario, begin, pool},
    soak::play,
};

/// The kinds: their name, and how the quiet scenario is changed for them.
fn kinds() -> Vec<(&'static str, Scenario)> {
    let quiet = || Scenario { length: TimeDelta::hours(64), pools: vec![pool("web", 1, "168h", Some("1h"), 0)], ..Scenario::quiet() };
    // Two hours and a minute into the first window's day: the rotation is in flight.
    let in_flight = later(begin(), TimeDelta::seconds(2 * 3600 + 70));
    let due = |mut scenario: Scenario| {
        for pool in &mut scenario.pools {
            for node in &mut pool.nodes {
                node.created = later(begin(), -TimeDelta::hours(100));
            }
        }
        scenario
    };
    let mut rollback = due(quiet());
    rollback.model.no_capacity = vec![(begin(), later(begin(), TimeDelta::hours(3)))];
    let mut never_ready = due(quiet());
    never_ready.model.one_in_never_ready = 2;
    let mut fallback = due(quiet());
    fallback.policy["surge"]["forcefulFallback"] = json!({"enabled": true});
    for node in &mut fallback.pools[0].nodes {
        node.created = later(begin(), -TimeDelta::hours(165));
    }
    let mut forced = due(quiet());
    forced.pools[0].workloads[0].max_unavailable = Some(0);
    let mut overtaken = due(quiet());
    overtaken.meddling = vec![(in_flight, Meddling::DeleteInFlight)];
    let mut ungoverned = due(quiet());
    ungoverned.meddling = vec![(in_flight, Meddling::Ungovern(300))];
    let mut frozen = due(quiet());
    frozen.meddling = vec![(later(begin(), TimeDelta::seconds(2 * 3600 + 5)), Meddling::Freeze(120))];
    vec![
        ("success", due(quiet())),
        ("rollback", rollback),
        ("never-ready", never_ready),
        ("fallback", fallback),
        ("forced", forced),
        ("overtaken", overtaken),
        ("ungoverned", ungoverned),
        ("frozen", frozen),
    ]
}

#[test]
fn every_kind_of_rotation_survives_every_fault_at_every_write() {
    let mut stories = 0;
    let only = std::env::var("NODEROTATION_KIND").ok();
    for (name, scenario) in kinds().into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name)) {
        let plain = play(&scenario, None, None);
        assert!(plain.wrong.is_empty(), "{name}: {:#?}\n{}", plain.wrong, plain.log.join("\n"));
        assert!(plain.rotations > 0, "{name} rotates nothing:\n{}", plain.log.join("\n"));
        for write in 1..=plain.writes {
            for fault in FAULTS {
                let told = play(&scenario, None, Some((write, fault)));
                assert!(told.wrong.is_empty(), "{name}, {fault:?} at write {write}: {:#?}\n{}", told.wrong, told.log.join("\n"));
                stories += 1;
            }
        }
        println!("{name}: {} writes", plain.writes);
    }
    println!("{stories} stories");
}
