//! A blackout over the holidays: what would expire inside it is rotated before it, pass by pass over a quarter.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use noderotation::{
    api::{
        keys,
        time::{Time, to_annotation},
    },
    candidates::{Candidate, soonest},
    view::View,
};
use serde_json::{Value, json};

use crate::fleet::{Fleet, at, policy};

const FROM: &str = "2026-10-01T00:00:00Z";
const TO: &str = "2027-01-31T00:00:00Z";

/// What became of claims: created, and when each was replaced or expired.
#[derive(Default, Debug, PartialEq)]
struct History {
    rotated: BTreeMap<String, Time>,
    expired: BTreeMap<String, Time>,
}

/// A quarter of passes, one every ten minutes while anything can change, over eight nodes that live for 14 days. A start is a success at once: what
/// counts here is when something starts.
fn quarter(spec: &Value) -> History {
    let template = json!({"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}});
    let mut fleet = Fleet::under(&policy(spec)).pool(json!({"metadata": {"name": "web"}, "spec": {"template": template}}));
    for number in 0..8_i64 {
        let created = at(FROM) - TimeDelta::hours(30 * number);
        fleet = fleet.claim("web", &format!("node-{number}"), &to_annotation(created), &json!({}), &json!({}));
    }
    let (mut history, mut now, mut born) = (History::default(), at(FROM), 8);
    while now < at(TO) {
        let due =
            |view: &View| view.claims.iter().find(|(_, claim)| claim.deadline().is_some_and(|at| at <= now)).map(|(name, _)| name.clone());
        while let Some(name) = due(&fleet.view) {
            history.expired.insert(name.clone(), now);
            fleet = replaced(fleet, &name, &mut born, now);
        }
        let step = fleet.step("web", &to_annotation(now));
        let next = soonest(step.wake_at, step.assessment.next_deadline).filter(|_| step.starts.is_none());
        if let Some(Candidate { claim: name, .. }) = step.starts {
            history.rotated.insert(name.clone(), now);
            fleet = replaced(fleet, &name, &mut born, now);
            let pool = &mut fleet.view.pools.get_mut("web").unwrap().metadata.annotations;
            pool.insert(keys::LAST_ROTATION_AT.into(), to_annotation(now));
        }
        now = next.unwrap_or(now).max(now + TimeDelta::minutes(10));
    }
    history
}

fn replaced(mut fleet: Fleet, name: &str, born: &mut i64, now: Time) -> Fleet {
    fleet.view.claims.remove(name);
    *born += 1;
    fleet.claim("web", &format!("node-{born}"), &to_annotation(now), &json!({}), &json!({}))
}

#[test]
fn what_would_expire_during_the_holidays_is_rotated_before_them() {
    let blackout = json!([{"timezone": "Asia/Tokyo", "from": "2026-12-15", "to": "2026-12-24", "reason": "year-end freeze"}]);
    let (from, to) = (at("2026-12-14T15:00:00Z"), at("2026-12-24T15:00:00Z"));
    let closed = |time: &Time| from <= *time && *time < to;
    let with = quarter(&json!({"blackouts": blackout}));
    assert_eq!(with.expired, BTreeMap::new());
    assert_eq!(with.rotated.values().filter(|time| closed(time)).count(), 0);
    // Without foresight the same closed days cost nodes their lives; without the blackout they are used.
    let without = quarter(&json!({}));
    assert_eq!(without.expired, BTreeMap::new());
    assert!(without.rotated.values().any(closed));
    // Eight nodes before it: those that are due anyway, and all of them once, as late as their replacements need to see the
    // first window after it. None again and again.
    let last_week = |history: &History| history.rotated.values().filter(|time| from - TimeDelta::days(7) < **time && **time < from).count();
    assert_eq!((last_week(&with), last_week(&without)), (16, 8));
}
