//! Effects: single writes as data, with the condition each needs. [`apply`] judges one against a fresh copy of its
//! object and is the only place where preconditions stand (§5.2); whatever depends on the fresh copy is computed there.

use std::{collections::BTreeSet, fmt};

use chrono::TimeDelta;

use super::state::State;
use crate::api::{
    karpenter::{Node, NodeClaim, NodePool},
    pod::Pod,
    shared::Shared,
    time::Time,
};

mod condition;
mod judge;
mod patch;

pub use judge::{Ended, apply, ended, is_marked, rehearse, retry_count};
pub use patch::Patch;

/// One write on one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// NodePool: writes the anchor. Only if there is none. For a claim that had failed, `failed_at` keeps its pause:
    /// `last-failure-at = max(itself, failed_at)` in the same write.
    Anchor {
        /// The pool.
        pool: String,
        /// The claim to be rotated.
        claim: String,
        /// Now.
        at: Time,
        /// When the claim had failed before.
        failed_at: Option<Time>,
    },
    /// NodePool: anchor, mode, mirror, `draining-at` and the total of a forceful fallback in one write. Only if there is
    /// no anchor.
    StartFallback {
        /// The pool.
        pool: String,
        /// The claim to be deleted without a surge.
        claim: String,
        /// Now.
        at: Time,
        /// When the claim had failed before.
        failed_at: Option<Time>,
    },
    /// NodePool: mirrors the phase `draining`. Only while the anchor names the claim; `draining-at` and `surge-wait` once.
    MirrorDraining {
        /// The pool.
        pool: String,
        /// The claim.
        claim: String,
        /// Now.
        at: Time,
        /// How long the surge took, and on what it came; `None` leaves it unsaid.
        surge: Option<(TimeDelta, SurgePath)>,
    },
    /// NodePool: clears the anchor and all that goes with it, and decides and counts the outcome. Only while the anchor
    /// names the claim.
    Release {
        /// The pool.
        pool: String,
        /// The claim.
        claim: String,
        /// How it came to the end.
        end: End,
        /// Now.
        at: Time,
    },
    /// NodePool: notes up to when closed windows have been judged, and counts those that were missed, in one write. Only if
    /// there is no anchor and the note is still the one that was judged.
    SettleWindows {
        /// The pool.
        pool: String,
        /// The note that was judged; `None` for none.
        from: Option<String>,
        /// The new note.
        to: String,
        /// Windows missed in between.
        missed: u64,
    },
    /// NodePool: removes rotation-scoped keys that have no anchor. Only if there is no anchor.
    DropOrphans {
        /// The pool.
        pool: String,
    },
    /// NodePool: removes `written-by`. Only if there is no anchor.
    ForgetPoolWriter {
        /// The pool.
        pool: String,
    },
    /// NodeClaim: begins or re-asserts an attempt: `pending`, `started-at` once. Only from the states given, and not once
    /// it is being deleted.
    BeginAttempt {
        /// The claim.
        claim: String,
        /// The states it may be in.
        from: &'static [State],
        /// Now.
        at: Time,
    },
    /// NodeClaim: notes the claim that the placeholder brought. Only while `pending`.
    NoteSurgeClaim {
        /// The claim that is rotated.
        claim: String,
        /// The claim that came.
        induced: String,
    },
    /// NodeClaim: `draining`. Only from the states given.
    MarkDraining {
        /// The claim.
        claim: String,
        /// The states it may be in.
        from: &'static [State],
    },
    /// NodeClaim: `failed` at the end of a rollback, and one retry more. Only from `pending`.
    MarkFailed {
        /// The claim.
        claim: String,
        /// Now.
        at: Time,
    },
    /// NodeClaim: `expired`. Only from the states given, and only while it is being deleted.
    MarkExpired {
        /// The claim.
        claim: String,
        /// The states it may be in.
        from: &'static [State],
    },
    /// NodeClaim: forgets the rotation (governance lost, or refused after the anchor). Not once it drains and is deleting,
    /// and not when it is `expired`.
    ClearClaim {
        /// The claim.
        claim: String,
    },
    /// NodeClaim: `failed`, for one that is in flight without an anchor. Only from `pending` or `draining`, and only while
    /// it is not being deleted.
    SweepClaim {
        /// The claim.
        claim: String,
        /// Now.
        at: Time,
    },
    /// NodeClaim: deletes the old claim, so that Karpenter drains it. Only while it is `draining`.
    DeleteClaim {
        /// The claim.
        claim: String,
        /// Its UID.
        uid: String,
    },
    /// NodeClaim: deletes the claim that a failed attempt brought up.
    ReapClaim {
        /// The claim that came.
        claim: String,
        /// Its UID.
        uid: String,
    },
    /// Node: protects it from voluntary disruption for this rotation. Not where it belongs to another rotation.
    Freeze {
        /// The Node.
        node: String,
        /// The rotation's claim.
        claim: String,
    },
    /// Node: the same, and cordons it in the same write, unless it is cordoned already.
    Hold {
        /// The Node.
        node: String,
        /// The rotation's claim.
        claim: String,
    },
    /// Node: removes what is ours. Only where it belongs to the owner meant.
    Restore {
        /// The Node.
        node: String,
        /// Whose marks to remove.
        owner: Owner,
    },
    /// Pod: creates the placeholder. Only if none with its name exists.
    CreatePlaceholder {
        /// The Pod to create, whole.
        pod: Shared<Pod>,
        /// The rotation's claim.
        claim: String,
    },
    /// Pod: deletes a placeholder.
    DeletePlaceholder {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The rotation's claim, which its annotation must name.
        claim: String,
    },
}

