//! Blackouts (§3): whole days on which nothing starts, and the chances that they leave to a claim.
//!
//! `P`, `D` and the gap stay those of the regular schedule: one long holiday must not make every age of the year
//! infeasible. Instead what would lose its chances to a blackout is due early.

use chrono::TimeDelta;

use super::{
    derive::times,
    window::{AHEAD, Occurrence, Schedule},
};
use crate::{
    api::time::{Time, later},
    policy::{Blackout, Settings},
};

/// A blackout as instants, `[start, end)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Closure {
    /// The first instant inside.
    pub start: Time,
    /// The first instant after.
    pub end: Time,
    /// Why, for people; may be empty.
    pub reason: String,
}

/// The blackouts of a policy, with what they leave of its schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blackouts {
    /// By their start; they may overlap.
    closures: Vec<Closure>,
    /// What is left of each occurrence of which something is left, in order: never empty, `[start, end)` each.
    chances: Vec<Vec<Occurrence>>,
    /// Up to when chances are known.
    until: Time,
}

impl Closure {
    /// From the first midnight of its first day to the last midnight after its last one. A midnight that the clock skips
    /// means the instant after the gap.
    fn of(blackout: &Blackout) -> Option<Self> {
        let midnight = |day: chrono::NaiveDate| blackout.timezone.instants(day.and_hms_opt(0, 0, 0)?);
        let start = midnight(blackout.from)?.0;
        let end = blackout.to.succ_opt().and_then(midnight).map_or(Time::MAX_UTC, |(_, last)| last);
        (start < end).then(|| Self { start, end, reason: blackout.reason.clone() })
    }

    fn contains(&self, instant: Time) -> bool {
        self.start <= instant && instant < self.end
    }

    fn overlaps(&self, occurrence: &Occurrence) -> bool {
        self.start < occurrence.end && occurrence.start < self.end
    }
}

impl Blackouts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.closures.is_empty()
    }

    /// The blackout that contains `now`; of several, the one that ends last.
    pub fn covering(&self, now: Time) -> Option<&Closure> {
        self.closures.iter().filter(|closure| closure.contains(now)).max_by_key(|closure| closure.end)
    }

    /// Those that are not over, by their start.
    pub fn ahead(&self, now: Time) -> impl Iterator<Item = &Closure> {
        self.closures.iter().filter(move |closure| now < closure.end)
    }

    /// What they leave of this, in order.
    pub fn left_of(&self, occurrence: Occurrence) -> Vec<Occurrence> {
        left_of(occurrence, &self.closures)
    }

    /// Whether a blackout covers a part of this.
    pub fn touch(&self, occurrence: &Occurrence) -> bool {
        self.closures.iter().any(|closure| closure.overlaps(occurrence))
    }

    /// Whether one is current or ahead, as far as the schedule is known: only then do chances trigger.
    fn matter(&self, now: Time) -> bool {
        self.closures.iter().any(|closure| now < closure.end && closure.start < self.until)
    }
}

impl Schedule {
    /// What the windows and blackouts of these settings mean around `now`.
    pub fn under(settings: &Settings, now: Time) -> Self {
        Self::of(&settings.windows, now).without(&settings.blackouts, now)
    }

    /// The same schedule with these blackouts; `now` is that of [`Schedule::of`].
    pub fn without(mut self, blackouts: &[Blackout], now: Time) -> Self {
        if blackouts.is_empty() {
            return self;
        }
        let mut closures: Vec<Closure> = blackouts.iter().filter_map(Closure::of).collect();
        closures.sort_unstable();
        let chances = self.occurrences.iter().map(|occurrence| left_of(*occurrence, &closures)).filter(|left| !left.is_empty()).collect();
        self.blackouts = Blackouts { closures, chances, until: later(now, AHEAD) };
        self
    }

    /// Chances that blackouts leave from `now` on: occurrences, the open one included, in which a rotation may still start
    /// outside of blackouts and no later than `latest` (deadline - `t_rot`). Where the windows never close, passes.
    ///
    /// `None` where nobody knows: no blackout is current or ahead, or `latest` lies beyond what the schedule covers.
    pub fn chances(&self, now: Time, latest: Time, cadence: TimeDelta) -> Option<i64> {
        let Blackouts { chances, until, .. } = &self.blackouts;
        if !self.blackouts.matter(now) || latest > *until {
            return None;
        }
        if self.always_open {
            return Some(passes(chances.iter().flatten(), now, latest, cadence));
        }
        let over = chances.partition_point(|left| left.last().is_none_or(|part| part.end <= now));
        let in_time = chances.partition_point(|left| left.first().is_some_and(|part| part.start <= latest));
        // Only the first that isn't over can have begun: what is left of it may begin too late.
        let too_late = chances.get(over..in_time).and_then(|rest| rest.first()).is_some_and(|left| {
            let earliest = left.iter().find(|part| now < part.end).map(|part| part.start.max(now));
            earliest.is_none_or(|earliest| earliest > latest)
        });
        Some(count(in_time.saturating_sub(over)) - i64::from(too_late))
    }

