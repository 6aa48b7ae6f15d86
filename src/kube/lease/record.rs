//! A Lease's record, and whether it is free: judged by the server's clock and the record's own duration.

use std::fmt;

use chrono::TimeDelta;
use serde_json::Value;

use super::{DURATION, LastPass};
use crate::api::{
    keys::{LAST_PASS, PROGRAM},
    time::{Time, later, parse_annotation, to_annotation},
};

/// Someone else's hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Who holds it.
    pub by: String,
    /// Since when.
    pub since: Option<Time>,
    /// When it expires unless it is renewed.
    pub expires: Option<Time>,
    /// What is wrong with the record, if anything: then nobody can tell from it when it expires.
    pub oddity: Option<String>,
    /// The namespace it is in.
    pub namespace: String,
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the Lease is held by {}", self.by)?;
        if let Some(since) = self.since {
            write!(formatter, " since {}", to_annotation(since))?;
        }
        if let Some(expires) = self.expires {
            write!(formatter, ", until {} unless renewed", to_annotation(expires))?;
        }
        match &self.oddity {
            Some(oddity) => write!(
                formatter,
                "; {oddity}; a run that waits (--wait-for-lease) takes it once nobody has written it for its duration; or, if {} \
                 is not at work, `kubectl delete lease {PROGRAM} --namespace {}`",
                self.by, self.namespace
            ),
            None => Ok(()),
        }
    }
}

/// A Lease as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The namespace it is in.
    pub namespace: String,
    /// Its `resourceVersion`.
    pub version: String,
    /// Who holds it; empty: nobody.
    pub holder: String,
    /// `acquireTime`.
    pub acquired: Option<Time>,
    /// When it was last renewed: `renewTime`, else `acquireTime`, else when it was created; `Err` with what stands there
    /// where that can't be read.
    pub renewed: Result<Option<Time>, String>,
    /// How long a renewal lasts: the record's own `leaseDurationSeconds`, ours where that is absent or makes no sense.
    pub duration: TimeDelta,
    /// How often it has changed hands.
    pub transitions: i64,
    /// The finalizers that hold it, where it is being deleted.
    pub ending: Option<Vec<String>>,
    /// How the last pass ended that gave it back.
    pub last: Option<LastPass>,
}

/// A record that lasts longer isn't one of a pass; whatever wrote it would stop all passes for as long.
const LONGEST: TimeDelta = TimeDelta::days(1);

