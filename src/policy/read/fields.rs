//! Reads single fields of an object, and collects what is wrong with them.

use chrono::TimeDelta;
use serde_json::{Map, Value};

use crate::policy::Problem;

/// As much of a wrong value as a message quotes, in characters.
const QUOTED: usize = 200;
/// The longest text that the API server takes for a duration.
const LENGTH: usize = 32;
/// Go's longest duration, in seconds: what Karpenter's own fields can say.
const LONGEST: u64 = i64::MAX as u64 / 1_000_000_000;

/// Collects problems. A field that is `null` is absent, as for the API server; a method that answers `None` has told why,
/// unless the field is absent.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn missing(&mut self, path: &str, expected: &str) {
        self.problem(path, None, expected);
    }

    pub(super) fn problem(&mut self, path: &str, value: Option<&Value>, expected: &str) {
        let mut text = value.map(Value::to_string).unwrap_or_default();
        if let Some((cut, _)) = text.char_indices().nth(QUOTED) {
            text.truncate(cut);
            text.push('…');
        }
        self.problems.push(Problem { path: path.to_owned(), value: text, expected: expected.to_owned() });
    }

    /// An object with no other fields than these.
    pub(super) fn object<'a>(&mut self, value: &'a Value, path: &str, known: &[&str]) -> Option<&'a Map<String, Value>> {
        let Some(fields) = value.as_object() else {
            self.problem(path, Some(value), "an object");
            return None;
        };
        for (name, value) in fields {
            if !known.contains(&name.as_str()) {
                self.problem(&format!("{path}.{name}"), Some(value), &format!("no such field: those are {}", known.join(", ")));
            }
        }
        Some(fields)
    }

    /// A field that is an object.
    pub(super) fn child<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        path: &str,
        field: &str,
        known: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        self.object(present(fields, field)?, &format!("{path}.{field}"), known)
    }

    /// A field that is a list.
    pub(super) fn array<'a>(&mut self, fields: &'a Map<String, Value>, path: &str, field: &str, expected: &str) -> Option<&'a [Value]> {
        let value = present(fields, field)?;
        let items = value.as_array().map(Vec::as_slice);
        self.told(items, path, field, value, expected)
    }

    /// Says where a list is longer than the API server takes.
    pub(super) fn at_most(&mut self, most: usize, items: &[Value], path: &str) {
        if items.len() > most {
            self.problem(path, Some(&Value::from(items.len())), &format!("at most {most} entries"));
        }
    }

    pub(super) fn text<'a>(&mut self, fields: &'a Map<String, Value>, path: &str, field: &str, expected: &str) -> Option<&'a str> {
        let value = present(fields, field)?;
        self.told(value.as_str(), path, field, value, expected)
    }

    pub(super) fn integer(&mut self, fields: &Map<String, Value>, path: &str, field: &str, expected: &str) -> Option<i64> {
        let value = present(fields, field)?;
        self.told(value.as_i64(), path, field, value, expected)
    }

    pub(super) fn boolean(&mut self, fields: &Map<String, Value>, path: &str, field: &str) -> Option<bool> {
        let value = present(fields, field)?;
        self.told(value.as_bool(), path, field, value, "true or false")
    }

    pub(super) fn duration(&mut self, fields: &Map<String, Value>, path: &str, field: &str) -> Option<TimeDelta> {
        self.duration_as(fields, path, field, "whole hours, minutes and seconds, such as 1h30m (no days, no fractions)")
    }

    pub(super) fn duration_as(&mut self, fields: &Map<String, Value>, path: &str, field: &str, expected: &str) -> Option<TimeDelta> {
        let value = present(fields, field)?;
        self.told(value.as_str().and_then(duration), path, field, value, expected)
    }

    /// A field that may only have one value.
    pub(super) fn only(&mut self, fields: &Map<String, Value>, path: &str, field: &str, right: &Value, expected: &str) {
        if let Some(value) = present(fields, field).filter(|value| *value != right) {
            self.problem(&format!("{path}.{field}"), Some(value), expected);
        }
    }

    fn told<T>(&mut self, read: Option<T>, path: &str, field: &str, value: &Value, expected: &str) -> Option<T> {
        if read.is_none() {
            self.problem(&format!("{path}.{field}"), Some(value), expected);
        }
        read
    }
}

/// A field that is there and not `null`.
pub(super) fn present<'a>(fields: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    fields.get(field).filter(|value| !value.is_null())
}

/// Reads a duration of ours: `^([0-9]+(s|m|h))+$` in at most 32 characters, and at most what Go can say (292 years). `None` for anything else.
pub fn duration(text: &str) -> Option<TimeDelta> {
    if text.len() > LENGTH {
        return None;
    }
    let mut total: u64 = 0;
    let mut number: Option<u64> = None;
    for character in text.chars() {
        let unit = match character {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => {
                let digit = u64::from(character.to_digit(10)?);
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    if number.is_some() || text.is_empty() || total > LONGEST {
        return None;
    }
    TimeDelta::try_seconds(i64::try_from(total).ok()?)
}
