use chrono::{
    Timelike,
    Weekday::{self, Fri, Mon, Sat, Sun, Thu, Tue, Wed},
};

use super::*;
use crate::api::time::parse_annotation;

mod oracle;

const EVERY_DAY: [Weekday; 7] = [Mon, Tue, Wed, Thu, Fri, Sat, Sun];

fn at(text: &str) -> Time {
    parse_annotation(text).unwrap()
}

/// An entry, as `("America/New_York", &[Sun], "02:00-03:00")`.
fn window(zone: &str, days: &[Weekday], times: &str) -> Window {
    let minutes = |text: &str| {
        let (hours, minutes) = text.split_once(':').unwrap();
        hours.parse::<u16>().unwrap() * 60 + minutes.parse::<u16>().unwrap()
    };
    let (start, end) = times.split_once('-').unwrap();
    Window { timezone: zone.parse().unwrap(), days: days.to_vec(), start: minutes(start), end: minutes(end) }
}

/// The occurrences that begin on this UTC date, as `start/end` without the date where it is the same.
fn on_date(schedule: &Schedule, date: &str) -> Vec<String> {
    let begins = |occurrence: &&Occurrence| occurrence.start.date_naive().to_string() == date;
    let show = |occurrence: &Occurrence| format!("{}/{}", occurrence.start.format("%H:%M"), occurrence.end.format("%H:%M"));
    schedule.occurrences.iter().filter(begins).map(show).collect()
}

fn hours(hours: i64) -> Option<TimeDelta> {
    Some(TimeDelta::hours(hours))
}

#[test]
fn a_window_over_midnight_belongs_to_the_day_it_starts_on() {
    let schedule = Schedule::of(&[window("America/Los_Angeles", &[Mon, Tue, Wed, Thu, Fri], "21:00-05:00")], at("2026-12-04T12:00:00Z"));
    for (local, open) in [
        ("2026-12-04T20:59:59-08:00", false),
        ("2026-12-04T21:00:00-08:00", true),
        ("2026-12-05T04:59:59-08:00", true),
        ("2026-12-05T04:59:59.999-08:00", true),
        ("2026-12-05T05:00:00-08:00", false),
        ("2026-12-06T22:00:00-08:00", false),
        ("2026-12-07T04:59:00-08:00", false),
        ("2026-12-07T21:00:00-08:00", true),
    ] {
        assert_eq!(schedule.open_at(at(local)).is_some(), open, "{local}");
    }
    assert_eq!((schedule.period, schedule.shortest, schedule.gap), (hours(73), hours(8), hours(16)));
    // Friday to Monday over the weekend on which the clock goes back.
    assert_eq!(schedule.period_between, Some((at("2027-11-05T21:00:00-07:00"), at("2027-11-08T21:00:00-08:00"))));
    assert_eq!(schedule.next_start(at("2026-12-04T21:00:00-08:00")), Some(at("2026-12-07T21:00:00-08:00")));
    assert_eq!(schedule.next_start(at("2026-12-04T20:59:59-08:00")), Some(at("2026-12-04T21:00:00-08:00")));
}

#[test]
fn midnight_as_an_end_has_two_names() {
    let now = at("2026-06-01T00:00:00Z");
    let until = |times| Schedule::of(&[window("Europe/Berlin", &[Sat], times)], now);
    assert_eq!(until("21:00-24:00"), until("21:00-00:00"));
    assert_eq!(on_date(&until("21:00-24:00"), "2026-06-06"), ["19:00/22:00"]);
}

#[test]
fn a_time_that_is_skipped_means_the_moment_after_the_gap() {
    // New York skips 02:00 to 03:00 on 2026-03-08, at 07:00 UTC.
    let now = at("2026-03-01T00:00:00Z");
    for (times, expected) in [
        ("01:00-04:00", vec!["06:00/08:00"]),
        ("02:30-04:00", vec!["07:00/08:00"]),
        ("01:00-02:30", vec!["06:00/07:00"]),
        ("02:00-03:00", vec![]),
        ("02:10-02:50", vec![]),
        ("02:00-03:01", vec!["07:00/07:01"]),
    ] {
        assert_eq!(on_date(&Schedule::of(&[window("America/New_York", &[Sun], times)], now), "2026-03-08"), expected, "{times}");
    }
}

