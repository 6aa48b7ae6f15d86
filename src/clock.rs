//! The only reader of the wall clock. Time is the API server's: what its `Date` header says, plus what has passed since
//! by the monotonic clock; so a laptop with a wrong clock can't act outside a window (§2).
//!
//! How exact it is: `Date` has whole seconds and is a round trip old when it is heard, so this clock lags behind the
//! server's by up to a second and that round trip, and is never ahead of it. Every later `Date` may only move it
//! forward: that takes the lag out, and tells a process that was suspended (the monotonic clock stands still then) what
//! time it has become before it writes again: while it [may have slept](Clock::may_have_slept), it reads first.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta};
use tokio::time::Instant;

use crate::api::time::{Time, format_duration, later};

/// A difference to the local clock, or a leap, that is worth a log line.
const SKEW: TimeDelta = TimeDelta::seconds(30);

/// How much further the local clock may have moved than the monotonic one before that counts as sleep.
const SLEPT: TimeDelta = TimeDelta::seconds(2);

/// A clock that learns the time from the API server.
#[derive(Debug)]
pub struct Clock(Mutex<Reading>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    time: Time,
    taken: Instant,
    /// What the local clock said then.
    local: Time,
    of_server: bool,
}

impl Reading {
    fn now(&self) -> Time {
        later(self.time, TimeDelta::from_std(self.taken.elapsed()).unwrap_or(TimeDelta::MAX))
    }
}

impl Clock {
    /// A clock that says the local time until it hears the server's.
    pub fn local() -> Self {
        let local = wall();
        Self(Mutex::new(Reading { time: local, taken: Instant::now(), local, of_server: false }))
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.reading().now()
    }

    /// Whether it has heard the server's time.
    pub fn is_of_server(&self) -> bool {
        self.reading().of_server
    }

    /// Whether this process may have been suspended since it last learned the time: the local clock went on and the monotonic one
    /// stood still. What was known then is no ground for a write any more.
    pub fn may_have_slept(&self) -> bool {
        let reading = self.reading();
        let awake = TimeDelta::from_std(reading.taken.elapsed()).unwrap_or(TimeDelta::MAX);
        wall() - reading.local > awake + SLEPT
    }

    /// Says in the log that no answer has told the time, where it is so.
    pub fn warn_if_local(&self) {
        if !self.is_of_server() {
            tracing::warn!("the API server's answers carry no Date: the local clock is used");
        }
    }

    /// Learns from a `Date` header. The first one counts whatever the local clock says; later ones only move it forward.
    /// A header that can't be read is as none.
    pub fn hear(&self, date: &str) {
        let Ok(heard) = DateTime::parse_from_rfc2822(date).map(Time::from) else { return };
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = reading.now();
        if reading.of_server && heard <= now {
            return;
        }
        let again = reading.of_server;
        *reading = Reading { time: heard, taken: Instant::now(), local: wall(), of_server: true };
        // A log line asks for the time itself.
        drop(reading);
        let leap = heard - now;
        if leap.abs() > SKEW {
            let (off, direction) = (format_duration(leap.abs()), if leap > TimeDelta::zero() { "behind" } else { "ahead of" });
            if again {
                tracing::warn!("the API server's clock has moved {off} further than ours: was this process suspended?");
            } else {
                tracing::warn!("the local clock is {off} {direction} the API server's, whose time is used");
            }
        }
    }

    fn reading(&self) -> Reading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Clock {
    /// As if the process had been suspended for so long.
    pub fn sleep(&self, length: TimeDelta) {
        self.0.lock().unwrap().local -= length;
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the one reader of the wall clock")]
fn wall() -> Time {
    std::time::SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::time::parse_annotation;

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    /// The clock's time, without the moments that the test itself takes.
    fn second(clock: &Clock) -> Time {
        DateTime::from_timestamp(clock.now().timestamp(), 0).unwrap()
    }

    #[test]
    fn the_first_date_sets_the_clock_and_later_ones_only_move_it_forward() {
        let clock = Clock::local();
        assert!(!clock.is_of_server());
        clock.hear("Mon, 30 Nov 2026 07:00:00 GMT");
        assert!(clock.is_of_server());
        assert_eq!(second(&clock), at("2026-11-30T07:00:00Z"));
        clock.hear("Mon, 30 Nov 2026 06:59:58 GMT");
        assert_eq!(second(&clock), at("2026-11-30T07:00:00Z"));
        clock.hear("Mon, 30 Nov 2026 08:00:00 GMT");
        assert_eq!(second(&clock), at("2026-11-30T08:00:00Z"));
    }

    #[test]
    fn a_process_that_slept_knows_until_it_hears_what_time_it_has_become() {
        let clock = Clock::local();
        clock.hear("Mon, 30 Nov 2026 07:00:00 GMT");
        assert!(!clock.may_have_slept());
        clock.sleep(TimeDelta::hours(1));
        assert!(clock.may_have_slept());
        clock.hear("Mon, 30 Nov 2026 08:00:00 GMT");
        assert!(!clock.may_have_slept());
    }

    #[test]
    fn a_date_before_the_local_clock_counts_when_it_is_the_first() {
        let clock = Clock::local();
        clock.hear("Thu, 01 Jan 1998 00:00:00 GMT");
        assert_eq!(second(&clock), at("1998-01-01T00:00:00Z"));
    }

    #[test]
    fn an_unreadable_date_leaves_the_local_clock() {
        let clock = Clock::local();
        clock.hear("yesterday");
        assert!(!clock.is_of_server());
    }
}
