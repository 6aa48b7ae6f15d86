//! The grouping key under which a Pushgateway keeps what is pushed: `job="noderotation"` and the operator's labels. A
//! label that our own series carry would make the gateway refuse every push, so those names are refused at the start.

use std::{fmt::Write, str::FromStr};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::metrics::reserved_labels;

/// Everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One label of the grouping key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    name: String,
    value: String,
}

/// Why a grouping label can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no `=` in it.
    #[error("{0:?} is not NAME=VALUE, such as cluster=blue")]
    NotAPair(String),
    /// Prometheus allows no label of this name.
    #[error("{0:?} is not a label name: it needs letters, digits and `_`, no digit first, no leading `__`")]
    Name(String),
    /// Our own series carry it.
    #[error("the label {0:?} is taken by the program's own series; reserved are: {reserved}", reserved = reserved_labels().join(", "))]
    Reserved(String),
    /// It is given twice.
    #[error("the label {0:?} is given twice; each may be given once, and reserved are: {reserved}", reserved = reserved_labels().join(", "))]
    Repeated(String),
}

impl FromStr for Grouping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, value) = text.split_once('=').ok_or_else(|| Error::NotAPair(text.into()))?;
        let mut characters = name.chars();
        let starts_well = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        if !starts_well || name.starts_with("__") || !characters.all(|rest| rest.is_ascii_alphanumeric() || rest == '_') {
            return Err(Error::Name(name.into()));
        }
        if reserved_labels().contains(&name) {
            return Err(Error::Reserved(name.into()));
        }
        Ok(Self { name: name.into(), value: value.into() })
    }
}

/// Makes sure that no label is given twice.
///
/// # Errors
/// [`Error::Repeated`] with the first that is.
pub fn check_distinct(labels: &[Grouping]) -> Result<(), Error> {
    let repeated = labels.iter().enumerate().find(|(index, label)| labels[..*index].iter().any(|earlier| earlier.name == label.name));
    repeated.map_or(Ok(()), |(_, label)| Err(Error::Repeated(label.name.clone())))
}

/// The path of the group under the gateway's address, without a leading slash.
pub fn path(job: &str, labels: &[Grouping]) -> String {
    let mut path = format!("metrics/job/{}", utf8_percent_encode(job, ENCODED));
    for Grouping { name, value } in labels {
        // Writing to a String can't fail.
        let _ = match value.as_str() {
            // The gateway reads a single padding sign as the empty value, which has no place in a path otherwise.
            "" => write!(path, "/{name}@base64/="),
            // A slash would split the path even encoded, and dot segments are resolved away, encoded or not.
            value if value.contains('/') || value == "." || value == ".." => {
                write!(path, "/{name}@base64/{}", BASE64_URL_SAFE_NO_PAD.encode(value))
            }
            value => write!(path, "/{name}/{}", utf8_percent_encode(value, ENCODED)),
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Vec<Grouping> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn values_reach_the_gateway_whatever_they_contain() {
        let path = path("noderotation", &labels(&["cluster=blue", "where=a b%=é", "zone=eu/1", "none=", "dot=..", "_x1=v1.2-3_4~5"]));
        assert_eq!(
            path,
            "metrics/job/noderotation/cluster/blue/where/a%20b%25%3D%C3%A9/zone@base64/ZXUvMQ/none@base64/=/dot@base64/Li4/_x1/v1.2-3_4~5"
        );
    }

    #[test]
    fn names_of_our_own_series_are_refused_and_listed() {
        for name in reserved_labels() {
            let error = format!("{name}=x").parse::<Grouping>().unwrap_err();
            assert_eq!(error, Error::Reserved(name.into()));
            assert!(error.to_string().ends_with("reserved are: job, le, nodepool, outcome, phase, stage, version"), "{error}");
        }
    }

    #[test]
    fn names_that_are_no_label_names_are_refused() {
        for name in ["", "1a", "a-b", "a.b", "__meta", "é", "a b"] {
            assert_eq!(format!("{name}=x").parse::<Grouping>(), Err(Error::Name(name.into())));
        }
        assert_eq!("cluster".parse::<Grouping>(), Err(Error::NotAPair("cluster".into())));
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        assert_eq!(check_distinct(&labels(&["a=1", "b=1"])), Ok(()));
        assert_eq!(check_distinct(&labels(&["a=1", "b=1", "a=2"])), Err(Error::Repeated("a".into())));
    }
}
