//! Does the API server serve what is needed, and may we read it? The lists themselves prove it in a pass; for a command of
//! the operator, one short list of each resource does. All of discovery is never walked.

use http::Request;
use kube::{api::ListParams, core::Request as Resource};

use super::{
    call::{Api, CallError},
    resource::{NODECLAIMS, NODEPOOLS, POLICIES},
};

/// What is needed, and what it means when it is missing.
const NEEDED: [(&str, &str, &str); 3] = [
    (NODEPOOLS, "nodepools.karpenter.sh/v1", "is Karpenter v1 installed?"),
    (NODECLAIMS, "nodeclaims.karpenter.sh/v1", "is Karpenter v1 installed?"),
    (POLICIES, "rotationpolicies.noderotation.io/v1alpha1", "apply the CRD that `noderotation crd` prints"),
];

/// Why a pass can't begin. The message tells the whole cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// The API server doesn't know the resource.
    #[error("the API server does not serve {resource}: {hint} (it says: {words})")]
    NotServed {
        /// The resource, as `plural.group/version`.
        resource: &'static str,
        /// What to do.
        hint: &'static str,
        /// The server's words.
        words: String,
    },
    /// We may not read it.
    #[error("the verb `list` on {resource} is not allowed (the API server says: {words})")]
    Forbidden {
        /// The resource.
        resource: &'static str,
        /// The server's words.
        words: String,
    },
    /// The API server does not know who we are.
    #[error("the API server does not accept the credentials (it says: {words})")]
    Unauthorized {
        /// The server's words.
        words: String,
    },
    /// Nobody answers, or with an error.
    #[error("list {resource}: {cause}")]
    Unreachable {
        /// The resource.
        resource: &'static str,
        /// Why.
        cause: CallError,
    },
}

/// Proves that a pass can begin, and sets the clock.
///
/// # Errors
/// [`PreflightError`] for the first resource that is missing.
pub async fn preflight(api: &Api) -> Result<(), PreflightError> {
    let [pools, claims, policies] = NEEDED.map(|(path, resource, hint)| prove(api, path, resource, hint));
    let proofs = futures::join!(pools, claims, policies);
    proofs.0.and(proofs.1).and(proofs.2)?;
    api.clock.warn_if_local();
    Ok(())
}

async fn prove(api: &Api, path: &str, resource: &'static str, hint: &'static str) -> Result<(), PreflightError> {
    let request = one_item(path).map_err(|error| PreflightError::Unreachable { resource, cause: CallError::Broken(error.to_string()) })?;
    api.read(&request).await.map(drop).map_err(|error| PreflightError::of(error, resource, hint))
}

/// What the failure of a list says of whether a pass can begin; `None` where it is a list of something else, or the
/// failure is of the moment.
pub fn verdict(path: &str, error: &CallError) -> Option<PreflightError> {
    let (_, resource, hint) = NEEDED.into_iter().find(|(needed, _, _)| *needed == path)?;
    let error = PreflightError::of(error.clone(), resource, hint);
    (!matches!(error, PreflightError::Unreachable { .. })).then_some(error)
}

impl PreflightError {
    fn of(error: CallError, resource: &'static str, hint: &'static str) -> Self {
        match error {
            CallError::Status { code: 404, words, .. } => Self::NotServed { resource, hint, words },
            CallError::Status { code: 403, words, .. } => Self::Forbidden { resource, words },
            CallError::Status { code: 401, words, .. } => Self::Unauthorized { words },
            cause => Self::Unreachable { resource, cause },
        }
    }
}

fn one_item(path: &str) -> Result<Request<Vec<u8>>, kube::core::request::Error> {
    Resource::new(path).list_metadata(&ListParams::default().limit(1))
}

#[cfg(test)]
mod tests;