impl Record {
    /// Reads it, leniently: there is no record that stops a pass from telling who holds it.
    pub fn read(lease: &Value) -> Self {
        let (metadata, spec) = (&lease["metadata"], &lease["spec"]);
        let seconds = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds > 0).and_then(TimeDelta::try_seconds);
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten().map(text).collect();
        let stamp = [&spec["renewTime"], &spec["acquireTime"], &metadata["creationTimestamp"]].into_iter().find(|stamp| !stamp.is_null());
        Self {
            namespace: text(&metadata["namespace"]),
            version: text(&metadata["resourceVersion"]),
            holder: text(&spec["holderIdentity"]),
            acquired: time(&spec["acquireTime"]),
            renewed: stamp.map(|stamp| time(stamp).ok_or_else(|| stamp.to_string())).transpose(),
            duration: seconds.filter(|seconds| *seconds <= LONGEST).unwrap_or(DURATION),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
            last: metadata["annotations"][LAST_PASS].as_str().and_then(LastPass::read),
            ending: (!metadata["deletionTimestamp"].is_null()).then_some(finalizers),
        }
    }

    /// `None` where it is free: without a holder, or not renewed for its own duration.
    pub fn held(&self, now: Time) -> Option<Held> {
        if self.holder.is_empty() {
            return None;
        }
        let (by, namespace) = (self.holder.clone(), self.namespace.clone());
        let held = |expires, oddity| Some(Held { by, since: self.acquired, expires, oddity, namespace });
        let renewed = match &self.renewed {
            Ok(Some(renewed)) => *renewed,
            // The API server always sets creationTimestamp.
            Ok(None) => return None,
            Err(stamp) => return held(None, Some(format!("its renewal {stamp} can't be read"))),
        };
        let expires = later(renewed, self.duration);
        if renewed > later(now, self.duration) {
            let oddity = format!("its renewal {} lies in the future: the holder's clock is wrong", to_annotation(renewed));
            return held(Some(expires), Some(oddity));
        }
        if now < expires { held(Some(expires), None) } else { None }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value) -> Option<Time> {
    value.as_str().and_then(parse_annotation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    fn record(spec: Value) -> Record {
        Record::read(&json!({"metadata": {"resourceVersion": "7", "creationTimestamp": "2026-11-30T06:00:00Z"}, "spec": spec}))
    }

    fn held_until(spec: Value, now: &str) -> Option<Option<Time>> {
        record(spec).held(at(now)).map(|held| held.expires)
    }

    #[test]
    fn a_record_is_held_until_its_own_duration_after_the_renewal() {
        let spec = json!({"holderIdentity": "b", "renewTime": "2026-11-30T07:00:00.000000Z", "leaseDurationSeconds": 15});
        assert_eq!(held_until(spec.clone(), "2026-11-30T07:00:14.999Z"), Some(Some(at("2026-11-30T07:00:15Z"))));
        assert_eq!(held_until(spec, "2026-11-30T07:00:15Z"), None);
    }

    #[test]
    fn a_record_without_duration_has_ours_and_without_renewal_counts_from_acquisition_or_creation() {
        let renewed = json!({"holderIdentity": "b", "renewTime": "2026-11-30T07:00:00Z"});
        assert_eq!(held_until(renewed, "2026-11-30T07:00:01Z"), Some(Some(at("2026-11-30T07:00:20Z"))));
        let acquired = json!({"holderIdentity": "b", "acquireTime": "2026-11-30T07:00:00Z", "leaseDurationSeconds": 0});
        assert_eq!(held_until(acquired, "2026-11-30T07:00:01Z"), Some(Some(at("2026-11-30T07:00:20Z"))));
        assert_eq!(held_until(json!({"holderIdentity": "b"}), "2026-11-30T06:00:19Z"), Some(Some(at("2026-11-30T06:00:20Z"))));
        assert_eq!(held_until(json!({"holderIdentity": "b"}), "2026-11-30T06:00:20Z"), None);
    }

    #[test]
    fn a_duration_that_makes_no_sense_is_ours() {
        for seconds in [json!(null), json!(0), json!(-5), json!(2_147_483_647), json!(u64::MAX), json!("20"), json!(1.5), json!({})] {
            let spec = json!({"holderIdentity": "b", "renewTime": "2026-11-30T07:00:00Z", "leaseDurationSeconds": seconds});
            assert_eq!(held_until(spec, "2026-11-30T07:00:01Z"), Some(Some(at("2026-11-30T07:00:20Z"))), "{seconds}");
        }
        let a_day = json!({"holderIdentity": "b", "renewTime": "2026-11-30T07:00:00Z", "leaseDurationSeconds": 86_400});
        assert_eq!(held_until(a_day, "2026-11-30T08:00:00Z"), Some(Some(at("2026-12-01T07:00:00Z"))));
    }

    #[test]
    fn times_are_read_in_whatever_form_they_were_written() {
        for renewed in [
            "2026-11-30T07:00:00.500000Z",
            "2026-11-30T07:00:00.5Z",
            "2026-11-30T07:00:00.500000000Z",
            "2026-11-30T08:00:00.500+01:00",
            "2026-11-30t07:00:00.5z",
        ] {
            let spec = json!({"holderIdentity": "b", "renewTime": renewed, "leaseDurationSeconds": 20});
            assert_eq!(held_until(spec, "2026-11-30T07:00:01Z"), Some(Some(at("2026-11-30T07:00:20.5Z"))), "{renewed}");
        }
    }

    #[test]
    fn a_renewal_that_is_null_counts_from_acquisition() {
        let spec = json!({"holderIdentity": "b", "renewTime": null, "acquireTime": "2026-11-30T07:00:00Z"});
        assert_eq!(held_until(spec, "2026-11-30T07:00:01Z"), Some(Some(at("2026-11-30T07:00:20Z"))));
    }

    #[test]
    fn a_record_without_holder_is_free_whatever_its_times() {
        assert_eq!(held_until(json!({"holderIdentity": "", "renewTime": "2026-11-30T07:00:00Z"}), "2026-11-30T07:00:00Z"), None);
        assert_eq!(held_until(json!({}), "2026-11-30T07:00:00Z"), None);
        assert_eq!(Record::read(&Value::Null).held(at("2026-11-30T07:00:00Z")), None);
    }

    #[test]
    fn a_record_that_makes_no_sense_is_held_and_says_so() {
        let unreadable = record(json!({"holderIdentity": "b", "renewTime": "soon"})).held(at("2026-11-30T07:00:00Z")).unwrap();
        assert_eq!(unreadable.oddity.as_deref(), Some("its renewal \"soon\" can't be read"));
        let future = record(json!({"holderIdentity": "b", "renewTime": "2026-11-30T08:00:00Z"})).held(at("2026-11-30T07:00:00Z")).unwrap();
        assert_eq!(future.oddity.as_deref(), Some("its renewal 2026-11-30T08:00:00Z lies in the future: the holder's clock is wrong"));
    }
}
