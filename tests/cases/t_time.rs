//! Trouble with time: stamps from wrong clocks, and zones whose changes are not an hour.

use noderotation::{
    api::{karpenter::NodePool, keys, time::parse_annotation},
    policy::read,
    rotation::effect::{Effect, End, Fresh, Verdict, apply},
    schedule::window::Schedule,
};
use serde_json::{Value, json};

use crate::fleet::{Fleet, at, policy};

const NOW: &str = "2026-12-04T18:00:00Z";

/// The annotation `last-failure-at` that an effect leaves.
fn left(effect: &Effect, annotations: Value) -> Value {
    let pool: NodePool = serde_json::from_value(json!({"metadata": {"name": "web", "annotations": annotations}})).unwrap();
    match apply(effect, Some(&Fresh::NodePool(pool.into())), "pass") {
        Verdict::Patch(patch) => patch.to_value()["metadata"]["annotations"][keys::LAST_FAILURE_AT].clone(),
        other => panic!("{other:?}"),
    }
}

/// T14: a laptop with a wrong clock, or a restored backup, left `last-failure-at` in the year 2099. By `max` it would stay
/// for ever: no pause after any failure, and after a crash a failure that nobody counts.
#[test]
fn t14_a_failure_of_the_future_does_not_switch_the_pause_off_for_good() {
    let (failed_at, at) = (at("2026-12-04T17:50:00Z"), at(NOW));
    let effects = [
        Effect::Release { pool: "web".into(), claim: "web-1".into(), end: End::Failed { failed_at }, at },
        Effect::Anchor { pool: "web".into(), claim: "web-1".into(), at, failed_at: Some(failed_at) },
        Effect::StartFallback { pool: "web".into(), claim: "web-1".into(), at, failed_at: Some(failed_at) },
    ];
    for effect in &effects {
        let anchor = if matches!(effect, Effect::Release { .. }) { json!("web-1") } else { Value::Null };
        let mut annotations = json!({keys::LAST_FAILURE_AT: "2099-01-01T00:00:00Z", keys::ACTIVE_ROTATION: anchor});
        annotations.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(left(effect, annotations.clone()), "2026-12-04T17:50:00Z", "{effect}");
        annotations[keys::LAST_FAILURE_AT] = json!("2026-12-04T17:55:00Z");
        assert_eq!(left(effect, annotations), "2026-12-04T17:55:00Z", "{effect}");
    }
}

/// The same: a crash between a failure and its count is still counted, though the stamp says that all of it is accounted for.
#[test]
fn t14_a_crash_after_a_failure_is_counted_whatever_the_future_says() {
    let counted = |last_failure: &str, failed_at: &str| {
        let annotations = json!({keys::STATE: "failed", keys::FAILED_AT: failed_at, keys::RETRY_COUNT: "1"});
        let step = Fleet::under(&policy(&json!({})))
            .pool(json!({"metadata": {"name": "web", "annotations": {keys::ACTIVE_ROTATION: "web-1", keys::LAST_FAILURE_AT: last_failure}},
                "spec": {"template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}}}))
            .claim("web", "web-1", "2026-11-25T00:00:00Z", &json!({"metadata": {"annotations": annotations}}), &json!({}))
            .step("web", NOW);
        step.action.code
    };
    assert_eq!(counted("2099-01-01T00:00:00Z", "2026-12-04T17:50:00Z"), "account");
    assert_eq!(counted("2026-12-04T17:40:00Z", "2026-12-04T17:50:00Z"), "account");
    assert_ne!(counted("2026-12-04T17:50:00Z", "2026-12-04T17:50:00Z"), "account");
    // A failure of the future that is accounted for is no new one in every pass.
    assert_ne!(counted("2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z"), "account");
}

/// The closest occurrence around an instant, as start and end in UTC.
fn occurrence(zone: &str, day: &str, start: &str, end: &str, around: &str) -> Option<(String, String)> {
    let window = json!({"timezone": zone, "days": [day], "start": start, "end": end});
    let policy = read::policy(&json!({"metadata": {"name": "w"}, "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window]}}));
    assert_eq!(policy.problems, []);
    let around = parse_annotation(around).unwrap();
    let schedule = Schedule::of(&policy.settings.windows, around);
    let near = |span: chrono::TimeDelta| span.abs() < chrono::TimeDelta::hours(20);
    let found = schedule.occurrences.iter().find(|occurrence| near(occurrence.start - around))?;
    Some((found.start.format("%dT%H:%M").to_string(), found.end.format("%dT%H:%M").to_string()))
}

/// T15: half an hour on Lord Howe, two hours in Troll, back to standard time for Ramadan in Casablanca, a zone beyond +13, and a
/// change at midnight (Beirut): a window begins and ends by the wall clock, at the gap's end where its start isn't there.
#[test]
fn t15_zones_whose_changes_are_not_an_hour_at_two_in_spring() {
    let utc = |start: &str, end: &str| Some((start.to_owned(), end.to_owned()));
    // 2026-10-04 02:00 becomes 02:30: a window wholly inside doesn't occur, one that begins inside begins at its end.
    assert_eq!(occurrence("Australia/Lord_Howe", "Sun", "02:00", "02:30", "2026-10-03T15:30:00Z"), None);
    assert_eq!(occurrence("Australia/Lord_Howe", "Sun", "02:10", "03:00", "2026-10-03T15:30:00Z"), utc("03T15:30", "03T16:00"));
    // 2027-03-28 01:00 UTC: 01:00 becomes 03:00.
    assert_eq!(occurrence("Antarctica/Troll", "Sun", "02:30", "05:00", "2027-03-28T01:00:00Z"), utc("28T01:00", "28T03:00"));
    // 2025-02-23 03:00 became 02:00: the hour came twice, and one interval spans both.
    assert_eq!(occurrence("Africa/Casablanca", "Sun", "02:00", "03:00", "2025-02-23T02:00:00Z"), utc("23T01:00", "23T03:00"));
    assert_eq!(occurrence("Pacific/Kiritimati", "Wed", "00:00", "04:00", "2026-12-01T10:00:00Z"), utc("01T10:00", "01T14:00"));
    // 2027-03-28 00:00 becomes 01:00: the day begins at one.
    assert_eq!(occurrence("Asia/Beirut", "Sun", "00:00", "03:00", "2027-03-27T22:00:00Z"), utc("27T22:00", "28T00:00"));
}