/// Where the surge found its room (`surge-path`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurgePath {
    /// On a node that came after the attempt began.
    Provisioned,
    /// On one that was there.
    Absorbed,
}

impl SurgePath {
    /// As it stands in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioned => "provisioned",
            Self::Absorbed => "absorbed",
        }
    }
}

/// How a rotation came to the end that a [`Effect::Release`] counts (§7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The claim is gone: success if the mirror says `draining`, else force-expiry.
    Gone,
    /// The claim is marked `expired`.
    Expired,
    /// The claim is `failed` and that is not accounted yet.
    Failed {
        /// Its `failed-at`.
        failed_at: Time,
    },
    /// The claim is `failed`, accounted, and no retry is due: only the anchor goes.
    NoRetry,
    /// A refusal after the anchor, governance lost, or an anchor that names nothing of this pool: no outcome.
    WithoutOutcome,
}

/// Whose marks a [`Effect::Restore`] removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Those of this rotation.
    Claim(String),
    /// Those of rotations that are not in flight: anyone but these.
    NoneOf(BTreeSet<String>),
}

/// The kind of an object that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `karpenter.sh/v1` NodePool.
    NodePool,
    /// `karpenter.sh/v1` NodeClaim.
    NodeClaim,
    /// `v1` Node.
    Node,
    /// `v1` Pod.
    Pod,
}

/// The object that an effect is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A fresh copy of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Fresh {
    /// A NodePool.
    NodePool(Shared<NodePool>),
    /// A NodeClaim.
    NodeClaim(Shared<NodeClaim>),
    /// A Node.
    Node(Shared<Node>),
    /// A Pod.
    Pod(Shared<Pod>),
}

/// What is to be done with the fresh copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Send this merge patch; it carries `metadata.resourceVersion`.
    Patch(Patch),
    /// Create this Pod.
    Create(Shared<Pod>),
    /// Delete it, if it still has this UID.
    Delete {
        /// The UID to meet.
        uid: String,
    },
    /// It is already so.
    Already,
    /// The precondition does not hold; why.
    NotMine(String),
    /// There is no such object.
    Gone,
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The write is done, by us.
    Landed {
        /// What a NodePool was before, of a release at least: what that has counted is told from it.
        before: Option<Shared<NodePool>>,
        /// The object after; `None` when it is gone.
        after: Option<Fresh>,
    },
    /// It was so already.
    Already,
    /// The precondition no longer holds; why.
    Raced(String),
    /// The object is gone.
    Gone,
    /// The API server refuses it for good.
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's words.
        words: String,
    },
}

impl Outcome {
    /// The write is done, by us, on what was so before and is so after.
    pub fn landed(before: Option<Fresh>, after: Option<Fresh>) -> Self {
        Self::Landed { before: before.and_then(Fresh::pool), after }
    }
}

impl Fresh {
    /// The NodePool, where it is one.
    pub fn pool(self) -> Option<Shared<NodePool>> {
        if let Self::NodePool(pool) = self { Some(pool) } else { None }
    }
}

