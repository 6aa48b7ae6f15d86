//! Window accounting (§3): which windows closed with something due and nothing rotated, whether or not a pass ran then.
//!
//! A stamp on the pool says up to when closed occurrences have been judged, and under which policy. Every pass judges what
//! closed since, on what is known today. What the schedule no longer knows (it reaches back 8 days) is left unjudged: after
//! a longer break it would be a guess, and a stamp that old says so by itself.

use std::fmt;

use super::window::{Occurrence, Schedule};
use crate::api::time::{Time, parse_annotation, to_annotation};

/// Up to when closed occurrences have been judged, under which policy: the annotation `window-settled-at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Occurrences that ended at this instant or before have been judged. Whole seconds in the annotation.
    pub at: Time,
    /// The policy's UID.
    pub uid: String,
    /// Its generation: after an edit the windows are others.
    pub generation: i64,
}

impl Settled {
    /// Reads `<RFC 3339> <uid>/<generation>`; `None` where it can't be read.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, policy) = text.trim().split_once(' ')?;
        let (uid, generation) = policy.trim_start().rsplit_once('/')?;
        Some(Self { at: parse_annotation(at)?, uid: uid.into(), generation: generation.parse().ok()? })
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", to_annotation(self.at), self.uid, self.generation)
    }
}

/// What stops every start of a pool and has a gauge of its own: a window that closes meanwhile isn't reported as missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Its policy is suspended.
    pub suspended: bool,
    /// The pool is static (`spec.replicas`).
    pub is_static: bool,
    /// Several policies tie for it.
    pub conflict: bool,
    /// A fatal finding holds.
    pub fatal: bool,
}

/// A pool, as the settlement sees it today.
#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    /// Now.
    pub now: Time,
    /// The schedule of its policy around `now`, with its blackouts.
    pub schedule: &'a Schedule,
    /// UID of the policy.
    pub uid: &'a str,
    /// Generation of the policy.
    pub generation: i64,
    /// The annotation `window-settled-at`, as it stands.
    pub stamp: Option<&'a str>,
    /// Whether a rotation is anchored.
    pub anchored: bool,
    /// What stops every start.
    pub held: Held,
    /// Until when the operator's freeze lasts; [`Time::MAX_UTC`] for one that can't be read.
    pub frozen_until: Option<Time>,
    /// `last-rotation-at`.
    pub last_rotation_at: Option<Time>,
    /// The triggers of claims that are still there and eligible or in backoff.
    pub outstanding: &'a [Time],
}

/// What a pass does about the windows of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// A rotation is anchored: judged once it has ended.
    Deferred,
    /// Nothing closed since the stamp: nothing is written.
    Unchanged,
    /// The stamp moves; nothing is reported.
    Stamp(Settled),
    /// Windows were missed: stamp and total move in one write, by the number of occurrences.
    Missed {
        /// The new stamp.
        stamp: Settled,
        /// Those that were missed, in order; never empty.
        occurrences: Vec<Occurrence>,
    },
}

/// Judges every occurrence that closed since the stamp and up to now. A stamp that is absent, unreadable, in the future or
/// of another policy or generation is written anew, and reports nothing.
pub fn settle(pool: &Pool<'_>) -> Settlement {
    if pool.anchored {
        return Settlement::Deferred;
    }
    let stamp = Settled { at: pool.now, uid: pool.uid.into(), generation: pool.generation };
    let since = pool.stamp.and_then(Settled::parse).filter(|settled| {
        let same_policy = (&settled.uid, settled.generation) == (&stamp.uid, stamp.generation);
        same_policy && settled.at <= pool.now
    });
    let Some(since) = since else { return Settlement::Stamp(stamp) };
    let occurrences = &pool.schedule.occurrences;
    let first = occurrences.partition_point(|occurrence| occurrence.end <= since.at);
    let after = occurrences.partition_point(|occurrence| occurrence.end <= pool.now);
    match occurrences.get(first..after) {
        None | Some([]) => Settlement::Unchanged,
        Some(closed) => {
            let missed: Vec<Occurrence> = closed.iter().filter(|occurrence| is_missed(pool, occurrence)).copied().collect();
            if missed.is_empty() { Settlement::Stamp(stamp) } else { Settlement::Missed { stamp, occurrences: missed } }
        }
    }
}

/// Whether something was due in this occurrence, could have been started, and was not rotated.
fn is_missed(pool: &Pool<'_>, closed: &Occurrence) -> bool {
    let Held { suspended, is_static, conflict, fatal } = pool.held;
    let held = suspended || is_static || conflict || fatal;
    let blacked_out = pool.schedule.blackouts.touch(closed);
    let frozen = pool.frozen_until.is_some_and(|until| closed.end <= until);
    // A stamp from a wrong clock must not silence windows for good.
    let rotated = pool.last_rotation_at.is_some_and(|at| closed.start <= at && at <= pool.now);
    let outstanding = pool.outstanding.iter().any(|trigger| *trigger < closed.end);
    outstanding && !(held || blacked_out || frozen || rotated)
}

