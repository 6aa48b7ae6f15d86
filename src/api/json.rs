//! JSON into types; what is wrong comes with the field's path.
//!
//! Kubernetes' own types are large, and the code that reads one is made anew for every kind of source. So everything is read
//! from a [`Value`], with its path followed: by one piece of code a type. The few types that a pass reads by the thousand are
//! read from text besides ([`direct`]).

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Track};

/// Why an object can't be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Unreadable {
    /// The field; `.` where it is no JSON at all.
    pub path: Path,
    /// What is wrong with it.
    pub why: String,
}

/// Reads an object of any type.
///
/// # Errors
/// [`Unreadable`].
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    let value = serde_json::from_slice(text).map_err(|error| Unreadable { path: Track::new().path(), why: error.to_string() });
    from_value(&value?)
}

/// The same from a value.
///
/// # Errors
/// [`Unreadable`].
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Unreadable> {
    serde_path_to_error::deserialize(value).map_err(|error| Unreadable { path: error.path().clone(), why: error.into_inner().to_string() })
}

/// Reads an object of a type that is read so often that code of its own is worth its size.
///
/// # Errors
/// [`Unreadable`].
pub fn direct<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(text).or_else(|_| from_slice(text))
}

#[cfg(test)]
mod tests {
    use crate::api::pod::Pod;
    use serde_json::json;

    use super::*;
    use crate::api::karpenter::NodeClaim;

    #[test]
    fn whatever_it_is_read_from_an_object_is_the_same() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}});
        let expected: Pod = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!(from_value::<Pod>(&pod).unwrap(), expected);
        assert_eq!(from_slice::<Pod>(pod.to_string().as_bytes()).unwrap(), expected);
        let claim = json!({"metadata": {"name": "a"}, "spec": {"expireAfter": "1h", "unknown": [1]}, "status": {"capacity": {"cpu": 8}}});
        let expected: NodeClaim = serde_json::from_value(claim.clone()).unwrap();
        assert_eq!(from_value::<NodeClaim>(&claim).unwrap(), expected);
        assert_eq!(direct::<NodeClaim>(claim.to_string().as_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_comes_with_its_path() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app"}, {"name": 7}]}});
        let words = "spec.containers[1].name: invalid type: integer `7`, expected a string";
        assert_eq!(from_value::<Pod>(&pod).unwrap_err().to_string(), words);
        assert_eq!(from_slice::<Pod>(pod.to_string().as_bytes()).unwrap_err().to_string(), words);
        let claim = direct::<NodeClaim>(br#"{"spec": {"expireAfter": 3}}"#).unwrap_err().to_string();
        assert_eq!(claim, "spec.expireAfter: invalid type: integer `3`, expected a string");
    }

    #[test]
    fn nothing_may_follow_an_object_nor_be_missing_of_it() {
        for (text, words) in [
            (r#"{"metadata":{}} x"#, ".: trailing characters at line 1 column 17"),
            (r#"{"metadata":{"name":"a""#, ".: EOF while parsing an object at line 1 column 23"),
        ] {
            assert_eq!(from_slice::<Pod>(text.as_bytes()).unwrap_err().to_string(), words);
            assert_eq!(direct::<NodeClaim>(text.as_bytes()).unwrap_err().to_string(), words);
        }
    }
}
