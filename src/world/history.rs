//! What happened in a world, in order.

use serde::{Serialize, Serializer};

use crate::api::time::Time;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub at: Time,
    /// In which NodePool.
    pub pool: String,
    /// To which NodeClaim; empty where it is the pool's own.
    pub claim: String,
    /// What.
    pub event: Event,
    /// For people; may be empty.
    pub detail: String,
}

/// A condition that passes met, by the reason of its Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// How many passes of those that were made met it.
    pub passes: u64,
    /// When the first of them did.
    pub first: Time,
    /// Its words then.
    pub words: String,
}

/// The NodeClaim that a notice's message names first; empty for none.
pub fn claim_named(message: &str) -> &str {
    let mut words = message.split_whitespace().skip_while(|word| *word != "NodeClaim");
    words.nth(1).unwrap_or_default().trim_end_matches([',', '.', ':'])
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Karpenter made a NodeClaim.
    Launched,
    /// No instance was to be had, and the NodeClaim went.
    LaunchFailed,
    /// Its Node is Ready.
    Ready,
    /// Karpenter deleted it at its deadline: the forceful path that rotations avoid.
    Expired,
    /// Karpenter removed it, since it was empty.
    Consolidated,
    /// What was left on it was ended by force, at the end of its terminationGracePeriod.
    Forced,
    /// It is gone.
    Gone,
    /// Somebody else deleted it.
    Deleted,
    /// A rotation of it started.
    Started,
    /// Its surge was Ready, and it was deleted and drains.
    Draining,
    /// It was deleted in the window without a surge.
    Fallback,
    /// Its rotation came to its end.
    Completed,
    /// An attempt was undone.
    Failed,
    /// Its rotation ended because somebody else, such as Karpenter at its deadline, deleted it.
    Overtaken,
    /// A window closed with work left over.
    WindowMissed,
    /// An operator did something.
    Operator,
}

impl Event {
    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launched => "launched",
            Self::LaunchFailed => "launch-failed",
            Self::Ready => "ready",
            Self::Expired => "expired",
            Self::Consolidated => "consolidated",
            Self::Forced => "forced",
            Self::Gone => "gone",
            Self::Deleted => "deleted",
            Self::Started => "started",
            Self::Draining => "draining",
            Self::Fallback => "fallback",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Overtaken => "overtaken",
            Self::WindowMissed => "window-missed",
            Self::Operator => "operator",
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
