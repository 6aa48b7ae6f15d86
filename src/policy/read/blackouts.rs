//! Reads `spec.blackouts` (§3): strict, since a day that is misread is a day on which nodes go.

use chrono::NaiveDate;
use serde_json::{Map, Value};

use super::{
    fields::{Reader, present},
    windows::timezone,
};
use crate::policy::Blackout;

/// The entries that can be used.
pub(super) fn read(reader: &mut Reader, spec: &Map<String, Value>) -> Vec<Blackout> {
    let expected = "a list of blackouts, each with timezone, from and to";
    let entries = reader.array(spec, "spec", "blackouts", expected).unwrap_or_default();
    reader.at_most(64, entries, "spec.blackouts");
    let entries = entries.iter().enumerate();
    entries.filter_map(|(index, entry)| blackout(reader, entry, &format!("spec.blackouts[{index}]"))).collect()
}

fn blackout(reader: &mut Reader, entry: &Value, path: &str) -> Option<Blackout> {
    let fields = reader.object(entry, path, &["timezone", "from", "to", "reason"])?;
    let timezone = timezone(reader, fields, path);
    let (from, to) = (day(reader, fields, path, "from"), day(reader, fields, path, "to"));
    let reason = reader.text(fields, path, "reason", "a text that says why");
    if reason.is_some_and(|reason| reason.chars().count() > 256) {
        reader.problem(&format!("{path}.reason"), fields.get("reason"), "at most 256 characters");
    }
    let (from, to) = (from?, to?);
    if to < from {
        reader.problem(&format!("{path}.to"), fields.get("to"), "not before from: both days are part of the blackout");
        return None;
    }
    Some(Blackout { timezone: timezone?, from, to, reason: reason.unwrap_or_default().to_owned() })
}

fn day(reader: &mut Reader, fields: &Map<String, Value>, path: &str, field: &str) -> Option<NaiveDate> {
    let expected = "a day of the calendar as \"YYYY-MM-DD\"";
    if present(fields, field).is_none() {
        reader.missing(&format!("{path}.{field}"), expected);
    }
    let text = reader.text(fields, path, field, expected)?;
    let day = date(text);
    if day.is_none() {
        reader.problem(&format!("{path}.{field}"), fields.get(field), expected);
    }
    day
}

/// Exactly `YYYY-MM-DD`: chrono alone would also take signs, blanks and short numbers.
fn date(text: &str) -> Option<NaiveDate> {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() });
    shaped.then(|| text.parse().ok()).flatten()
}
