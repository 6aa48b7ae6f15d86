//! Reads `spec.maintenanceWindows` (§3): strict, since a window that is misread opens at an hour nobody chose.

use chrono::Weekday;
use serde_json::{Map, Value};

use super::fields::{Reader, present};
use crate::{api::zone::Zone, policy::Window};

const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Mon),
    ("Tue", Weekday::Tue),
    ("Wed", Weekday::Wed),
    ("Thu", Weekday::Thu),
    ("Fri", Weekday::Fri),
    ("Sat", Weekday::Sat),
    ("Sun", Weekday::Sun),
];
const MIDNIGHT: u16 = 24 * 60;

/// The entries that can be used.
pub(super) fn read(reader: &mut Reader, spec: &Map<String, Value>) -> Vec<Window> {
    let path = "spec.maintenanceWindows";
    let expected = "a list of windows, each with timezone, days, start and end";
    let Some(value) = present(spec, "maintenanceWindows") else {
        reader.missing(path, expected);
        return Vec::new();
    };
    let Some(entries) = reader.array(spec, "spec", "maintenanceWindows", expected) else { return Vec::new() };
    reader.at_most(64, entries, path);
    if entries.is_empty() {
        reader.problem(path, Some(value), "at least one window: without one, nothing may ever start");
    }
    entries.iter().enumerate().filter_map(|(index, entry)| window(reader, entry, &format!("{path}[{index}]"))).collect()
}

fn window(reader: &mut Reader, entry: &Value, path: &str) -> Option<Window> {
    let fields = reader.object(entry, path, &["timezone", "days", "start", "end"])?;
    let timezone = timezone(reader, fields, path);
    let days = days(reader, fields, path);
    let start = clock(reader, fields, path, "start", MIDNIGHT - 1, "\"HH:MM\" with two digits each, from \"00:00\" to \"23:59\"");
    let end = clock(reader, fields, path, "end", MIDNIGHT, "\"HH:MM\" with two digits each, from \"00:00\" to \"24:00\"");
    if start.is_some() && start == end {
        let expected = "another time than start; a whole day is \"00:00\" to \"24:00\"";
        reader.problem(&format!("{path}.end"), fields.get("end"), expected);
        return None;
    }
    Some(Window { timezone: timezone?, days: days?, start: start?, end: end? })
}

/// Zones come from the table compiled in, so they don't depend on the image. Its names are exactly IANA's.
pub(super) fn timezone(reader: &mut Reader, fields: &Map<String, Value>, path: &str) -> Option<Zone> {
    let expected = "an IANA zone name, such as Europe/Berlin or UTC (no abbreviation, no offset)";
    if present(fields, "timezone").is_none() {
        reader.missing(&format!("{path}.timezone"), expected);
    }
    let name = reader.text(fields, path, "timezone", expected)?;
    let zone = name.parse().ok();
    if zone.is_none() {
        reader.problem(&format!("{path}.timezone"), fields.get("timezone"), expected);
    }
    zone
}

fn days(reader: &mut Reader, fields: &Map<String, Value>, path: &str) -> Option<Vec<Weekday>> {
    // People read "no days" as "every day" and as "never": refused.
    let list = "list the days, of Mon, Tue, Wed, Thu, Fri, Sat, Sun";
    let at = format!("{path}.days");
    let Some(value) = present(fields, "days") else {
        reader.missing(&at, list);
        return None;
    };
    let items = reader.array(fields, path, "days", list)?;
    reader.at_most(14, items, &at);
    if items.is_empty() {
        reader.problem(&at, Some(value), list);
        return None;
    }
    let mut days = Vec::new();
    let mut usable = true;
    for (index, item) in items.iter().enumerate() {
        let day = item.as_str().and_then(|text| DAYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)));
        match day {
            Some((_, day)) => days.push(*day),
            None => {
                reader.problem(&format!("{at}[{index}]"), Some(item), "one of Mon, Tue, Wed, Thu, Fri, Sat, Sun");
                usable = false;
            }
        }
    }
    days.sort_by_key(Weekday::num_days_from_monday);
    days.dedup();
    usable.then_some(days)
}

/// Minutes after midnight, at most `latest`.
fn clock(reader: &mut Reader, fields: &Map<String, Value>, path: &str, field: &str, latest: u16, expected: &str) -> Option<u16> {
    if present(fields, field).is_none() {
        reader.missing(&format!("{path}.{field}"), expected);
    }
    let text = reader.text(fields, path, field, expected)?;
    let minutes = minutes(text).filter(|minutes| *minutes <= latest);
    if minutes.is_none() {
        reader.problem(&format!("{path}.{field}"), fields.get(field), expected);
    }
    minutes
}

fn minutes(text: &str) -> Option<u16> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let [hour_tens, hour, b':', minute_tens, minute] = text.as_bytes() else { return None };
    let (hours, minutes) = (digit(hour_tens)? * 10 + digit(hour)?, digit(minute_tens)? * 10 + digit(minute)?);
    (minutes < 60).then_some(hours * 60 + minutes)
}