#[cfg(test)]
mod tests {
    use chrono::Weekday::{Sat, Wed};

    use super::*;
    use crate::{
        api::zone::Zone,
        policy::{Blackout, Window},
    };

    const UID: &str = "1b4e";

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    /// Wed and Sat 02:00-06:00 UTC; Wednesday 2 December 2026, and the two before.
    fn schedule(now: &str, blackouts: &[Blackout]) -> Schedule {
        let window = Window { timezone: Zone::UTC, days: vec![Wed, Sat], start: 120, end: 360 };
        Schedule::of(&[window], at(now)).without(blackouts, at(now))
    }

    fn stamp(at_: &str) -> Settled {
        Settled { at: at(at_), uid: UID.into(), generation: 3 }
    }

    fn missed(now: &str, dates: &[&str]) -> Settlement {
        let occurrence = |date: &&str| Occurrence { start: at(&format!("{date}T02:00:00Z")), end: at(&format!("{date}T06:00:00Z")) };
        Settlement::Missed { stamp: stamp(now), occurrences: dates.iter().map(occurrence).collect() }
    }

    /// Settles a pool with one outstanding claim, due since November, after this change.
    fn settled(now: &str, stamp: &str, blackouts: &[Blackout], change: impl FnOnce(&mut Pool<'_>)) -> Settlement {
        let (schedule, outstanding) = (schedule(now, blackouts), [at("2026-11-10T00:00:00Z")]);
        let mut pool = Pool {
            now: at(now),
            schedule: &schedule,
            uid: UID,
            generation: 3,
            stamp: Some(stamp),
            anchored: false,
            held: Held::default(),
            frozen_until: None,
            last_rotation_at: None,
            outstanding: &outstanding,
        };
        change(&mut pool);
        settle(&pool)
    }

    fn unchanged(_: &mut Pool<'_>) {}

    const NOW: &str = "2026-12-02T06:00:00Z";
    const BEFORE: &str = "2026-12-02T05:59:00Z 1b4e/3";

    #[test]
    fn a_window_that_closed_with_something_due_counts_once() {
        assert_eq!(settled("2026-12-02T05:59:59Z", BEFORE, &[], unchanged), Settlement::Unchanged);
        assert_eq!(settled(NOW, BEFORE, &[], unchanged), missed(NOW, &["2026-12-02"]));
        let Settlement::Missed { stamp, .. } = settled(NOW, BEFORE, &[], unchanged) else { panic!() };
        assert_eq!(stamp.to_string(), "2026-12-02T06:00:00Z 1b4e/3");
        assert_eq!(settled(NOW, &stamp.to_string(), &[], unchanged), Settlement::Unchanged);
        assert_eq!(settled("2026-12-02T06:01:00Z", &stamp.to_string(), &[], unchanged), Settlement::Unchanged);
    }

    #[test]
    fn windows_that_closed_while_no_pass_ran_are_each_counted_once() {
        let back = "2026-12-02T07:30:00.9Z";
        let result = settled(back, "2026-11-25T06:00:00Z 1b4e/3", &[], unchanged);
        assert_eq!(result, missed(back, &["2026-11-28", "2026-12-02"]));
        let Settlement::Missed { stamp, .. } = result else { panic!() };
        assert_eq!(settled("2026-12-02T07:31:00Z", &stamp.to_string(), &[], unchanged), Settlement::Unchanged);
    }

    #[test]
    fn what_closed_longer_ago_than_the_schedule_knows_is_not_judged() {
        let result = settled(NOW, "2026-09-01T00:00:00Z 1b4e/3", &[], unchanged);
        assert_eq!(result, missed(NOW, &["2026-11-25", "2026-11-28", "2026-12-02"]));
    }

    #[test]
    fn a_first_install_an_edited_policy_and_a_broken_stamp_are_stamped_anew_without_a_word() {
        let anew = Settlement::Stamp(stamp(NOW));
        assert_eq!(settled(NOW, BEFORE, &[], |pool| pool.stamp = None), anew);
        for broken in [
            "2026-11-25T06:00:00Z 1b4e/2",
            "2026-11-25T06:00:00Z 77aa/3",
            "2026-12-02T06:00:01Z 1b4e/3",
            "2026-11-25T06:00:00Z",
            "2026-11-25T06:00:00Z 1b4e",
            "2026-11-25T06:00:00Z 1b4e/99999999999999999999",
            "yesterday 1b4e/3",
            "",
            " / ",
        ] {
            assert_eq!(settled(NOW, broken, &[], unchanged), anew, "{broken:?}");
        }
        // Lenient in form.
        assert_eq!(settled(NOW, " 2026-12-02T06:59:00+01:00  1b4e/3\n", &[], unchanged), missed(NOW, &["2026-12-02"]));
    }

    #[test]
    fn while_a_rotation_is_anchored_windows_wait_for_its_end() {
        assert_eq!(settled(NOW, BEFORE, &[], |pool| pool.anchored = true), Settlement::Deferred);
        // It ended well after the close: the window had its rotation.
        let later = "2026-12-02T08:00:00Z";
        let rotated = settled(later, BEFORE, &[], |pool| pool.last_rotation_at = Some(at("2026-12-02T07:00:00Z")));
        assert_eq!(rotated, Settlement::Stamp(stamp(later)));
        // It was rolled back: the window was missed after all.
        assert_eq!(settled(later, BEFORE, &[], unchanged), missed(later, &["2026-12-02"]));
    }

    #[test]
    fn what_has_a_gauge_of_its_own_is_silent() {
        let silent = Settlement::Stamp(stamp(NOW));
        let held: [fn(&mut Held); 4] =
            [|held| held.suspended = true, |held| held.is_static = true, |held| held.conflict = true, |held| held.fatal = true];
        for hold in held {
            assert_eq!(settled(NOW, BEFORE, &[], |pool| hold(&mut pool.held)), silent);
        }
    }

    #[test]
    fn a_freeze_past_the_close_is_silent_and_one_that_ended_before_is_not() {
        let frozen = |until| settled(NOW, BEFORE, &[], |pool| pool.frozen_until = Some(until));
        assert_eq!(frozen(at("2026-12-02T06:00:00Z")), Settlement::Stamp(stamp(NOW)));
        assert_eq!(frozen(Time::MAX_UTC), Settlement::Stamp(stamp(NOW)));
        assert_eq!(frozen(at("2026-12-02T05:59:59Z")), missed(NOW, &["2026-12-02"]));
    }

    #[test]
    fn nothing_due_before_the_close_is_silent() {
        let schedule = schedule(NOW, &[]);
        let due = |outstanding: &[Time]| {
            let (uid, now) = (UID, at(NOW));
            let (held, stamp) = (Held::default(), Some(BEFORE));
            let pool = Pool {
                now,
                schedule: &schedule,
                uid,
                generation: 3,
                stamp,
                anchored: false,
                held,
                frozen_until: None,
                last_rotation_at: None,
                outstanding,
            };
            settle(&pool)
        };
        let (just, at_close) = (at("2026-12-02T05:59:59Z"), at("2026-12-02T06:00:00Z"));
        assert_eq!((due(&[]), due(&[at_close])), (Settlement::Stamp(stamp(NOW)), Settlement::Stamp(stamp(NOW))));
        assert_eq!(due(&[at_close, just]), missed(NOW, &["2026-12-02"]));
    }

    #[test]
    fn a_rotation_since_its_start_is_silent_unless_it_lies_in_the_future() {
        let rotated = |text| settled(NOW, BEFORE, &[], |pool| pool.last_rotation_at = Some(at(text)));
        assert_eq!(rotated("2026-12-02T02:00:00Z"), Settlement::Stamp(stamp(NOW)));
        assert_eq!(rotated("2026-12-02T01:59:59Z"), missed(NOW, &["2026-12-02"]));
        assert_eq!(rotated("2027-12-02T02:00:00Z"), missed(NOW, &["2026-12-02"]));
        // Of two windows only the one that had none is missed.
        let earlier = settled(NOW, "2026-11-25T06:00:00Z 1b4e/3", &[], |pool| pool.last_rotation_at = Some(at("2026-11-28T03:00:00Z")));
        assert_eq!(earlier, missed(NOW, &["2026-12-02"]));
    }

    #[test]
    fn a_blackout_over_a_part_of_it_is_silent() {
        let blackout = |zone: &str, day: &str| Blackout {
            timezone: zone.parse().unwrap(),
            from: day.parse().unwrap(),
            to: day.parse().unwrap(),
            reason: String::new(),
        };
        // The first of December ends in New York at 05:00 UTC, in the middle of the window.
        for (zone, day) in [("UTC", "2026-12-02"), ("America/New_York", "2026-12-01")] {
            assert_eq!(settled(NOW, BEFORE, &[blackout(zone, day)], unchanged), Settlement::Stamp(stamp(NOW)), "{zone}");
        }
        assert_eq!(settled(NOW, BEFORE, &[blackout("UTC", "2026-12-01")], unchanged), missed(NOW, &["2026-12-02"]));
        // Only that one.
        let both = settled(NOW, "2026-11-25T06:00:00Z 1b4e/3", &[blackout("UTC", "2026-11-28")], unchanged);
        assert_eq!(both, missed(NOW, &["2026-12-02"]));
    }
}