#[test]
fn a_time_that_comes_twice_starts_with_the_first_and_ends_with_the_last() {
    // New York has 01:00 to 02:00 twice on 2026-11-01: from 05:00 and from 06:00 UTC.
    let now = at("2026-10-20T00:00:00Z");
    for (times, expected) in [
        ("00:00-04:00", "04:00/09:00"),
        ("01:30-04:00", "05:30/09:00"),
        ("00:00-01:30", "04:00/06:30"),
        ("01:10-01:20", "05:10/06:20"),
        ("00:00-01:00", "04:00/06:00"),
        ("00:00-02:00", "04:00/07:00"),
    ] {
        assert_eq!(on_date(&Schedule::of(&[window("America/New_York", &[Sun], times)], now), "2026-11-01"), [expected], "{times}");
    }
}

#[test]
fn a_day_that_a_zone_skips_has_no_occurrence() {
    // Apia went from Thursday 2011-12-29 24:00 straight to Saturday 2011-12-31 00:00, at 10:00 UTC on the 30th.
    let now = at("2011-12-28T00:00:00Z");
    let of = |days: &[Weekday], times| Schedule::of(&[window("Pacific/Apia", days, times)], now);
    assert_eq!(on_date(&of(&[Fri], "02:00-06:00"), "2011-12-30"), [""; 0]);
    assert_eq!(on_date(&of(&[Thu], "22:00-05:00"), "2011-12-30"), ["08:00/10:00"]);
    assert_eq!(on_date(&of(&[Fri], "22:00-05:00"), "2011-12-30"), ["10:00/15:00"]);
    assert_eq!(of(&[Fri], "02:00-06:00").period, hours(14 * 24 - 24));
}

#[test]
fn entries_that_overlap_or_touch_are_one_occurrence() {
    let entries =
        [window("UTC", &[Sat], "02:00-04:00"), window("UTC", &[Sat], "04:00-05:00"), window("Europe/Berlin", &[Sat], "05:30-08:00")];
    let schedule = Schedule::of(&entries, at("2026-06-01T00:00:00Z"));
    assert_eq!(on_date(&schedule, "2026-06-06"), ["02:00/06:00"]);
    // In winter Berlin's part is an hour later by UTC.
    assert_eq!(on_date(&schedule, "2026-12-05"), ["02:00/07:00"]);
    assert_eq!((schedule.shortest, schedule.period), (hours(4), hours(7 * 24)));
}

#[test]
fn what_never_closes_is_always_open_and_what_closes_for_a_minute_is_not() {
    let now = at("2026-06-01T00:00:00Z");
    let open = |entries: &[Window]| Schedule::of(entries, now);
    for zone in ["UTC", "America/New_York", "Asia/Beirut", "Pacific/Apia"] {
        let schedule = open(&[window(zone, &EVERY_DAY, "00:00-24:00")]);
        assert!(schedule.always_open, "{zone}");
        assert_eq!((schedule.period, schedule.shortest, schedule.gap, schedule.period_between), (None, None, None, None));
        for moment in [now - TimeDelta::days(8), now, now + TimeDelta::days(400)] {
            assert!(schedule.open_at(moment).is_some(), "{zone} {moment}");
        }
    }
    assert!(open(&[window("UTC", &EVERY_DAY, "08:00-20:00"), window("Asia/Tokyo", &EVERY_DAY, "05:00-17:00")]).always_open);
    let minute = open(&[window("UTC", &EVERY_DAY, "00:00-23:59")]);
    assert!(!minute.always_open);
    assert_eq!((minute.period, minute.gap), (hours(24), Some(TimeDelta::minutes(1))));
}

