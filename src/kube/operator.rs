//! The operator's own writes: annotations that say what is wanted of a pass. They are conditional on the version that was
//! shown, and need no Lease: a pass reads them, and never writes them.

use std::collections::BTreeMap;

use kube::{
    api::{Patch, PatchParams},
    core::Request as Resource,
};
use serde_json::json;

use super::{
    resource::{collection, words},
    session::Session,
};
use crate::{
    api::{keys::PROGRAM, meta::Meta},
    cluster::Failure,
    rotation::effect::Target,
};

/// How such a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is stored.
    Landed,
    /// The object has changed since it was shown.
    Changed,
    /// It is gone.
    Gone,
}

impl Session {
    /// Sets annotations (`None`: removes them) of an object, if it is still the version that `seen` was.
    ///
    /// # Errors
    /// [`Failure`] where the API server refuses, or doesn't answer.
    pub async fn annotate(&self, target: &Target, seen: &Meta, annotations: &BTreeMap<&str, Option<String>>) -> Result<Written, Failure> {
        let attempted = format!("patch {}", words(target));
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": seen.resource_version, "uid": seen.uid, "annotations": annotations},
        }));
        let params = PatchParams { field_manager: Some(PROGRAM.into()), ..PatchParams::default() };
        let request = Resource::new(collection(target)).patch(&target.name, &params, &patch);
        let request = request.map_err(|error| Failure::Call { attempted: attempted.clone(), why: error.to_string() })?;
        match self.api().write(&request).await {
            Ok(_) => Ok(Written::Landed),
            Err(error) if error.code() == Some(409) => Ok(Written::Changed),
            Err(error) if error.code() == Some(404) => Ok(Written::Gone),
            Err(error) => Err(error.failure(&attempted)),
        }
    }
}
