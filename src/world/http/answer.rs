//! Answers as the API server words them.

use serde_json::{Value, json};

use super::resource::Kind;

/// A status code and its body; a text is sent as it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// It is done, or this is it.
    pub fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    /// It is there from now on.
    pub fn created(body: Value) -> Self {
        Self { code: 201, body }
    }

    /// The object was deleted, and nothing of it is left to show.
    pub fn deleted(kind: &Kind, name: &str, uid: &Value) -> Self {
        let mut details = details(kind, name);
        details["uid"] = uid.clone();
        Self::ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}))
    }

    /// An error.
    pub fn failure(code: u16, reason: &str, message: String, details: Value) -> Self {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if !details.is_null() {
            body["details"] = details;
        }
        Self { code, body }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message.into(), Value::Null)
    }

    /// Nobody serves this path.
    pub fn nowhere() -> Self {
        Self { code: 404, body: Value::String("404 page not found\n".into()) }
    }

    /// The object has no such part.
    pub fn unserved() -> Self {
        Self::failure(404, "NotFound", "the server could not find the requested resource".into(), json!({}))
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{} \"{name}\" not found", kind.words()), details(kind, name))
    }

    pub fn exists(kind: &Kind, name: &str, is_going: bool) -> Self {
        let prefix = if is_going { "object is being deleted: " } else { "" };
        Self::failure(409, "AlreadyExists", format!("{prefix}{} \"{name}\" already exists", kind.words()), details(kind, name))
    }

    /// A delete that means another object, or another version of it.
    pub fn unmet(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::failure(409, "Conflict", message, details(kind, name))
    }

    pub fn stale(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.words());
        Self::failure(409, "Conflict", message, details(kind, name))
    }

    /// Admission refuses it, in these words.
    pub fn forbidden(kind: &Kind, name: &str, message: &str) -> Self {
        Self::failure(403, "Forbidden", message.into(), details(kind, name))
    }

    /// A field that can't be stored, and why not.
    pub fn invalid(kind: &Kind, name: &str, field: &str, why: &str) -> Self {
        let mut details = details(kind, name);
        details["kind"] = json!(kind.kind);
        details["causes"] = json!([{"reason": "FieldValueInvalid", "message": why, "field": field}]);
        Self::failure(422, "Invalid", format!("{} \"{name}\" is invalid: {field}: {why}", kind.qualified()), details)
    }

    /// A continuation that has expired; `again` continues with what is there now.
    pub fn expired(again: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
                       the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
                       Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
                       deleted between the time the first chunk was returned and now may show up in the list.";
        let mut answer = Self::failure(410, "Expired", message.into(), Value::Null);
        answer.body["metadata"]["continue"] = json!(again);
        answer
    }

    /// Nothing serves this; the real API server may do it where the embedded world can't. `why` tells.
    pub fn not_allowed(why: &str) -> Self {
        Self::failure(405, "MethodNotAllowed", why.into(), json!({}))
    }

    pub fn unsupported_media() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: application/merge-patch+json";
        Self::failure(415, "UnsupportedMediaType", message.into(), json!({}))
    }
}

fn details(kind: &Kind, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details
}
