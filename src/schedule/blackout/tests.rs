use chrono::Weekday::{self, Fri, Mon, Sat, Sun, Thu, Tue, Wed};
use proptest::prelude::*;

use super::*;
use crate::{
    api::{time::parse_annotation, zone::Zone},
    policy::Window,
};

const EVERY_DAY: [Weekday; 7] = [Mon, Tue, Wed, Thu, Fri, Sat, Sun];
const CADENCE: TimeDelta = TimeDelta::minutes(1);

fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

fn blackout(zone: &str, from: &str, to: &str) -> Blackout {
    Blackout { timezone: zone.parse().unwrap(), from: from.parse().unwrap(), to: to.parse().unwrap(), reason: "stock taking".into() }
}

fn window(days: &[Weekday], start: u16, end: u16) -> Window {
    Window { timezone: Zone::UTC, days: days.to_vec(), start: start * 60, end: end * 60 }
}

/// Saturdays and Wednesdays 02:00-06:00 UTC, seen from Tuesday 2026-12-01.
fn twice_a_week(blackouts: &[Blackout]) -> Schedule {
    Schedule::of(&[window(&[Wed, Sat], 2, 6)], now()).without(blackouts, now())
}

fn now() -> Time {
    at("2026-12-01T00:00:00Z")
}

fn instants_of(blackout: &Blackout) -> (Time, Time) {
    let closure = Closure::of(blackout).unwrap();
    (closure.start, closure.end)
}

#[test]
fn a_blackout_lasts_from_its_first_midnight_to_the_last_one_after_it() {
    for (zone, from, to, start, end) in [
        ("UTC", "2026-12-19", "2026-12-19", "2026-12-19T00:00:00Z", "2026-12-20T00:00:00Z"),
        ("Asia/Tokyo", "2026-12-19", "2027-01-04", "2026-12-18T15:00:00Z", "2027-01-04T15:00:00Z"),
        // Both changes of the clock inside and across: 23 and 25 hours.
        ("Europe/Berlin", "2027-03-28", "2027-03-28", "2027-03-28T00:00:00+01:00", "2027-03-29T00:00:00+02:00"),
        ("Europe/Berlin", "2027-10-31", "2027-10-31", "2027-10-31T00:00:00+02:00", "2027-11-01T00:00:00+01:00"),
        // Midnight is skipped: the day begins at 01:00.
        ("Asia/Beirut", "2027-03-28", "2027-03-28", "2027-03-28T01:00:00+03:00", "2027-03-29T00:00:00+03:00"),
        ("Asia/Beirut", "2027-03-27", "2027-03-27", "2027-03-27T00:00:00+02:00", "2027-03-28T01:00:00+03:00"),
        // Midnight comes twice: from the first, up to the last.
        ("America/Havana", "2025-11-02", "2025-11-02", "2025-11-02T00:00:00-04:00", "2025-11-03T00:00:00-05:00"),
        ("America/Havana", "2025-11-01", "2025-11-01", "2025-11-01T00:00:00-04:00", "2025-11-02T00:00:00-05:00"),
    ] {
        assert_eq!(instants_of(&blackout(zone, from, to)), (at(start), at(end)), "{zone} {from}");
    }
    // A whole day that a zone skipped has no length.
    assert_eq!(Closure::of(&blackout("Pacific/Apia", "2011-12-30", "2011-12-30")), None);
}

#[test]
fn of_overlapping_blackouts_the_one_that_ends_last_covers() {
    let schedule = twice_a_week(&[
        blackout("UTC", "2026-12-22", "2026-12-26"),
        blackout("UTC", "2026-12-19", "2027-01-04"),
        blackout("UTC", "2026-12-24", "2026-12-24"),
    ]);
    let until = |instant| schedule.blackouts.covering(at(instant)).map(|closure| (closure.end, closure.reason.clone()));
    assert_eq!(until("2026-12-18T23:59:59.999Z"), None);
    for inside in ["2026-12-19T00:00:00Z", "2026-12-24T12:00:00Z", "2027-01-04T23:59:59.999Z"] {
        assert_eq!(until(inside), Some((at("2027-01-05T00:00:00Z"), "stock taking".into())));
    }
    assert_eq!(until("2027-01-05T00:00:00Z"), None);
}

