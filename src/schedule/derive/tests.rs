use super::*;
use crate::{
    api::time::{parse_annotation, parse_duration},
    policy::read,
};

const MINUTE: TimeDelta = TimeDelta::minutes(1);

fn span(text: &str) -> TimeDelta {
    parse_duration(text).unwrap()
}

fn lifetime(expire_after: &str, grace: &str) -> Lifetime {
    Lifetime { expire_after: parse_duration(expire_after), grace: parse_duration(grace) }
}

/// Settings and schedule of a policy with these days, from 02:00 to 06:00 in Tokyo, and further fields.
fn policy(days: &str, times: &str, fields: &str) -> (Settings, Schedule) {
    let (start, end) = times.split_once('-').unwrap();
    let text = format!(
        "spec: {{nodePoolSelector: {{}}, maintenanceWindows: [{{timezone: Asia/Tokyo, days: [{days}], start: '{start}', end: '{end}'}}], {fields}}}"
    );
    let policy = read::policy(&serde_yaml_ng::from_str(&text).unwrap());
    assert_eq!(policy.problems, []);
    let schedule = Schedule::of(&policy.settings.windows, parse_annotation("2026-12-01T00:00:00Z").unwrap());
    (policy.settings, schedule)
}

fn derive(days: &str, fields: &str, lifetime: Lifetime) -> Derivation {
    let (settings, schedule) = policy(days, "02:00-06:00", fields);
    Derivation::of(&settings, &schedule, lifetime, MINUTE)
}

#[test]
fn the_worked_example_comes_out_as_the_docs_say() {
    let example = Derivation {
        expire_after: Some(span("336h")),
        period: Some(span("96h")),
        t_rot: span("1h19m"),
        t_rot_est: span("15m"),
        drain_estimate: span("10m"),
        drain_bound: span("1h4m"),
        lead_time: Some(span("193h19m")),
        age_threshold: Some(span("142h41m")),
        chances: Some(2),
        capacity: 10,
    };
    assert_eq!(derive("Wed, Sat", "surge: {}", lifetime("336h", "1h")), example);
    let saturdays = derive("Sat", "surge: {}", lifetime("336h", "1h"));
    let expected =
        Derivation { period: Some(span("168h")), lead_time: Some(span("337h19m")), age_threshold: Some(span("-1h19m")), ..example };
    assert_eq!(saturdays, expected);
    assert!(saturdays.is_short_lead() && !example.is_short_lead());
}

#[test]
fn auto_mode_with_a_day_of_grace_needs_the_whole_of_it_ahead() {
    let a = derive("Wed, Sat", "surge: {}", lifetime("336h", "24h0m0s"));
    assert_eq!(
        (a.period, a.t_rot, a.lead_time, a.age_threshold, a.capacity),
        (Some(span("96h")), span("24h19m"), Some(span("216h19m")), Some(span("119h41m")), 10)
    );
    let c = derive("Sat", "surge: {}", lifetime("336h", "24h0m0s"));
    assert_eq!(c.age_threshold, Some(span("-24h19m")));
}

#[test]
fn estimates_are_clamped_and_move_neither_the_bound_nor_the_age() {
    let of = |surge: &str, grace: &str| {
        let derived = derive("Wed, Sat", &format!("surge: {{{surge}}}"), lifetime("336h", grace));
        assert_eq!(derived.t_rot, derive("Wed, Sat", "surge: {}", lifetime("336h", grace)).t_rot);
        (derived.t_rot_est, derived.drain_estimate)
    };
    let seconds = |provisioning: i64, drain: i64| (TimeDelta::seconds(provisioning + drain), TimeDelta::seconds(drain));
    assert_eq!(of("", "1h"), seconds(300, 600));
    assert_eq!(of("", "5m"), seconds(300, 300));
    assert_eq!(of("provisioningEstimate: 15m, drainEstimate: 1h", "1h"), seconds(900, 3600));
    assert_eq!(of("provisioningEstimate: 15m1s, drainEstimate: 1h1s", "1h"), seconds(900, 3600));
    // Without a tGP there is nothing to clamp an estimate to; one that isn't given is the shorter of 10m and drainTimeout.
    assert_eq!(of("drainEstimate: 2h", "unset"), seconds(300, 7200));
    assert_eq!(of("", "unset"), seconds(300, 600));
    let (settings, schedule) = policy("Sat", "02:00-06:00", "surge: {readyTimeout: 2m, drainTimeout: 3m}");
    let derived = Derivation::of(&settings, &schedule, lifetime("336h", "unset"), MINUTE);
    assert_eq!((derived.t_rot_est, derived.drain_bound, derived.t_rot), (span("5m"), span("7m"), span("9m")));
}

