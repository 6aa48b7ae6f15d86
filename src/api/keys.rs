//! Every key and fixed name of ours, declared once: annotations, labels, names. `docs/state.md` is checked
//! against [`ANNOTATIONS`].

/// The prefix of all our keys.
pub const PREFIX: &str = "noderotation.io/";

/// An annotation or label of ours: its key, the kinds that carry it, what its value is and what it is for (§5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The full key.
    pub key: &'static str,
    /// The kinds that carry it.
    pub on: &'static str,
    /// The shape of the value.
    pub value: &'static str,
    /// What it is for.
    pub purpose: &'static str,
}

macro_rules! keys {
    ($($name:ident = $key:literal, $on:literal, $value:literal, $purpose:literal;)*) => {
        $(#[doc = $purpose] pub const $name: &str = $key;)*
        /// All annotations and labels of ours, in the order of the docs' table.
        pub const ANNOTATIONS: &[Key] = &[$(Key { key: $key, on: $on, value: $value, purpose: $purpose }),*];
    };
}

keys! {
    ACTIVE_ROTATION = "noderotation.io/active-rotation", "NodePool", "NodeClaim name", "The anchor: which rotation is in flight, and the serial gate.";
    ACTIVE_ROTATION_STATE = "noderotation.io/active-rotation-state", "NodePool", "`draining`", "Mirror of the phase, by which the completion tells success from force-expiry.";
    DRAINING_AT = "noderotation.io/draining-at", "NodePool", "RFC 3339", "When the drain began.";
    SURGE_WAIT = "noderotation.io/surge-wait", "NodePool", "Go duration", "How long the surge took.";
    ROTATION_MODE = "noderotation.io/rotation-mode", "NodePool", "`forceful-fallback`", "Marks a rotation without a surge.";
    SURGE_PATH = "noderotation.io/surge-path", "NodePool", "`provisioned`, `absorbed`", "Whether the surge brought a new node, or fit on one that was there.";
    LAST_FAILURE_AT = "noderotation.io/last-failure-at", "NodePool", "RFC 3339", "Start of the pause after a failure (gate B).";
    LAST_ROTATION_AT = "noderotation.io/last-rotation-at", "NodePool", "RFC 3339", "Start of the cooldown after a success (gate A).";
    TOTALS = "noderotation.io/totals", "NodePool", "JSON", "The durable counters that every pass exports.";
    WINDOW_SETTLED_AT = "noderotation.io/window-settled-at", "NodePool", "RFC 3339, policy UID/generation", "Up to when closed windows have been judged, and under which policy.";
    FREEZE = "noderotation.io/freeze", "NodePool", "RFC 3339", "Set by the operator: no start before this time.";
    STATE = "noderotation.io/state", "NodeClaim", "`pending`, `draining`, `failed`, `expired`", "Where this claim's rotation is.";
    STARTED_AT = "noderotation.io/started-at", "NodeClaim", "RFC 3339", "Start of the attempt: `readyTimeout` counts from here.";
    FAILED_AT = "noderotation.io/failed-at", "NodeClaim", "RFC 3339", "When the last attempt failed: the backoff counts from here.";
    RETRY_COUNT = "noderotation.io/retry-count", "NodeClaim", "integer", "Failed attempts so far: escalates the backoff.";
    SURGE_CLAIM = "noderotation.io/surge-claim", "NodeClaim", "NodeClaim name", "The claim that the placeholder brought up.";
    ROTATE_REQUESTED = "noderotation.io/rotate-requested", "NodeClaim", "RFC 3339", "Set by the operator: due from this time on, whatever its age.";
    SURGE_FOR = "noderotation.io/surge-for", "Pod, Node", "NodeClaim name", "Which rotation a placeholder or a frozen Node belongs to.";
    DO_NOT_DISRUPT_OWNED = "noderotation.io/do-not-disrupt-owned", "Node", "`true`", "We set `karpenter.sh/do-not-disrupt` here.";
    DO_NOT_DISRUPT_WAS = "noderotation.io/do-not-disrupt-was", "Node", "any", "What the operator had in `karpenter.sh/do-not-disrupt` before us; put back byte for byte.";
    CORDONED = "noderotation.io/cordoned", "Node", "`true`", "We cordoned this Node.";
    MARKED = "noderotation.io/marked", "Node (label)", "`true`", "Finds every Node that carries a marker of ours.";
    WRITTEN_BY = "noderotation.io/written-by", "NodePool, NodeClaim", "pass id", "Which pass wrote last, while a rotation is in flight: tells a repeated request from a lost race.";
    LAST_PASS = "noderotation.io/last-pass", "Lease", "JSON", "How the last pass ended, for `status`.";
}

/// Karpenter's own annotation that blocks voluntary disruption of a Node or Pod.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Karpenter's label that names the NodePool of a claim, Node or (ours) placeholder.
pub const NODEPOOL_LABEL: &str = "karpenter.sh/nodepool";
/// Karpenter's taint on a Node that is being drained.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// The well-known label with a Node's hostname, which need not be the Node's name.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The well-known label with a Node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The PriorityClass of placeholder Pods.
pub const SURGE_PRIORITY_CLASS: &str = "noderotation-surge";
/// The name of the Lease, the field manager and the reporting controller.
pub const PROGRAM: &str = "noderotation";
/// What the name of a placeholder begins with; the claim's name follows.
pub const PLACEHOLDER_PREFIX: &str = "noderotation-surge-";
/// The `reportingController` of our Events.
pub const REPORTING_CONTROLLER: &str = "noderotation.io/noderotation";
/// The default namespace of the program, its Lease and its placeholders.
pub const DEFAULT_NAMESPACE: &str = "node-rotation-system";

/// The value of [`ROTATION_MODE`] for a rotation without a surge.
pub const MODE_FORCEFUL_FALLBACK: &str = "forceful-fallback";
/// The rotation-scoped keys of a NodePool, which go together when the anchor is released (§5.3).
pub const ROTATION_SCOPED: [&str; 6] = [ACTIVE_ROTATION, ACTIVE_ROTATION_STATE, DRAINING_AT, SURGE_WAIT, SURGE_PATH, ROTATION_MODE];