    /// The same without blackouts: what the windows alone would give.
    pub fn regular_chances(&self, now: Time, latest: Time, cadence: TimeDelta) -> i64 {
        if self.always_open {
            return passes(self.occurrences.iter(), now, latest, cadence);
        }
        let over = self.occurrences.partition_point(|occurrence| occurrence.end <= now);
        let in_time = self.occurrences.partition_point(|occurrence| occurrence.start <= latest);
        if now > latest { 0 } else { count(in_time.saturating_sub(over)) }
    }

    /// The instants from `now` on at which a node is the worst off if it is created then: `now`, and each end of what blackouts
    /// leave open.
    pub fn unlucky_births(&self, now: Time) -> impl Iterator<Item = Time> {
        let ends = self.blackouts.chances.iter().flatten().map(|part| part.end);
        std::iter::once(now).chain(ends.filter(move |end| now < *end))
    }

    /// The instant from which on at most `k` [`Schedule::chances`] are left to a claim with this `latest`.
    /// [`Time::MIN_UTC`] where that was so already before what the schedule covers; `None` where it covers no such
    /// instant, or blackouts don't matter.
    pub fn chances_run_low(&self, now: Time, latest: Time, k: i64, cadence: TimeDelta) -> Option<Time> {
        let Blackouts { chances, until, .. } = &self.blackouts;
        if !self.blackouts.matter(now) || latest > *until {
            return None;
        }
        let k = k.max(0);
        if self.always_open {
            return Some(open_time_before(chances.iter().flatten(), latest, times(cadence, k)));
        }
        let in_time = chances.partition_point(|left| left.first().is_some_and(|part| part.start <= latest));
        // The last one that must have gone by.
        let index = usize::try_from(count(in_time).saturating_sub(k).saturating_sub(1)).ok();
        let end = index.and_then(|index| Some(chances.get(index)?.iter().rfind(|part| part.start <= latest)?.end));
        Some(end.unwrap_or(Time::MIN_UTC))
    }

    /// The first instant after `latest` at which something may start outside of blackouts; where the windows never close
    /// and none covers it, `latest` itself. `None` where it lies beyond what the schedule covers.
    pub fn opening_after(&self, latest: Time) -> Option<Time> {
        let Blackouts { chances, until, .. } = &self.blackouts;
        let opening = if self.always_open {
            chances.iter().flatten().find(|part| latest < part.end).map(|part| part.start.max(latest))
        } else {
            let in_time = chances.partition_point(|left| left.first().is_some_and(|part| part.start <= latest));
            chances.get(in_time).and_then(|left| left.first()).map(|part| part.start)
        };
        opening.filter(|opening| opening < until)
    }
}

/// What closures (by their start) leave of an occurrence.
fn left_of(occurrence: Occurrence, closures: &[Closure]) -> Vec<Occurrence> {
    let mut left = Vec::new();
    let mut start = occurrence.start;
    for closure in closures.iter().filter(|closure| closure.overlaps(&occurrence)) {
        if start < closure.start {
            left.push(Occurrence { start, end: closure.start });
        }
        start = start.max(closure.end);
    }
    if start < occurrence.end {
        left.push(Occurrence { start, end: occurrence.end });
    }
    left
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many passes fit into what is open between `now` and `latest`.
fn passes<'a>(open: impl Iterator<Item = &'a Occurrence>, now: Time, latest: Time, cadence: TimeDelta) -> i64 {
    let within = |part: &Occurrence| (part.end.min(latest) - part.start.max(now)).max(TimeDelta::zero()).num_milliseconds();
    let open: i64 = open.map(within).fold(0, i64::saturating_add);
    open / cadence.num_milliseconds().max(1)
}

/// The instant after which this much open time is left until `latest`.
fn open_time_before<'a>(open: impl DoubleEndedIterator<Item = &'a Occurrence>, latest: Time, mut wanted: TimeDelta) -> Time {
    for part in open.rev() {
        let end = part.end.min(latest);
        let length = end - part.start;
        if length > wanted {
            return end - wanted;
        }
        wanted -= length.max(TimeDelta::zero());
    }
    Time::MIN_UTC
}

#[cfg(test)]
mod tests;