#[test]
fn period_and_lengths_stay_those_of_the_windows() {
    let (with, alone) = (twice_a_week(&[blackout("UTC", "2026-12-19", "2027-06-30")]), twice_a_week(&[]));
    assert_eq!(Schedule { blackouts: Blackouts::default(), ..with }, alone);
}

#[test]
fn a_holiday_takes_the_chances_inside_and_makes_due_before() {
    // Windows: Wed 2, Sat 5, Wed 9, Sat 12, Wed 16 | Sat 19 to Sat 2 closed | Wed 6 January.
    let schedule = twice_a_week(&[blackout("UTC", "2026-12-19", "2027-01-04")]);
    let latest = at("2026-12-30T00:00:00Z");
    let left = |now| schedule.chances(at(now), latest, CADENCE);
    assert_eq!(left("2026-12-09T05:59:59Z"), Some(3));
    assert_eq!(left("2026-12-09T06:00:00Z"), Some(2));
    assert_eq!(left("2026-12-16T02:00:00Z"), Some(1));
    assert_eq!(left("2026-12-16T06:00:00Z"), Some(0));
    assert_eq!(schedule.chances_run_low(now(), latest, 2, CADENCE), Some(at("2026-12-09T06:00:00Z")));
    assert_eq!(schedule.regular_chances(at("2026-12-09T06:00:00Z"), latest, CADENCE), 5);
    // One more where a start is still in time in the first window after it.
    assert_eq!(schedule.chances(at("2026-12-16T06:00:00Z"), at("2027-01-06T02:00:00Z"), CADENCE), Some(1));
    assert_eq!(schedule.chances(at("2026-12-16T06:00:00Z"), at("2027-01-06T01:59:59Z"), CADENCE), Some(0));
}

#[test]
fn a_part_of_an_occurrence_is_a_chance_and_what_begins_too_late_is_none() {
    // Tokyo's Saturday 5 December ends at 15:00Z, in the middle of a long window.
    let schedule = Schedule::of(&[window(&[Sat], 2, 22)], now()).without(&[blackout("Asia/Tokyo", "2026-12-05", "2026-12-05")], now());
    let left = |now, latest| schedule.chances(at(now), at(latest), CADENCE);
    assert_eq!(left("2026-12-05T03:00:00Z", "2026-12-05T15:00:00Z"), Some(1));
    assert_eq!(left("2026-12-05T03:00:00Z", "2026-12-05T14:59:59Z"), Some(0));
    // A gap in the middle: its second part begins after the latest start.
    let schedule =
        Schedule::of(&[window(&[Fri], 2, 1)], now()).without(&[blackout("Pacific/Kiritimati", "2026-12-05", "2026-12-05")], now());
    let left = |now, latest| schedule.chances(at(now), at(latest), CADENCE);
    assert_eq!(left("2026-12-04T09:59:59Z", "2026-12-05T00:00:00Z"), Some(1));
    assert_eq!(left("2026-12-04T10:00:00Z", "2026-12-05T00:00:00Z"), Some(0));
}

#[test]
fn where_windows_never_close_chances_are_passes() {
    let always = Schedule::of(&[window(&EVERY_DAY, 0, 24)], now()).without(&[blackout("UTC", "2026-12-19", "2027-01-04")], now());
    assert!(always.always_open);
    let latest = at("2026-12-30T00:00:00Z");
    assert_eq!(always.chances(at("2026-12-18T23:58:00Z"), latest, CADENCE), Some(2));
    assert_eq!(always.chances(at("2026-12-18T23:57:00Z"), latest, CADENCE), Some(3));
    assert_eq!(always.chances_run_low(now(), latest, 2, CADENCE), Some(at("2026-12-18T23:58:00Z")));
    assert_eq!(always.chances_run_low(now(), at("2027-01-05T00:01:00Z"), 2, CADENCE), Some(at("2026-12-18T23:59:00Z")));
    assert_eq!(always.chances_run_low(now(), at("2026-12-10T00:00:00Z"), 2, CADENCE), Some(at("2026-12-09T23:58:00Z")));
}

