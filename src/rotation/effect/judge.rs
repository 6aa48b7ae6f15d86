//! The preconditions: what each effect does with a fresh copy of its object.

use super::{Effect, End, Fresh, Verdict};
use crate::api::{karpenter::NodePool, keys, meta::Meta};

mod claim;
mod node;
mod pod;
mod pool;

pub use claim::retry_count;
pub use node::is_marked;

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
pub fn apply(effect: &Effect, fresh: Option<&Fresh>, pass: &str) -> Verdict {
    match fresh {
        None => absent(effect),
        Some(Fresh::NodePool(fresh)) => pool::judge(effect, fresh, pass),
        Some(Fresh::NodeClaim(fresh)) => claim::judge(effect, fresh, pass),
        Some(Fresh::Node(fresh)) => node::judge(effect, fresh),
        Some(Fresh::Pod(fresh)) => pod::judge(effect, fresh),
    }
}

/// Judges an effect for a dry run, before its rotation has begun: as [`apply`], but the claim need not be `draining` yet
/// for its deletion to be tried.
pub fn rehearse(effect: &Effect, fresh: Option<&Fresh>, pass: &str) -> Verdict {
    match (effect, fresh) {
        (Effect::DeleteClaim { uid, .. }, Some(Fresh::NodeClaim(claim))) if claim.metadata.uid == *uid && !claim.metadata.is_deleting() => {
            Verdict::Delete { uid: uid.clone() }
        }
        _ => apply(effect, fresh, pass),
    }
}

/// What the release of this pool's anchor counts as: an unaccounted failure, else an expired claim, else success where
/// the mirror says that the claim was draining, else force-expiry (§7).
pub fn ended(pool: &NodePool, end: End) -> Ended {
    match end {
        End::Failed { .. } => Ended::Failure,
        End::Expired => Ended::Expired,
        End::Gone if pool::is_draining(&pool.metadata) => Ended::Success,
        End::Gone => Ended::Expired,
        End::NoRetry | End::WithoutOutcome => Ended::Nothing,
    }
}

fn absent(effect: &Effect) -> Verdict {
    match effect {
        Effect::CreatePlaceholder { pod, .. } => Verdict::Create(pod.clone()),
        _ => Verdict::Gone,
    }
}

/// The effect's kind and the object's do not fit: a bug, answered by doing nothing.
fn misdirected(effect: &Effect, kind: &str) -> Verdict {
    Verdict::NotMine(format!("{effect}: not a write on a {kind}"))
}

/// Whether the pass with this id wrote the object last.
fn is_signed(meta: &Meta, pass: &str) -> bool {
    meta.annotation(keys::WRITTEN_BY) == Some(pass)
}
