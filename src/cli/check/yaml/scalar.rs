//! What a plain scalar means. Kubernetes reads YAML with Go's yaml.v2, which follows YAML 1.1 in parts: `no` is false and
//! `010` is eight, while `02:00` is text. A checker that reads it differently would pass what the API server refuses.

use serde_json::{Number, Value};

/// The value; `None` for a number that JSON has not.
pub fn value(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" => return None,
        _ if text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) => number(text)?,
        _ => Value::from(text),
    })
}

/// The name that a key is; `None` for null, which is no name.
pub fn key(text: &str) -> Option<String> {
    match value(text)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// A number, or text that only begins like one.
fn number(text: &str) -> Option<Value> {
    let plain = text.replace('_', "");
    if let Some(whole) = integer(&plain) {
        return Some(whole);
    }
    if !is_decimal(&plain) {
        return Some(Value::from(text));
    }
    let read = plain.parse::<f64>().ok().filter(|read| read.is_finite())?;
    // Go writes a whole number back without a fraction.
    if read.fract() == 0.0 && read.abs() < 1e15 {
        return Some(Value::from(format!("{read:.0}").parse::<i64>().ok()?));
    }
    Number::from_f64(read).map(Value::Number)
}

/// As Go's `ParseInt` with base 0: `0x`, `0o`, `0b` and a leading zero for octal.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .iter()
        .find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, *radix)))
        .unwrap_or_else(|| match lower.strip_prefix('0').filter(|rest| !rest.is_empty()) {
            Some(rest) => (rest, 8),
            None => (lower.as_str(), 10),
        });
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    if negative {
        return i64::from_str_radix(&format!("-{digits}"), radix).ok().map(Value::from);
    }
    u64::from_str_radix(digits, radix).ok().map(Value::from)
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        None => all_digits(mantissa),
        Some(("", fraction)) => all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && (fraction.is_empty() || all_digits(fraction)),
    };
    mantissa_fits && exponent.is_none_or(|exponent| all_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_the_api_server_makes_of_them() {
        for (text, expected) in [
            ("no", json!(false)),
            ("On", json!(true)),
            ("~", json!(null)),
            ("Mon", json!("Mon")),
            ("02:00", json!("02:00")),
            ("240h", json!("240h")),
            ("2026-12-19", json!("2026-12-19")),
            ("2", json!(2)),
            ("+2", json!(2)),
            ("-2", json!(-2)),
            ("010", json!(8)),
            ("08", json!(8)),
            ("0x10", json!(16)),
            ("1_000", json!(1000)),
            ("2.0", json!(2)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000)),
            ("-", json!("-")),
            (".", json!(".")),
            ("1.5h", json!("1.5h")),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        assert_eq!((value(".nan"), value("1e999")), (None, None));
        assert_eq!((key("on"), key("null"), key("1")), (Some("true".into()), None, Some("1".into())));
    }
}
