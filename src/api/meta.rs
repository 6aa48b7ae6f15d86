//! The part of `metadata` that is used, the same for every kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    keys,
    shared::Shared,
    time::{Time, parse_annotation},
};

/// An object's metadata. Fields that are not used are dropped on reading, and never written back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The object's name.
    pub name: String,
    /// Its namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its UID, by which a delete makes sure that it meets the object it means.
    pub uid: String,
    /// Its version, by which a conditional write makes sure that nobody wrote in between.
    pub resource_version: String,
    /// Its generation: counts changes of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When its deletion was asked for, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Its labels.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_is_empty")]
    pub labels: Shared<BTreeMap<String, String>>,
    /// Its annotations.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_is_empty")]
    pub annotations: Shared<BTreeMap<String, String>>,
}

fn is_empty(list: &BTreeMap<String, String>) -> bool {
    list.is_empty()
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shared<BTreeMap<String, String>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What an annotation that should hold an instant says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// There is none.
    Absent,
    /// It names this instant.
    At(Time),
    /// It can't be read.
    Unreadable,
}

impl Stamp {
    /// The instant, where there is a readable one.
    pub fn time(self) -> Option<Time> {
        match self {
            Self::At(time) => Some(time),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

impl Meta {
    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// The instant that an annotation names.
    pub fn stamp(&self, key: &str) -> Stamp {
        match self.annotation(key) {
            None => Stamp::Absent,
            Some(text) => parse_annotation(text).map_or(Stamp::Unreadable, Stamp::At),
        }
    }

    /// Whether it carries an annotation of ours.
    pub fn is_annotated(&self) -> bool {
        self.annotations.keys().any(|key| key.starts_with(keys::PREFIX))
    }

    /// Whether its deletion has been asked for.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}
