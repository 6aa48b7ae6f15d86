//! A forecast day by day (week by week where it is long), for people.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{Datelike, NaiveDate, TimeDelta};

use super::forecast::{Entry, Forecast, PoolForecast};
use crate::{api::time::Time, schedule::window::Occurrence, world::history::Event};

/// Longer forecasts are told by the week.
const DAILY: TimeDelta = TimeDelta::days(45);

/// What happens in a day or a week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Its first day, in the forecast's zone.
    pub day: NaiveDate,
    /// With noderotation, in windows.
    pub inside: Tally,
    /// With noderotation, at other times.
    pub outside: Tally,
    /// Without.
    pub without: Tally,
}

/// How often something happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes that were replaced, their surge Ready before they drained.
    pub rotated: usize,
    /// Nodes that were replaced without a surge.
    pub fallback: usize,
    /// Attempts that were rolled back.
    pub failed: usize,
    /// Nodes that Karpenter expired.
    pub expired: usize,
    /// Nodes that somebody else deleted.
    pub deleted: usize,
    /// Windows that were missed.
    pub missed: usize,
    /// Nodes whose last Pods were ended by force.
    pub forced: usize,
}

impl Tally {
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As words: `10 rotated, 1 failed`.
    pub fn words(&self) -> String {
        let parts = [
            (self.rotated, "rotated"),
            (self.fallback, "replaced without a surge"),
            (self.failed, "failed"),
            (self.expired, "expired"),
            (self.deleted, "deleted"),
            (self.missed, "missed"),
            (self.forced, "with Pods ended by force"),
        ];
        let parts: Vec<String> = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        parts.join(", ")
    }

    fn count(&mut self, event: Event, is_fallback: bool) {
        match event {
            Event::Draining if is_fallback => self.fallback += 1,
            Event::Draining => self.rotated += 1,
            Event::Failed => self.failed += 1,
            Event::Expired => self.expired += 1,
            Event::Deleted => self.deleted += 1,
            Event::WindowMissed => self.missed += 1,
            Event::Forced => self.forced += 1,
            _ => {}
        }
    }
}

impl Forecast {
    /// How many days a [`Stretch`] has.
    pub fn step(&self) -> i64 {
        if self.to - self.from > DAILY { 7 } else { 1 }
    }

    /// All stretches in which something happens, in order: of one pool, or of all.
    pub fn stretches(&self, pool: Option<&str>) -> Vec<Stretch> {
        let pools: BTreeMap<&str, Vec<Occurrence>> = self.pools.iter().map(|pool| (pool.name.as_str(), pool.open())).collect();
        let of_pool = |entry: &&Entry| pool.is_none_or(|pool| entry.pool == pool);
        let mut stretches: BTreeMap<NaiveDate, Stretch> = BTreeMap::new();
        let mut fallbacks: BTreeSet<(&str, &str)> = BTreeSet::new();
        for entry in self.timeline.iter().filter(of_pool) {
            let key = (entry.pool.as_str(), entry.claim.as_str());
            if entry.event == Event::Fallback {
                fallbacks.insert(key);
            }
            let inside = pools.get(key.0).is_some_and(|open| super::forecast::is_open(open, entry.at));
            let stretch = self.stretch(&mut stretches, entry.at);
            let tally = if inside { &mut stretch.inside } else { &mut stretch.outside };
            tally.count(entry.event, fallbacks.contains(&key));
        }
        for entry in self.timeline_without.iter().filter(of_pool) {
            self.stretch(&mut stretches, entry.at).without.count(entry.event, false);
        }
        let is_empty = |stretch: &Stretch| stretch.inside.is_empty() && stretch.outside.is_empty() && stretch.without.is_empty();
        stretches.into_values().filter(|stretch| !is_empty(stretch)).collect()
    }

    fn stretch<'a>(&self, stretches: &'a mut BTreeMap<NaiveDate, Stretch>, at: Time) -> &'a mut Stretch {
        let day = self.day(at);
        let empty = Stretch { day, inside: Tally::default(), outside: Tally::default(), without: Tally::default() };
        stretches.entry(day).or_insert(empty)
    }

    /// The first day of the stretch with this instant.
    pub fn day(&self, at: Time) -> NaiveDate {
        let day = self.zone.local(at).date_naive();
        let back = if self.step() == 7 { i64::from(day.weekday().num_days_from_monday()) } else { 0 };
        day.checked_sub_signed(TimeDelta::days(back)).unwrap_or(day)
    }
}

impl PoolForecast {
    /// When starts are allowed.
    pub fn open(&self) -> Vec<Occurrence> {
        self.windows.iter().map(|span| Occurrence { start: span.opens_at, end: span.closes_at }).collect()
    }
}
