//! The preconditions: what each effect does with a fresh copy of its object.

use super::{Effect, End, Fresh, Verdict};
use crate::api::karpenter::NodePool;

/// What a released anchor counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The node was rotated.
    Success,
    /// An attempt failed.
    Failure,
    /// The claim was deleted by someone else.
    Expired,
    /// Nothing is counted.
    Nothing,
}

/// Judges an effect against a fresh copy of its object (`None`: there is no such object), for the pass with this id.
pub fn apply(_effect: &Effect, _fresh: Option<&Fresh>, _pass: &str) -> Verdict {
    Verdict::Already
}

/// What the release of this pool's anchor counts as (§7).
pub fn ended(_pool: &NodePool, _end: End) -> Ended {
    Ended::Nothing
}
