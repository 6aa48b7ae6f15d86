//! Every reason of an Event, declared once with its object, type and meaning. `docs/events.md` is checked against
//! [`REASONS`].

/// Normal or Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something went as it should.
    Normal,
    /// Something needs a look.
    Warning,
}

/// Whether an Event tells of a moment or of a state that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Told once, by the pass whose write landed.
    Transition,
    /// Told again only once the API server has forgotten the last one (its TTL, 1h by default).
    Condition,
}

/// What is known of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The reason.
    pub reason: Reason,
    /// The reason as it stands in the Event.
    pub name: &'static str,
    /// The kind of object it is told about.
    pub on: &'static str,
    /// Normal or Warning.
    pub kind: Kind,
    /// A moment or a state.
    pub lasting: Lasting,
    /// What it means.
    pub meaning: &'static str,
}

macro_rules! reasons {
    ($($name:ident, $on:literal, $kind:ident, $lasting:ident, $meaning:literal;)*) => {
        /// The reason of an Event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $meaning] $name,)* }

        /// All reasons, in the order of the docs' table.
        pub const REASONS: &[About] = &[$(About {
            reason: Reason::$name,
            name: stringify!($name),
            on: $on,
            kind: Kind::$kind,
            lasting: Lasting::$lasting,
            meaning: $meaning,
        }),*];
    };
}

reasons! {
    RotationStarted, "NodePool", Normal, Transition, "A rotation has begun: the anchor is written.";
    RotationCompleted, "NodePool", Normal, Transition, "The old NodeClaim is gone and its replacement carries the Pods.";
    ForcefulFallback, "NodePool", Warning, Transition, "A NodeClaim too near to its deadline was deleted in the window without a surge.";
    GovernanceLost, "NodePool", Warning, Transition, "No policy matches the pool any more: its rotation was rolled back.";
    RotationReleased, "NodePool", Warning, Transition, "A rotation was given up without an outcome, because the API server refused one of its writes.";
    RotationFailed, "NodeClaim", Warning, Transition, "An attempt ran into readyTimeout and was rolled back.";
    RotationExpired, "NodeClaim", Warning, Transition, "The NodeClaim was deleted by someone else before its rotation could finish.";
    RotationSwept, "NodeClaim", Warning, Transition, "The NodeClaim was in flight without an anchor: marked failed.";
    PolicyConflict, "NodePool", Warning, Condition, "Several policies match the pool with equal specificity: no start.";
    PolicyInvalid, "NodePool", Warning, Condition, "The policy that governs the pool has a field that can't be used: no start.";
    InsufficientHeadroom, "NodePool", Warning, Condition, "spec.limits has no room for the replacement: no start.";
    SurgeRefused, "NodePool", Warning, Condition, "The API server refused the placeholder, the marks on the Node or the anchor on the NodePool.";
    DeleteRefused, "NodePool", Warning, Condition, "The API server refused to delete the NodeClaim.";
    HeadroomDoubtful, "NodePool", Warning, Condition, "spec.limits has room for the request, but not for the smallest node of the pool that would hold it; tried all the same.";
    SurgeMutated, "NodePool", Warning, Condition, "An admission controller changes what the placeholder requests, or where it may go.";
    RequirementDropped, "NodePool", Warning, Condition, "A label of the old Node can't be asked of its replacement: the pool doesn't allow its value, or there is none.";
    WindowMissed, "NodePool", Warning, Transition, "Windows closed with a NodeClaim due and none rotated.";
    DrainBlocked, "NodePool", Warning, Condition, "The drain takes longer than estimated; the message names what blocks.";
    DrainStuck, "NodePool", Warning, Condition, "The drain is past its bound; the gate stays held.";
    StateUnreadable, "NodePool", Warning, Condition, "An annotation of ours can't be read; a safe value is used.";
    FreezeUnreadable, "NodePool", Warning, Condition, "The freeze annotation can't be read; the pool counts as frozen.";
    SurgeNodeNotReady, "NodePool", Warning, Condition, "A node came up for the surge and never became Ready.";
    ShortLead, "NodeClaim", Warning, Condition, "The NodeClaim lives no longer than the lead time: rotated at the first opportunity.";
    SurgeUnschedulable, "NodeClaim", Warning, Condition, "The placeholder has no node yet; the message says what the scheduler or Karpenter says. Told again once another of them has spoken.";
    SurgeClamped, "NodeClaim", Normal, Condition, "The placeholder's request was lowered to what Karpenter plans for such a node.";
    SurgeClampBandExceeded, "NodeClaim", Warning, Condition, "The request was lowered by more than the kubelet reports above Karpenter's plan: the replacement may be too small for the Pods.";
    SurgeClampRefused, "NodeClaim", Warning, Condition, "DaemonSets leave no room for the request: it stays whole and will time out.";
}

impl Reason {
    /// What is known of it.
    pub fn about(self) -> &'static About {
        // REASONS is generated from the variants in their order.
        &REASONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_finds_its_own_row() {
        for about in REASONS {
            assert_eq!(about.reason.about(), about);
            assert_eq!(format!("{:?}", about.reason), about.name);
        }
    }
}
