//! Time as the program uses it: `chrono` inside, the API's own timestamps converted here and nowhere else.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

/// An instant.
pub type Time = DateTime<Utc>;

/// From an instant of the Kubernetes API.
pub fn from_api(time: &meta::Time) -> Time {
    from_timestamp(time.0)
}

/// From an instant of the Kubernetes API with microseconds.
pub fn from_micro(time: &meta::MicroTime) -> Time {
    from_timestamp(time.0)
}

/// An instant of the Kubernetes API, which has whole seconds.
pub fn to_api(time: Time) -> meta::Time {
    meta::Time(jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::MAX))
}

fn from_timestamp(timestamp: jiff::Timestamp) -> Time {
    DateTime::from_timestamp_nanos(i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX))
}

/// An annotation's instant: whole seconds, RFC 3339, `Z`.
pub fn to_annotation(time: Time) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The API's `MicroTime`: exactly six fractional digits, as apimachinery insists.
pub fn to_micro(time: Time) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Reads an annotation's instant, leniently (any RFC 3339 form). `None` where it can't be read.
pub fn parse_annotation(text: &str) -> Option<Time> {
    DateTime::parse_from_rfc3339(text.trim()).ok().map(|time| time.with_timezone(&Utc))
}

/// Reads a duration in Kubernetes' (Go's) syntax, such as `24h0m0s`; `Never` and anything else is `None`, and so is one that
/// Go could not hold. Not `kube`'s type: that one panics on a number too large, which any annotation may hold.
pub fn parse_duration(text: &str) -> Option<TimeDelta> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(TimeDelta::zero());
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanoseconds = 0_i64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, after) = after.split_at(after.find(|next: char| next.is_ascii_digit() || next == '.').unwrap_or(after.len()));
        nanoseconds = nanoseconds.checked_add(part(whole, fraction, unit)?)?;
        rest = after;
    }
    Some(TimeDelta::nanoseconds(if negative { -nanoseconds } else { nanoseconds }))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len()))
}

/// Nanoseconds of one number with its unit.
fn part(whole: &str, fraction: &str, unit: &str) -> Option<i64> {
    let scale: i64 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i64>().ok() };
    // More decimals than nanoseconds of an hour have are cut off, as Go does.
    let fraction = &fraction[..fraction.len().min(15)];
    let divisor = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let decimals = i128::from(number(fraction)?) * i128::from(scale) / divisor;
    number(whole)?.checked_mul(scale)?.checked_add(i64::try_from(decimals).ok()?)
}

/// A duration for people and annotations, in Go's syntax without empty units: `119h41m`, `1h19m`, `45s`, `0s`.
pub fn format_duration(span: TimeDelta) -> String {
    let seconds = span.num_seconds();
    let (sign, seconds) = if seconds < 0 { ("-", seconds.unsigned_abs()) } else { ("", seconds.unsigned_abs()) };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::from(sign);
    if hours > 0 {
        text.push_str(&format!("{hours}h"));
    }
    if minutes > 0 {
        text.push_str(&format!("{minutes}m"));
    }
    if seconds > 0 || (hours == 0 && minutes == 0) {
        text.push_str(&format!("{seconds}s"));
    }
    text
}

/// `instant + span`, at the end of time where that is not representable.
pub fn later(instant: Time, span: TimeDelta) -> Time {
    instant.checked_add_signed(span).unwrap_or(if span < TimeDelta::zero() { Time::MIN_UTC } else { Time::MAX_UTC })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_does_and_print_without_empty_units() {
        for (text, printed) in [("24h0m0s", "24h"), ("1h19m", "1h19m"), ("90s", "1m30s"), ("0s", "0s"), ("336h", "336h")] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), printed);
        }
        assert_eq!(parse_duration("Never"), None);
        assert_eq!(parse_duration("14d"), None);
    }

    #[test]
    fn every_form_of_go_is_read_exactly_and_none_panics() {
        let read = |text| parse_duration(text).and_then(|span| span.num_nanoseconds());
        let second = 1_000_000_000;
        for (text, nanoseconds) in [
            ("0", 0),
            ("1.5h", 5400 * second),
            ("-1m30s", -90 * second),
            ("+.5s", second / 2),
            ("1.s", second),
            ("1ms2us3\u{b5}s4\u{3bc}s5ns", 1_009_005),
            ("0.100000000000000000001h", 360 * second),
            ("2562047h47m16.854775807s", i64::MAX),
        ] {
            assert_eq!(read(text), Some(nanoseconds), "{text}");
        }
        let huge = "9".repeat(400) + "h";
        for text in
            ["", "-", "1", "s", ".s", "1h1", "1 h", "1d", "--1s", "1h-1m", "2562047h47m16.854775808s", "99999999999999999999h", &huge]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn micro_time_has_exactly_six_digits() {
        let at = |text| parse_annotation(text).unwrap();
        assert_eq!(to_micro(at("2026-11-30T07:00:00Z")), "2026-11-30T07:00:00.000000Z");
        assert_eq!(to_micro(at("2026-11-30T07:00:00.5Z")), "2026-11-30T07:00:00.500000Z");
        assert_eq!(to_micro(at("2026-11-30T07:00:00.123456789Z")), "2026-11-30T07:00:00.123456Z");
        assert_eq!(to_annotation(at("2026-11-30T08:00:00.9+01:00")), "2026-11-30T07:00:00Z");
    }
}
