//! Occurrences of maintenance windows (§3): the union of all entries, half-open, in wall-clock time.
//!
//! Where the clock is put forward, a time inside the skipped hour means the moment after it, so an entry wholly inside has
//! no length and doesn't occur that day. Where it is put back, a start means the first of its two moments and an end the
//! last, so an occurrence is always one interval.

use chrono::{Datelike, NaiveDate, TimeDelta};

use super::blackout::Blackouts;
use crate::{
    api::time::{Time, later},
    policy::Window,
};

/// How far back occurrences are known: a week, so that whatever repeats weekly has been seen once, and a day for what
/// lies across that edge.
const BEHIND: TimeDelta = TimeDelta::days(8);
/// How far ahead: a year and some, so that both changes of the clock lie inside.
pub(super) const AHEAD: TimeDelta = TimeDelta::days(400);
/// Days worked out beyond either edge, so that occurrences across it are whole: an offset of up to 14 hours, an end on the
/// next day, and a clock that skips a day.
const MARGIN: i64 = 4;

/// A time during which starts are allowed: `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// The first instant inside.
    pub start: Time,
    /// The first instant after.
    pub end: Time,
}

/// What the windows of a policy mean around `now`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Merged occurrences in order: every one that has a part between `now` - 8 days and `now` + 400 days. Those that reach
    /// over an edge are there as far as they are known.
    pub occurrences: Vec<Occurrence>,
    /// Whether the union never closes.
    pub always_open: bool,
    /// `P`: the largest start-to-start gap; `None` without two occurrences or when always open.
    pub period: Option<TimeDelta>,
    /// The two starts that are furthest apart: where `period` comes from.
    pub period_between: Option<(Time, Time)>,
    /// `D`: the shortest occurrence.
    pub shortest: Option<TimeDelta>,
    /// The shortest closed interval between occurrences.
    pub gap: Option<TimeDelta>,
    /// What [`Schedule::without`] was told; everything above is that of the windows alone.
    pub blackouts: Blackouts,
}

impl Schedule {
    /// Works out the occurrences around `now`: one conversion for each day listed in 13 months, so callers do it once per
    /// policy, not per pool.
    pub fn of(windows: &[Window], now: Time) -> Self {
        Self::between(windows, later(now, -BEHIND), later(now, AHEAD))
    }

    fn between(windows: &[Window], from: Time, to: Time) -> Self {
        let mut raw: Vec<Occurrence> = windows.iter().flat_map(|window| days_of(window, from, to)).collect();
        raw.sort_unstable();
        let mut occurrences = merge(&raw);
        occurrences.retain(|occurrence| occurrence.end > from && occurrence.start < to);
        if let [only] = occurrences.as_slice()
            && only.start <= from
            && to <= only.end
        {
            return Self { occurrences, always_open: true, ..Self::default() };
        }
        let whole = whole(&occurrences, from, to);
        let between = longest_wait(whole);
        Self {
            blackouts: Blackouts::default(),
            always_open: false,
            period: between.map(|(first, second)| second - first),
            period_between: between,
            shortest: whole.iter().map(|occurrence| occurrence.end - occurrence.start).min(),
            gap: whole.windows(2).map(|pair| pair[1].start - pair[0].end).min(),
            occurrences,
        }
    }

    /// Until when (exclusive, in whole seconds) [`Schedule::of`] would say the same: no start and no end comes into what is
    /// known, or leaves it. For whoever asks again and again, as the simulator does.
    pub fn holds_until(&self, windows: &[Window], now: Time) -> Time {
        let (from, to) = (later(now, -BEHIND), later(now, AHEAD));
        if self.always_open {
            // Its one occurrence is known as far as the horizon, which moves on.
            return later(now, TimeDelta::seconds(1));
        }
        let mut beyond: Vec<Occurrence> = windows.iter().flat_map(|window| days_of(window, to, later(to, BEHIND))).collect();
        beyond.sort_unstable();
        let beyond = merge(&beyond);
        // A start is inside from its own second on and counts as known one second after; an end the other way round.
        let moves = |occurrence: &Occurrence| [later(occurrence.start, TimeDelta::seconds(1)), occurrence.end];
        let known = self.occurrences.iter();
        let leaving = known.clone().flat_map(moves).filter(|edge| *edge > from).min().map(|edge| later(edge, BEHIND));
        let coming = known.chain(&beyond).flat_map(moves).filter(|edge| *edge > to).min().map(|edge| later(edge, -AHEAD));
        [leaving, coming].into_iter().flatten().fold(later(now, BEHIND), Time::min)
    }

