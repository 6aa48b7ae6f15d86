//! C13 · A window over midnight, days that belong to the start, an empty list of days.

use noderotation::{
    api::time::{parse_annotation, parse_duration},
    policy::{Policy, read},
    schedule::window::Schedule,
};
use serde_json::{Value, json};

use crate::fleet::merged;

const NOW: &str = "2026-12-04T12:00:00Z";

fn policy(fields: &Value) -> Policy {
    let window = json!({"timezone": "America/Los_Angeles", "days": ["Mon", "TUE", "wed", "Thu", "Fri"], "start": "21:00", "end": "05:00"});
    let mut window = merged(window, fields);
    let absent: Vec<String> =
        window.as_object().unwrap().iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect();
    for name in absent {
        window.as_object_mut().unwrap().remove(&name);
    }
    read::policy(&json!({"metadata": {"name": "nights"}, "spec": {"nodePoolSelector": {}, "maintenanceWindows": [window]}}))
}

fn schedule(policy: &Policy) -> Schedule {
    Schedule::of(&policy.settings.windows, parse_annotation(NOW).unwrap())
}

#[test]
fn the_nights_of_weekdays_belong_to_the_day_they_start_on() {
    let nights = policy(&json!({}));
    assert_eq!(nights.problems, []);
    let schedule = schedule(&nights);
    let open = |local: &str| schedule.open_at(parse_annotation(&format!("{local}-08:00")).unwrap()).is_some();
    for inside in ["2026-12-04T21:00:00", "2026-12-05T04:59:59", "2026-12-07T21:00:00"] {
        assert!(open(inside), "{inside}");
    }
    for outside in ["2026-12-05T05:00:00", "2026-12-06T22:00:00", "2026-12-07T04:59:00"] {
        assert!(!open(outside), "{outside}");
    }
    assert_eq!([schedule.period, schedule.shortest, schedule.gap], ["73h", "8h", "16h"].map(parse_duration));
    let longest = ["2027-11-05T21:00:00-07:00", "2027-11-08T21:00:00-08:00"].map(|local| parse_annotation(local).unwrap());
    assert_eq!(schedule.period_between, Some(longest.into()));
}

#[test]
fn midnight_as_an_end_has_two_names_and_a_day_given_twice_is_one() {
    let (named, wrapped) = (policy(&json!({"end": "24:00"})), policy(&json!({"end": "00:00"})));
    assert_eq!(schedule(&named), schedule(&wrapped));
    let (twice, once) = (policy(&json!({"days": ["Mon", "Mon"]})), policy(&json!({"days": ["Mon"]})));
    assert_eq!(twice.settings, once.settings);
    assert_eq!(policy(&json!({"timezone": "Europe/Kyiv"})).problems, []);
}

#[test]
fn what_could_be_misread_is_refused_with_the_field_and_what_would_be_right() {
    let list = "list the days, of Mon, Tue, Wed, Thu, Fri, Sat, Sun";
    let zone = "an IANA zone name, such as Europe/Berlin or UTC (no abbreviation, no offset)";
    let start = "\"HH:MM\" with two digits each, from \"00:00\" to \"23:59\"";
    for (fields, problem) in [
        (json!({"days": []}), format!("days: []: {list}")),
        (json!({"days": null}), format!("days: missing: {list}")),
        (json!({"days": ["Monday"]}), "days[0]: \"Monday\": one of Mon, Tue, Wed, Thu, Fri, Sat, Sun".into()),
        (json!({"start": "9:00"}), format!("start: \"9:00\": {start}")),
        (json!({"start": "24:00"}), format!("start: \"24:00\": {start}")),
        (json!({"end": "21:00"}), "end: \"21:00\": another time than start; a whole day is \"00:00\" to \"24:00\"".into()),
        (json!({"timezone": "PST"}), format!("timezone: \"PST\": {zone}")),
        (json!({"timezone": "UTC+2"}), format!("timezone: \"UTC+2\": {zone}")),
    ] {
        let policy = policy(&fields);
        let problems: Vec<String> = policy.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [format!("spec.maintenanceWindows[0].{problem}")]);
        assert_eq!(policy.settings.windows, []);
    }
}
