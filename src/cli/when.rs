//! Instants and spans for people: in the window's own zone, in the zone of the terminal, and as a distance from now.

use chrono::{DateTime, Local, TimeDelta, TimeZone};

use crate::api::{
    time::{Time, to_annotation},
    zone::Zone,
};

/// The zone of whoever reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// That of this system.
    Here,
    /// A given one.
    In(Zone),
}

impl Reader {
    /// `Sat 02:00`, with the date where it is more than six days away.
    fn clock(self, time: Time, now: Time) -> String {
        match self {
            Self::Here => clock(&time.with_timezone(&Local), now),
            Self::In(zone) => clock(&zone.local(time), now),
        }
    }

    /// `Sat 02:00 Europe/Berlin (Sat 08:00 here), in 3h`.
    pub fn moment(self, time: Time, zone: Zone, now: Time) -> String {
        let (own, here) = (clock(&zone.local(time), now), self.clock(time, now));
        let here = if own == here { String::new() } else { format!(" ({here} here)") };
        format!("{own} {zone}{here}, {}", distance(time, now))
    }

    /// The same on three short lines, the zone by its city.
    pub fn moment_in_lines(self, time: Time, zone: Zone, now: Time) -> String {
        let (own, here) = (clock(&zone.local(time), now), self.clock(time, now));
        let here = if own == here { String::new() } else { format!("({here} here)\n") };
        let city = zone.name().rsplit('/').next().unwrap_or_default();
        format!("{own} {city}\n{here}{}", distance(time, now))
    }

    /// `Sat 08:00 (in 3h)`, in the reader's zone.
    pub fn here(self, time: Time, now: Time) -> String {
        format!("{} ({})", self.clock(time, now), distance(time, now))
    }
}

fn clock<Z: TimeZone>(time: &DateTime<Z>, now: Time) -> String
where
    Z::Offset: std::fmt::Display,
{
    let far = (time.to_utc() - now).abs() > TimeDelta::days(6);
    time.format(if far { "%Y-%m-%d %H:%M" } else { "%a %H:%M" }).to_string()
}

/// `in 3h`, `5m ago`, `now`.
pub fn distance(time: Time, now: Time) -> String {
    let span = time - now;
    if span.abs() < TimeDelta::seconds(1) {
        return "now".into();
    }
    if span > TimeDelta::zero() { format!("in {}", short(span)) } else { format!("{} ago", short(-span)) }
}

/// The two largest units: `2d4h`, `3h`, `45m`, `30s`.
pub fn short(span: TimeDelta) -> String {
    let seconds = span.num_seconds();
    let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    let pair = |large: u64, unit: char, small: u64, smaller: char| {
        if small == 0 { format!("{sign}{large}{unit}") } else { format!("{sign}{large}{unit}{small}{smaller}") }
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{seconds}s"),
        (0, 0, minutes) => pair(minutes, 'm', if minutes < 10 { seconds % 60 } else { 0 }, 's'),
        (0, hours, minutes) => pair(hours, 'h', minutes, 'm'),
        (days, hours, _) => pair(days, 'd', hours, 'h'),
    }
}

/// As JSON tells an instant.
pub fn json(time: Option<Time>) -> Option<String> {
    time.map(to_annotation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::time::parse_annotation;

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    #[test]
    fn a_moment_is_told_in_both_zones_and_from_now() {
        let (now, time) = (at("2026-12-04T22:00:00Z"), at("2026-12-05T01:00:00Z"));
        let berlin = "Europe/Berlin".parse().unwrap();
        assert_eq!(Reader::In("Asia/Tokyo".parse().unwrap()).moment(time, berlin, now), "Sat 02:00 Europe/Berlin (Sat 10:00 here), in 3h");
        assert_eq!(Reader::In(berlin).moment(time, berlin, now), "Sat 02:00 Europe/Berlin, in 3h");
        assert_eq!(Reader::In(berlin).here(at("2026-12-20T01:00:00Z"), now), "2026-12-20 02:00 (in 15d3h)");
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (61, "1m1s"), (659, "10m"), (7200, "2h"), (8100, "2h15m"), (90_000, "1d1h"), (-90, "-1m30s")]
        {
            assert_eq!(short(TimeDelta::seconds(seconds)), text);
        }
    }
}