#[test]
fn where_fewer_than_two_occurrences_are_whole_those_over_the_edges_count() {
    let weekly = [window("UTC", &[Sat], "02:00-06:00")];
    let between = |from, to| Schedule::between(&weekly, at(from), at(to));
    let cut = between("2026-06-06T03:00:00Z", "2026-06-13T03:00:00Z");
    assert_eq!((cut.period, cut.shortest, cut.gap), (hours(7 * 24), hours(4), hours(7 * 24 - 4)));
    // One more that is whole changes nothing, two are enough.
    let one = between("2026-06-06T03:00:00Z", "2026-06-13T07:00:00Z");
    assert_eq!((one.period, one.occurrences.len()), (hours(7 * 24), 2));
    // A single one has no distance to another.
    let alone = between("2026-06-05T00:00:00Z", "2026-06-08T00:00:00Z");
    assert_eq!((alone.period, alone.shortest, alone.always_open), (None, hours(4), false));
}

#[test]
fn an_occurrence_that_fills_the_horizon_to_its_edge_is_whole() {
    let daily = [window("UTC", &EVERY_DAY, "02:00-06:00"), window("UTC", &[Sat], "10:00-11:00")];
    let between = |from, to| Schedule::between(&daily, at(from), at(to));
    // Friday 2026-06-05 to Saturday: the first and the last end exactly at the edge.
    let (exact, late, early) = (
        between("2026-06-05T02:00:00Z", "2026-06-06T11:00:00Z"),
        between("2026-06-05T02:00:01Z", "2026-06-06T11:00:00Z"),
        between("2026-06-05T02:00:00Z", "2026-06-06T10:59:59Z"),
    );
    assert_eq!((exact.period, exact.shortest, exact.gap), (hours(24), hours(1), hours(4)));
    assert_eq!((late.period, late.shortest, late.gap), (hours(8), hours(1), hours(4)));
    assert_eq!((early.period, early.shortest, early.gap), (hours(24), hours(4), hours(20)));
}

#[test]
fn no_window_and_the_ends_of_time_give_no_occurrence_and_no_panic() {
    assert_eq!(Schedule::of(&[], at("2026-06-01T00:00:00Z")), Schedule::default());
    let entries = [window("Pacific/Kiritimati", &EVERY_DAY, "23:00-22:00"), window("Pacific/Niue", &[Sun], "00:00-24:00")];
    for now in [Time::MIN_UTC, Time::MAX_UTC, at("0000-01-01T00:00:00Z"), at("9999-12-31T23:59:59Z")] {
        let schedule = Schedule::of(&entries, now);
        schedule.open_at(now);
        schedule.next_start(now);
    }
}

#[test]
fn a_schedule_says_the_same_until_it_no_longer_holds() {
    let sets = [
        vec![window("Europe/Berlin", &[Wed, Sat], "02:00-06:00")],
        vec![window("America/New_York", &[Sun], "01:30-02:30"), window("UTC", &[Mon, Thu], "22:00-03:00")],
        vec![window("Australia/Lord_Howe", &EVERY_DAY, "00:00-12:00")],
        vec![window("UTC", &[Mon, Tue], "00:00-24:00"), window("UTC", &[Wed], "00:00-08:00")],
    ];
    for windows in sets {
        let mut now = at("2026-03-20T05:00:00Z");
        for _ in 0..60 {
            let schedule = Schedule::of(&windows, now);
            let until = schedule.holds_until(&windows, now);
            assert!(until > now, "{now}");
            for moment in [later(now, (until - now) / 2), later(until, TimeDelta::seconds(-1))] {
                let moment = moment.max(now).with_nanosecond(0).unwrap();
                assert_eq!(Schedule::of(&windows, moment), schedule, "{windows:?} at {now}, {moment}, said to hold until {until}");
            }
            now = until;
        }
    }
}