impl Effect {
    /// The object it is on.
    pub fn target(&self) -> Target {
        let cluster = |kind, name: &str| Target { kind, namespace: String::new(), name: name.into() };
        match self {
            Self::Anchor { pool, .. }
            | Self::StartFallback { pool, .. }
            | Self::MirrorDraining { pool, .. }
            | Self::Release { pool, .. }
            | Self::SettleWindows { pool, .. }
            | Self::DropOrphans { pool }
            | Self::ForgetPoolWriter { pool } => cluster(Kind::NodePool, pool),
            Self::BeginAttempt { claim, .. }
            | Self::NoteSurgeClaim { claim, .. }
            | Self::MarkDraining { claim, .. }
            | Self::MarkFailed { claim, .. }
            | Self::MarkExpired { claim, .. }
            | Self::ClearClaim { claim }
            | Self::SweepClaim { claim, .. }
            | Self::DeleteClaim { claim, .. }
            | Self::ReapClaim { claim, .. } => cluster(Kind::NodeClaim, claim),
            Self::Freeze { node, .. } | Self::Hold { node, .. } | Self::Restore { node, .. } => cluster(Kind::Node, node),
            Self::CreatePlaceholder { pod, .. } => Target {
                kind: Kind::Pod,
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name: pod.metadata.name.clone().unwrap_or_default(),
            },
            Self::DeletePlaceholder { namespace, name, .. } => Target { kind: Kind::Pod, namespace: namespace.clone(), name: name.clone() },
        }
    }
}

impl fmt::Display for Effect {
    /// One line for people: what is done, on what.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anchor { pool, claim, .. } => {
                write!(formatter, "NodePool {pool}: anchor the rotation of {claim}, if nothing is anchored")
            }
            Self::StartFallback { pool, claim, .. } => {
                write!(formatter, "NodePool {pool}: anchor the forceful fallback of {claim}, if nothing is anchored")
            }
            Self::MirrorDraining { pool, claim, .. } => write!(formatter, "NodePool {pool}: note that {claim} drains"),
            Self::Release { pool, claim, .. } => write!(formatter, "NodePool {pool}: release the anchor on {claim} and count the outcome"),
            Self::SettleWindows { pool, missed, .. } => {
                write!(formatter, "NodePool {pool}: note that closed windows are judged, {missed} missed")
            }
            Self::DropOrphans { pool } => write!(formatter, "NodePool {pool}: remove leftovers of a rotation"),
            Self::ForgetPoolWriter { pool } => write!(formatter, "NodePool {pool}: remove the signature of the last pass"),
            Self::BeginAttempt { claim, .. } => write!(formatter, "NodeClaim {claim}: pending, with the start of the attempt"),
            Self::NoteSurgeClaim { claim, induced } => write!(formatter, "NodeClaim {claim}: note that {induced} came for it"),
            Self::MarkDraining { claim, .. } => write!(formatter, "NodeClaim {claim}: draining"),
            Self::MarkFailed { claim, .. } => write!(formatter, "NodeClaim {claim}: failed, one retry more"),
            Self::MarkExpired { claim, .. } => write!(formatter, "NodeClaim {claim}: expired, if it is being deleted"),
            Self::ClearClaim { claim } => write!(formatter, "NodeClaim {claim}: forget the rotation"),
            Self::SweepClaim { claim, .. } => write!(formatter, "NodeClaim {claim}: failed, since no anchor names it"),
            Self::DeleteClaim { claim, .. } => write!(formatter, "NodeClaim {claim}: delete, so that it drains"),
            Self::ReapClaim { claim, .. } => write!(formatter, "NodeClaim {claim}: delete, since the attempt that brought it failed"),
            Self::Freeze { node, .. } => write!(formatter, "Node {node}: protect from voluntary disruption"),
            Self::Hold { node, .. } => {
                write!(formatter, "Node {node}: protect from voluntary disruption, and cordon unless it is cordoned")
            }
            Self::Restore { node, .. } => write!(formatter, "Node {node}: remove our marks, cordon and protection"),
            Self::CreatePlaceholder { claim, .. } => write!(formatter, "Pod: create the placeholder for {claim}"),
            Self::DeletePlaceholder { name, .. } => write!(formatter, "Pod {name}: delete the placeholder"),
        }
    }
}
