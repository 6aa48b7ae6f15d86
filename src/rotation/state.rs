//! The state of a claim's rotation, as its annotation says.

use crate::api::{keys, meta::Meta};

/// Where a claim's rotation is (§5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Not rotated, or never yet. Also what an unknown value counts as.
    None,
    /// Waiting for its surge.
    Pending,
    /// Deleted by us, draining.
    Draining,
    /// An attempt failed; it may be tried again after its backoff.
    Failed,
    /// Someone else deleted it first; terminal.
    Expired,
}

impl State {
    /// Reads it from the claim's annotations.
    pub fn of(claim: &Meta) -> Self {
        match claim.annotation(keys::STATE) {
            Some("pending") => Self::Pending,
            Some("draining") => Self::Draining,
            Some("failed") => Self::Failed,
            Some("expired") => Self::Expired,
            _ => Self::None,
        }
    }

    /// As it stands in the annotation; empty for none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Pending => "pending",
            Self::Draining => "draining",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}
