//! Windows, P, D and gap against a reading of the clock on the wall, minute by minute: it knows an instant's local time,
//! and nothing of how to go back.

use chrono::NaiveDateTime;
use proptest::prelude::*;

use super::*;
use crate::api::zone::Zone;

const MINUTE: TimeDelta = TimeDelta::minutes(1);
/// Minutes read beyond either edge.
const BEYOND: i64 = 3 * 24 * 60;
const MINUTES_A_DAY: i64 = 24 * 60;

/// Zones with a day around which something happens, or nothing.
const PLACES: [(&str, &str); 22] = [
    ("UTC", "2026-06-01"),
    ("Asia/Tokyo", "2026-03-29"),
    ("America/Los_Angeles", "2027-03-14"),
    ("America/Los_Angeles", "2027-11-07"),
    ("Europe/Dublin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("America/Havana", "2026-03-08"),
    ("America/Havana", "2026-11-01"),
    ("Africa/Cairo", "2026-04-24"),
    ("Africa/Cairo", "2026-10-30"),
    ("Asia/Beirut", "2026-03-29"),
    ("Asia/Beirut", "2026-10-25"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Nuuk", "2026-03-28"),
    ("America/Nuuk", "2026-10-24"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Caracas", "2016-05-01"),
    ("Asia/Pyongyang", "2015-08-15"),
    ("Pacific/Apia", "2011-12-30"),
    ("Africa/Casablanca", "2026-03-22"),
];

/// What the wall shows in one zone, minute by minute: local times in order, each with the minutes at which it shows.
struct Wall(Vec<(NaiveDateTime, i64)>);

impl Wall {
    fn read(zone: Zone, from: Time, minutes: i64) -> Self {
        let local = |minute| zone.local(from + TimeDelta::minutes(minute)).naive_local();
        let mut shows: Vec<(NaiveDateTime, i64)> = (0..minutes).map(|minute| (local(minute), minute)).collect();
        shows.sort_unstable();
        Self(shows)
    }

    /// Every day, also one that is skipped: it has no minute, yet an entry of it may reach into the next.
    fn days(&self) -> impl Iterator<Item = NaiveDate> {
        let (first, last) = (self.0[0].0.date(), self.0[self.0.len() - 1].0.date());
        first.iter_days().take_while(move |day| *day <= last)
    }

    /// When this local time first and last shows; where it is skipped, when the next one that shows does.
    fn when(&self, local: NaiveDateTime) -> Option<(i64, i64)> {
        let before = self.0.partition_point(|(shown, _)| *shown < local);
        let after = self.0.partition_point(|(shown, _)| *shown <= local);
        let first = self.0.get(before)?.1;
        if before == 0 && before == after {
            return None;
        }
        Some(if before == after { (first, first) } else { (first, self.0[after - 1].1) })
    }
}

/// For each minute from `from - BEYOND` to `to + BEYOND`, whether a start is allowed.
fn open_minutes(windows: &[Window], from: Time, to: Time) -> Vec<bool> {
    let begin = from - MINUTE * i32::try_from(BEYOND).unwrap();
    let minutes = (to - from).num_minutes() + 2 * BEYOND;
    let mut open = vec![false; usize::try_from(minutes).unwrap()];
    for window in windows {
        // Two days more, so that every entry that reaches into the range is read whole.
        let wall = Wall::read(window.timezone, begin - TimeDelta::days(2), minutes + 4 * MINUTES_A_DAY);
        for day in wall.days() {
            if !window.days.contains(&day.weekday()) {
                continue;
            }
            let midnight = day.and_hms_opt(0, 0, 0).unwrap();
            let next_day = if window.end <= window.start { MINUTES_A_DAY } else { 0 };
            let starts = wall.when(midnight + TimeDelta::minutes(i64::from(window.start)));
            let ends = wall.when(midnight + TimeDelta::minutes(i64::from(window.end) + next_day));
            let (Some((first, _)), Some((_, last))) = (starts, ends) else { continue };
            for minute in first..last {
                if let Some(cell) = usize::try_from(minute - 2 * MINUTES_A_DAY).ok().and_then(|index| open.get_mut(index)) {
                    *cell = true;
                }
            }
        }
    }
    open
}

/// The runs of open minutes, as minutes since `from`.
fn runs(open: &[bool]) -> Vec<(i64, i64)> {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for (index, _) in open.iter().enumerate().filter(|(_, open)| **open) {
        let minute = i64::try_from(index).unwrap() - BEYOND;
        match runs.last_mut() {
            Some((_, end)) if *end == minute => *end += 1,
            _ => runs.push((minute, minute + 1)),
        }
    }
    runs
}

fn compare(windows: &[Window], from: Time, to: Time) {
    let open = open_minutes(windows, from, to);
    let schedule = Schedule::between(windows, from, to);
    let length = (to - from).num_minutes();
    for minute in 0..length {
        let now = from + TimeDelta::minutes(minute);
        let expected = open[usize::try_from(minute + BEYOND).unwrap()];
        let instant = now + TimeDelta::seconds(minute % 2 * 59);
        assert_eq!(schedule.open_at(instant).is_some(), expected, "{instant} {windows:?}");
    }
    let runs = runs(&open);
    let covers = runs.iter().any(|(start, end)| *start <= 0 && length <= *end);
    assert_eq!(schedule.always_open, covers, "{windows:?}");
    let whole: Vec<(i64, i64)> = runs.iter().copied().filter(|(start, end)| 0 <= *start && *end <= length).collect();
    if whole.len() < 2 {
        return;
    }
    let pairs = || whole.windows(2);
    let minutes = |minutes: Option<i64>| minutes.map(TimeDelta::minutes);
    assert_eq!(schedule.period, minutes(pairs().map(|pair| pair[1].0 - pair[0].0).max()), "P of {windows:?}");
    assert_eq!(schedule.shortest, minutes(whole.iter().map(|(start, end)| end - start).min()), "D of {windows:?}");
    assert_eq!(schedule.gap, minutes(pairs().map(|pair| pair[1].0 - pair[0].1).min()), "gap of {windows:?}");
    let (first, second) = schedule.period_between.unwrap();
    assert_eq!(Some(second - first), schedule.period);
    assert!(whole.iter().any(|(start, _)| from + TimeDelta::minutes(*start) == first));
}

/// Minutes of a day: anywhere, on the half hours where clocks change, and about midnight.
fn minute_of_day() -> impl Strategy<Value = u16> {
    prop_oneof![0..1440_u16, (0..48_u16).prop_map(|half| half * 30), 0..4_u16, 1436..1440_u16]
}

fn entry(zone: &'static str) -> impl Strategy<Value = Window> {
    let zones = prop_oneof![4 => Just(zone), 1 => proptest::sample::select(PLACES.map(|(zone, _)| zone).to_vec())];
    let days = proptest::sample::subsequence(EVERY_DAY.to_vec(), 1..=7);
    (zones, days, minute_of_day(), minute_of_day()).prop_map(|(zone, days, start, end)| {
        let end = if start == end || (end == 0 && start % 2 == 1) { 1440 } else { end };
        Window { timezone: zone.parse().unwrap(), days, start, end }
    })
}

fn case() -> impl Strategy<Value = (Vec<Window>, Time)> {
    proptest::sample::select(PLACES.to_vec()).prop_flat_map(|(zone, day)| {
        let from = at(&format!("{day}T00:00:00Z")) - TimeDelta::days(9);
        (proptest::collection::vec(entry(zone), 1..4), 0..MINUTES_A_DAY)
            .prop_map(move |(windows, minute)| (windows, from + TimeDelta::minutes(minute)))
    })
}

proptest! {
    // A case costs about 50 ms; PROPTEST_CASES asks for more.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_what_the_clock_on_the_wall_says((windows, from) in case()) {
        compare(&windows, from, from + TimeDelta::days(18));
    }
}

#[test]
fn a_whole_year_is_what_the_clock_on_the_wall_says() {
    let entries =
        [window("America/Los_Angeles", &[Mon, Tue, Wed, Thu, Fri], "21:00-05:00"), window("Australia/Lord_Howe", &[Sun], "01:45-02:15")];
    let from = at("2026-11-26T00:00:00Z");
    compare(&entries, from, from + BEHIND + AHEAD);
}