#[test]
fn always_open_has_a_pass_for_a_period_and_one_start_at_a_time() {
    let (settings, schedule) = policy("Mon, Tue, Wed, Thu, Fri, Sat, Sun", "00:00-24:00", "surge: {}");
    let derived = Derivation::of(&settings, &schedule, lifetime("336h", "1h"), MINUTE);
    assert_eq!((derived.period, derived.lead_time, derived.capacity), (Some(MINUTE), Some(span("1h21m")), 1));
    assert_eq!(derived.age_threshold, Some(span("334h39m")));
}

#[test]
fn an_occurrence_admits_the_start_that_just_fits() {
    let capacity = |times: &str, cooldown: &str| {
        let (settings, schedule) = policy("Sat", times, &format!("surge: {{cooldownAfter: {cooldown}}}"));
        Derivation::of(&settings, &schedule, lifetime("336h", "1h"), MINUTE).capacity
    };
    assert_eq!(capacity("02:00-02:25", "10m"), 1);
    assert_eq!(capacity("02:00-02:26", "10m"), 2);
    assert_eq!(capacity("02:00-06:00", "0s"), 16);
}

#[test]
fn an_override_is_the_trigger_and_its_chances_are_counted() {
    let of = |age: &str, expire: &str| derive("Wed, Sat", &format!("ageThreshold: {age}"), lifetime(expire, "1h"));
    for (age, chances) in [("46h41m", 3), ("46h42m", 2), ("142h41m", 2), ("142h42m", 1), ("238h42m", 0), ("334h42m", -1)] {
        let derived = of(age, "336h");
        assert_eq!((derived.age_threshold, derived.chances), (Some(span(age)), Some(chances)), "{age}");
    }
    let never = of("240h", "Never");
    assert_eq!((never.age_threshold, never.chances, never.is_short_lead()), (Some(span("240h")), None, false));
}

#[test]
fn a_claim_that_never_expires_is_triggered_by_an_override_only() {
    let (auto, schedule) = policy("Wed, Sat", "02:00-06:00", "surge: {}");
    let (explicit, _) = policy("Wed, Sat", "02:00-06:00", "ageThreshold: 240h");
    let of = |settings: &Settings, schedule: &Schedule, expire: &str| trigger(settings, schedule, lifetime(expire, "1h"), MINUTE);
    assert_eq!(of(&auto, &schedule, "Never"), None);
    assert_eq!(of(&explicit, &schedule, "Never"), Some(span("240h")));
    assert_eq!(of(&auto, &schedule, "336h"), Some(span("142h41m")));
    // Its own lifetime counts, not the pool's: one that is too short is due at once.
    assert_eq!(of(&auto, &schedule, "100h"), Some(span("-93h19m")));
    assert_eq!(of(&auto, &Schedule::default(), "336h"), None);
    assert_eq!(of(&explicit, &Schedule::default(), "336h"), Some(span("240h")));
}

#[test]
fn a_lifetime_that_equals_its_lead_is_short() {
    assert!(derive("Wed, Sat", "surge: {}", lifetime("193h19m", "1h")).is_short_lead());
    assert!(!derive("Wed, Sat", "surge: {}", lifetime("193h19m1s", "1h")).is_short_lead());
}

#[test]
fn no_window_leaves_no_period_no_lead_and_no_chance() {
    let (settings, _) = policy("Sat", "02:00-06:00", "surge: {}");
    let derived = Derivation::of(&settings, &Schedule::default(), lifetime("336h", "1h"), MINUTE);
    assert_eq!((derived.period, derived.lead_time, derived.age_threshold), (None, None, None));
    assert_eq!((derived.chances, derived.capacity, derived.is_short_lead()), (Some(0), 0, false));
}

#[test]
fn spans_beyond_all_bounds_saturate() {
    let (mut settings, schedule) = policy("Sat", "02:00-06:00", "surge: {cooldownAfter: 0s, provisioningEstimate: 0s, drainEstimate: 0s}");
    assert_eq!(Derivation::of(&settings, &schedule, lifetime("336h", "1h"), MINUTE).capacity, 4 * 3600 * 1000);
    for k in [i64::MIN, -1, 0, i64::MAX] {
        for extreme in [TimeDelta::MIN, TimeDelta::zero(), TimeDelta::MAX] {
            settings.min_rotation_chances = k;
            for age in [AgeThreshold::Auto, AgeThreshold::Override(extreme)] {
                settings.age_threshold = age;
                let lifetime = Lifetime { expire_after: Some(extreme), grace: Some(extreme) };
                for cadence in [extreme, MINUTE] {
                    Derivation::of(&settings, &schedule, lifetime, cadence).is_short_lead();
                }
            }
        }
    }
}
