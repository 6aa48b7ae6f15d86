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

/// Reads a duration in Kubernetes' (Go's) syntax, such as `24h0m0s`; `Never` and anything else is `None`.
pub fn parse_duration(text: &str) -> Option<TimeDelta> {
    let duration: kube::core::Duration = text.parse().ok()?;
    let span = TimeDelta::from_std(duration.into()).ok()?;
    Some(if duration.is_negative() { -span } else { span })
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
    fn micro_time_has_exactly_six_digits() {
        let at = |text| parse_annotation(text).unwrap();
        assert_eq!(to_micro(at("2026-11-30T07:00:00Z")), "2026-11-30T07:00:00.000000Z");
        assert_eq!(to_micro(at("2026-11-30T07:00:00.5Z")), "2026-11-30T07:00:00.500000Z");
        assert_eq!(to_micro(at("2026-11-30T07:00:00.123456789Z")), "2026-11-30T07:00:00.123456Z");
        assert_eq!(to_annotation(at("2026-11-30T08:00:00.9+01:00")), "2026-11-30T07:00:00Z");
    }
}
