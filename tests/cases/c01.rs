//! C01 · Auto Mode pool: 24h grace, the 21-day cap, and a static pool pinned at its node limit.

use chrono::TimeDelta;
use noderotation::{api::time::parse_duration, rotation::step::Step};
use serde_json::{Value, json};

use crate::fleet::{Fleet, findings, merged, policy, reasons};

/// Saturday 5 December 2026, 03:00 in Tokyo.
const OPEN: &str = "2026-12-04T18:00:00Z";

/// Six nodes of Auto Mode's own pool, one of them long past its age.
fn auto_mode(policy: &Value, pool: &Value, created: &str) -> Step {
    let base = json!({
        "metadata": {"name": "general-purpose"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
            "expireAfter": "336h", "terminationGracePeriod": "24h0m0s",
        }}},
    });
    let pool = merged(base, pool);
    let lifetime = json!({"spec": pool["spec"]["template"]["spec"]});
    let mut fleet = Fleet::under(policy).pool(pool);
    for number in 1..=6 {
        let created = if number == 1 { created } else { "2026-12-04T00:00:00Z" };
        fleet = fleet.claim("general-purpose", &format!("node-{number}"), created, &lifetime, &json!({}));
    }
    fleet.step("general-purpose", OPEN)
}

fn template(expire_after: &str, grace: &str) -> Value {
    json!({"spec": {"template": {"spec": {"expireAfter": expire_after, "terminationGracePeriod": grace}}}})
}

#[test]
fn the_grace_period_is_part_of_the_bound() {
    let step = auto_mode(&policy(&json!({})), &json!({}), "2026-11-29T00:00:00Z");
    let derived = step.assessment.derivation.unwrap();
    let numbers = [derived.period, Some(derived.t_rot), derived.lead_time, derived.age_threshold];
    assert_eq!(numbers, ["96h", "24h19m", "216h19m", "119h41m"].map(parse_duration));
    assert_eq!((derived.capacity, findings(&step)), (10, vec![]));
    // 119h41m after its creation, and not before.
    let age = |hours, minutes| TimeDelta::hours(hours) + TimeDelta::minutes(minutes);
    let created = |age: TimeDelta| noderotation::api::time::to_annotation(crate::fleet::at(OPEN) - age);
    let code = |age| auto_mode(&policy(&json!({})), &json!({}), &created(age)).action.code;
    assert_eq!((code(age(119, 41)), code(age(119, 42))), ("idle", "start"));
}

#[test]
fn twenty_one_days_are_allowed_and_an_hour_more_is_told() {
    let found = |grace| findings(&auto_mode(&policy(&json!({})), &template("480h", grace), "2026-12-01T00:00:00Z"));
    assert_eq!((found("24h"), found("25h")), (vec![], vec!["HardCapExceeded"]));
}

#[test]
fn one_window_a_week_leaves_no_age_and_nothing_starts() {
    let saturdays = json!([{"timezone": "Asia/Tokyo", "days": ["Sat"], "start": "02:00", "end": "06:00"}]);
    let step = auto_mode(&policy(&json!({"maintenanceWindows": saturdays})), &json!({}), "2026-11-21T00:00:00Z");
    assert_eq!(findings(&step), ["ANonPositive"]);
    assert_eq!((step.action.code, step.effects.len()), ("gated", 0));
}

#[test]
fn a_static_pool_starts_nothing_and_finishes_what_it_has() {
    for replicas in [3, 0] {
        let fixed = json!({"spec": {"replicas": replicas, "limits": {"nodes": replicas}}});
        let step = auto_mode(&policy(&json!({})), &fixed, "2026-11-25T00:00:00Z");
        assert_eq!((step.action.code, step.effects.len(), reasons(&step)), ("gated", 0, vec!["StaticNodePool"]));
        let anchored = json!({"metadata": {"annotations": {"noderotation.io/active-rotation": "node-1"}}});
        let step = auto_mode(&policy(&json!({})), &merged(fixed, &anchored), "2026-11-25T00:00:00Z");
        assert_ne!(step.action.code, "gated");
        assert!(!step.effects.is_empty(), "{:?}", step.action);
    }
}
