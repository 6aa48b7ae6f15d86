//! Reads a RotationPolicy from the API's JSON, field by field.

use serde_json::Value;

use super::Policy;

/// Reads one object; whatever is wrong with it becomes a [`super::Problem`].
pub fn policy(_object: &Value) -> Policy {
    todo!()
}