#[test]
fn the_opening_after_a_blackout_is_known_within_the_schedule() {
    let holiday = [blackout("UTC", "2026-12-19", "2027-01-04")];
    let (windows, always) = (twice_a_week(&holiday), Schedule::of(&[window(&EVERY_DAY, 0, 24)], now()).without(&holiday, now()));
    let after = |latest| (windows.opening_after(at(latest)), always.opening_after(at(latest)));
    let both = |windows, always| (Some(at(windows)), Some(at(always)));
    assert_eq!(after("2026-12-16T01:59:59Z"), both("2026-12-16T02:00:00Z", "2026-12-16T01:59:59Z"));
    assert_eq!(after("2026-12-16T02:00:00Z"), both("2027-01-06T02:00:00Z", "2026-12-16T02:00:00Z"));
    assert_eq!(after("2026-12-25T00:00:00Z"), both("2027-01-06T02:00:00Z", "2027-01-05T00:00:00Z"));
    assert_eq!(after("2028-02-01T00:00:00Z"), (None, None));
}

#[test]
fn chances_trigger_nothing_where_no_blackout_is_ahead() {
    let latest = at("2026-12-30T00:00:00Z");
    let by_chances =
        |schedule: &Schedule, latest| (schedule.chances(now(), latest, CADENCE), schedule.chances_run_low(now(), latest, 2, CADENCE));
    assert_eq!(by_chances(&twice_a_week(&[]), latest), (None, None));
    assert_eq!(by_chances(&twice_a_week(&[blackout("UTC", "2026-11-20", "2026-11-30")]), latest), (None, None));
    assert_eq!(by_chances(&twice_a_week(&[blackout("UTC", "2028-02-01", "2028-02-02")]), latest), (None, None));
    // Nor for a deadline beyond what the schedule knows.
    let holiday = twice_a_week(&[blackout("UTC", "2026-12-19", "2027-01-04")]);
    assert_eq!(by_chances(&holiday, at("2028-06-01T00:00:00Z")), (None, None));
    // Everything is closed as far back as is known.
    let closed = twice_a_week(&[blackout("UTC", "2026-01-01", "2027-12-31")]);
    assert_eq!(by_chances(&closed, latest), (Some(0), Some(Time::MIN_UTC)));
}

proptest! {
    /// Against a count minute by minute; and chances run low at the instant from which on they are at most k.
    #[test]
    fn chances_are_the_occurrences_in_which_a_start_is_left(
        days in prop::collection::vec((0..7_u8, 0..24_u16, 1..30_u16), 1..4),
        closed in prop::collection::vec((0..40_i64, 0..6_i64, 0..3_usize), 1..4),
        now_minutes in -60 * 24 * 7..60 * 24 * 10_i64, ahead in 0..60 * 24 * 20_i64, k in 0..5_i64,
    ) {
        let windows: Vec<Window> = days.iter().map(|(day, start, length)| {
            let end = (start + length) % 24;
            window(&[Weekday::try_from(*day).unwrap()], *start, if end == *start { 24 } else { end })
        }).collect();
        let base = now();
        let day = |offset| (base + TimeDelta::days(offset)).date_naive();
        let zones = [Zone::UTC, "Asia/Tokyo".parse().unwrap(), "America/New_York".parse().unwrap()];
        let blackouts: Vec<Blackout> = closed.iter()
            .map(|(from, length, zone)| Blackout { timezone: zones[*zone], from: day(*from), to: day(from + length), reason: String::new() })
            .collect();
        let schedule = Schedule::of(&windows, base).without(&blackouts, base);
        prop_assume!(!schedule.always_open);
        let now = base + TimeDelta::minutes(now_minutes);
        let latest = now + TimeDelta::minutes(ahead);
        let may_start = |instant: Time| schedule.open_at(instant).filter(|_| schedule.blackouts.covering(instant).is_none());
        let starts = (0..=ahead).filter_map(|minute| may_start(now + TimeDelta::minutes(minute)));
        let expected = starts.collect::<std::collections::BTreeSet<_>>().len();
        let matters = schedule.blackouts.matter(now);
        prop_assert_eq!(schedule.chances(now, latest, CADENCE), matters.then_some(expected as i64));
        if let Some(low) = schedule.chances_run_low(now, latest, k, CADENCE) {
            let few = schedule.chances(now, latest, CADENCE).is_some_and(|chances| chances <= k);
            prop_assert_eq!(few, now >= low.min(latest + CADENCE), "{}", low);
        }
    }
}
