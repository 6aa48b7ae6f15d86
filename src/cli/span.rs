//! Durations on the command line, in the form that policies use too: `50s`, `2m`, `1h30m`.

use chrono::TimeDelta;

use crate::policy::read::duration;

/// Why a duration can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// It is not written as one, or is longer than the program can count.
    #[error("write whole numbers with s, m or h, such as 50s, 2m or 1h30m")]
    Form,
    /// It is nothing.
    #[error("it must be longer than 0s")]
    Zero,
}

/// Reads a duration of more than nothing: `^([0-9]+(s|m|h))+$`.
///
/// # Errors
/// [`SpanError`] saying what to write instead.
pub fn positive(text: &str) -> Result<TimeDelta, SpanError> {
    match duration(text) {
        None => Err(SpanError::Form),
        Some(span) if span.is_zero() => Err(SpanError::Zero),
        Some(span) => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_policies_write_them() {
        for (text, seconds) in [("50s", 50), ("2s", 2), ("1m", 60), ("1h30m", 5400), ("1h0m1s", 3601), ("90m", 5400)] {
            assert_eq!(positive(text), Ok(TimeDelta::seconds(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for text in ["", "50", "s", "1.5h", "-1m", "+1m", "14d", "1h ", "1m30", "Never", "5ms", "h1", "99999999999999999999h"] {
            assert_eq!(positive(text), Err(SpanError::Form), "{text}");
        }
        for text in ["0s", "0h0m"] {
            assert_eq!(positive(text), Err(SpanError::Zero), "{text}");
        }
    }
}
