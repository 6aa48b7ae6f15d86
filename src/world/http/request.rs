//! Reads a request: which resource, which object, what is to be done.

use std::collections::BTreeMap;

use http::{Method, header, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{
    answer::Answer,
    resource::{Key, Kind},
};

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Create,
    Patch,
    Delete,
}

/// A request, read.
#[derive(Debug)]
pub(super) struct Call {
    pub verb: Verb,
    pub kind: &'static Kind,
    /// Empty for cluster-scoped kinds, and for lists over all namespaces.
    pub namespace: String,
    /// Empty for lists and creates.
    pub name: String,
    /// Whether only the status is meant.
    pub is_status: bool,
    /// Whether only metadata is to be answered.
    pub is_partial: bool,
    /// The media type of the body.
    pub media: String,
    pub query: BTreeMap<String, String>,
    pub body: Value,
}

impl Call {
    /// Reads it.
    pub fn read(head: &Parts, body: &[u8]) -> Result<Self, Answer> {
        let (kind, namespace, name, subresource) = place(head.uri.path()).ok_or_else(Answer::nowhere)?;
        let is_status = subresource == Some("status");
        let is_misplaced = namespace.is_some() && !kind.namespaced;
        if is_misplaced || (subresource.is_some() && !(is_status && kind.has_status)) {
            return Err(Answer::unserved());
        }
        let query = query(head.uri.query().unwrap_or_default());
        let verb = match (&head.method, name) {
            (&Method::GET, None) if query.get("watch").is_none_or(|watch| watch == "false" || watch == "0") => Verb::List,
            (&Method::GET, Some(_)) => Verb::Get,
            (&Method::POST, None) if namespace.is_some() == kind.namespaced => Verb::Create,
            (&Method::PATCH, Some(_)) => Verb::Patch,
            (&Method::DELETE, Some(_)) if !is_status => Verb::Delete,
            _ => return Err(Answer::not_allowed("the server does not allow this method on the requested resource")),
        };
        let text = |name: header::HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
        let body = match body {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(|error| Answer::bad_request(format!("the body can't be read: {error}")))?,
        };
        Ok(Self {
            verb,
            kind,
            namespace: namespace.unwrap_or_default().into(),
            name: name.unwrap_or_default().into(),
            is_status,
            is_partial: text(header::ACCEPT).contains("as=PartialObjectMetadata"),
            media,
            query,
            body,
        })
    }

    /// The object that it names.
    pub fn key(&self) -> Key {
        Key::of(self.kind, &self.namespace, &self.name)
    }

    /// A parameter of the query; `None` where it is empty.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        let by_body = self.verb == Verb::Delete && self.body["dryRun"] == serde_json::json!(["All"]);
        by_body || self.parameter("dryRun") == Some("All")
    }
}

type Place<'a> = (&'static Kind, Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// Resource, namespace, name and subresource of a path.
fn place(path: &str) -> Option<Place<'_>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
        _ => return None,
    };
    Some((Kind::served(group, version, plural)?, namespace, name, subresource))
}

fn query(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(name, value)| (decoded(name), decoded(value))).collect()
}
