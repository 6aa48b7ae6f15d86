//! Occurrences of maintenance windows (§3): the union of all entries, half-open, in wall-clock time.

use chrono::TimeDelta;

use crate::{api::time::Time, policy::Window};

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
    /// Merged occurrences in order, from `now` - 8 days to `now` + 400 days.
    pub occurrences: Vec<Occurrence>,
    /// Whether the union never closes.
    pub always_open: bool,
    /// `P`: the largest start-to-start gap; `None` without two occurrences or when always open.
    pub period: Option<TimeDelta>,
    /// `D`: the shortest occurrence.
    pub shortest: Option<TimeDelta>,
    /// The shortest closed interval between occurrences.
    pub gap: Option<TimeDelta>,
}

impl Schedule {
    /// Works out the occurrences around `now`.
    pub fn of(_windows: &[Window], _now: Time) -> Self {
        Self::default()
    }

    /// The occurrence that contains `now`, exactly.
    pub fn open_at(&self, now: Time) -> Option<Occurrence> {
        self.occurrences.iter().copied().find(|occurrence| occurrence.start <= now && now < occurrence.end)
    }

    /// The start of the first occurrence that begins after `after`.
    pub fn next_start(&self, after: Time) -> Option<Time> {
        self.occurrences.iter().map(|occurrence| occurrence.start).find(|start| *start > after)
    }
}