    /// Whether every lifetime has the same derivation under both, but for blackouts.
    pub fn derives_as(&self, other: &Self) -> bool {
        (self.always_open, self.period, self.shortest) == (other.always_open, other.period, other.shortest)
    }

    /// The occurrence that contains `now`, exactly. `None` also where `now` lies beyond what this schedule covers.
    pub fn open_at(&self, now: Time) -> Option<Occurrence> {
        let after = self.occurrences.partition_point(|occurrence| occurrence.start <= now);
        let last = *self.occurrences.get(after.checked_sub(1)?)?;
        (now < last.end).then_some(last)
    }

    /// The start of the first occurrence that begins after `after`.
    pub fn next_start(&self, after: Time) -> Option<Time> {
        let next = self.occurrences.partition_point(|occurrence| occurrence.start <= after);
        self.occurrences.get(next).map(|occurrence| occurrence.start)
    }
}

/// The occurrences of one entry on every day that may touch `[from, to)`.
fn days_of(window: &Window, from: Time, to: Time) -> impl Iterator<Item = Occurrence> + '_ {
    let last = to.date_naive().checked_add_signed(TimeDelta::days(MARGIN)).unwrap_or(NaiveDate::MAX);
    let first = from.date_naive().checked_sub_signed(TimeDelta::days(MARGIN)).unwrap_or(NaiveDate::MIN);
    first
        .iter_days()
        .take_while(move |day| *day <= last)
        .filter(|day| window.days.contains(&day.weekday()))
        .filter_map(|day| on(window, day))
}

/// The occurrence that belongs to this day, where there is one.
fn on(window: &Window, day: NaiveDate) -> Option<Occurrence> {
    let midnight = day.and_hms_opt(0, 0, 0)?;
    let wraps = window.end <= window.start;
    let end_minutes = i64::from(window.end) + if wraps { 24 * 60 } else { 0 };
    let at = |minutes: i64| midnight.checked_add_signed(TimeDelta::try_minutes(minutes)?);
    let start = window.timezone.instants(at(i64::from(window.start))?)?.0;
    let end = window.timezone.instants(at(end_minutes)?)?.1;
    (start < end).then_some(Occurrence { start, end })
}

/// Joins what overlaps or touches.
fn merge(sorted: &[Occurrence]) -> Vec<Occurrence> {
    let mut merged: Vec<Occurrence> = Vec::with_capacity(sorted.len());
    for occurrence in sorted {
        match merged.last_mut() {
            Some(last) if occurrence.start <= last.end => last.end = last.end.max(occurrence.end),
            _ => merged.push(*occurrence),
        }
    }
    merged
}

/// Those that lie wholly inside: only they have a length and a distance. Where fewer than two do (a union that closes once
/// or twice a year), all of them, as far as they are known: a `P` that is too short would promise chances that don't come.
fn whole(occurrences: &[Occurrence], from: Time, to: Time) -> &[Occurrence] {
    let first = occurrences.partition_point(|occurrence| occurrence.start < from);
    let last = occurrences.partition_point(|occurrence| occurrence.end <= to);
    match occurrences.get(first..last) {
        Some(inside) if inside.len() > 1 => inside,
        _ => occurrences,
    }
}

/// The first two successive starts with the longest time between them.
fn longest_wait(occurrences: &[Occurrence]) -> Option<(Time, Time)> {
    let mut longest: Option<(Time, Time)> = None;
    for pair in occurrences.windows(2) {
        let (first, second) = (pair[0].start, pair[1].start);
        if longest.is_none_or(|(from, to)| second - first > to - from) {
            longest = Some((first, second));
        }
    }
    longest
}

#[cfg(test)]
mod tests;
