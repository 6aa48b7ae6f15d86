//! The scenes: what each pool is, what its policy says, and what an operator does there meanwhile.

use control_plane::{NEVER_READY_LABEL, Pool, Workload};
use serde_json::{Value, json};

use crate::policy::{policy, with};

/// So often a pass is made, in seconds.
pub const CADENCE: i64 = 2;
/// One pool with one workload, on the world and on the real control plane alike.
#[derive(Clone)]
pub struct Scene {
    /// The name of the pool, of its policy and of its workload.
    pub name: &'static str,
    /// How many Pods the workload has, and how many cpus each asks for.
    pub pods: (u32, u32),
    /// How many of them may be away.
    pub away: u32,
    /// Whether there is a second Node, empty and protected by its operator.
    pub spare: bool,
    /// From the launch of an instance until its Node is there, in seconds.
    pub registration: i64,
    /// What keeps the surge from coming.
    pub stall: Stall,
    /// `expireAfter` and `terminationGracePeriod`.
    pub ends: (&'static str, &'static str),
    /// Fields of the policy, by their paths below `spec`.
    pub fields: Vec<(&'static str, Value)>,
    /// What the operator does: once each of these has come for the first time, or so many seconds later.
    pub deeds: Vec<(&'static [&'static str], i64, Deed)>,
    /// The head of the transition that ends it.
    pub end: &'static str,
}

/// What keeps a surge from coming.
#[derive(Clone, Copy, PartialEq)]
pub enum Stall {
    Nothing,
    /// The pool's limits have room for the placeholder, and none for the instance that it needs.
    Limits,
    /// New Nodes register and never become Ready.
    NeverReady,
}

/// What an operator does.
#[derive(Clone)]
pub enum Deed {
    /// A merge patch of the NodePool.
    Pool(Value),
    /// A merge patch of the policy.
    Policy(Value),
    /// `maxUnavailable` of the workload's PodDisruptionBudget.
    Budget(u32),
    /// Deletes the claim of this name in the story.
    Delete(&'static str),
    /// Protects the Node of this claim from disruption.
    Protect(&'static str),
}

impl Scene {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            pods: (2, 3),
            away: 1,
            spare: false,
            registration: 2,
            stall: Stall::Nothing,
            ends: ("720h", "10m"),
            fields: vec![("surge.cooldownAfter", json!("1h"))],
            deeds: Vec::new(),
            end: "success pool",
        }
    }

    fn field(mut self, path: &'static str, value: Value) -> Self {
        self.fields.push((path, value));
        self
    }

    fn deed(mut self, at: &'static [&'static str], later: i64, deed: Deed) -> Self {
        self.deeds.push((at, later, deed));
        self
    }

    /// The pool as it begins.
    pub fn pool(&self) -> Pool {
        Pool::new(self.name)
            .label("rotate", self.name)
            .expire_after(self.ends.0)
            .termination_grace_period(self.ends.1)
            .registration_delay(&format!("{}s", self.registration))
            .requirement(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}))
            // Karpenter calls Nodes drifted whose template has changed, and must not act on that.
            .spec("disruption", json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}))
    }

    /// Its workload.
    pub fn workload(&self) -> Workload {
        let (count, cpus) = self.pods;
        Workload::new(self.name, self.name).replicas(count).cpu(&cpus.to_string()).max_unavailable(self.away)
    }

    /// What is patched once the Nodes are there, so that no surge comes: `used` cpus are counted against the limits.
    pub fn stalled(&self, used: u32) -> Option<Value> {
        let (count, cpus) = self.pods;
        match self.stall {
            Stall::Nothing => None,
            Stall::Limits => Some(json!({"spec": {"limits": {"cpu": (used + count * cpus + 1).to_string()}}})),
            Stall::NeverReady => Some(template_label(json!("true"))),
        }
    }

    /// Its policy.
    pub fn policy(&self) -> Value {
        self.fields.iter().fold(policy(self.name), |policy, (path, value)| with(policy, path, value.clone()))
    }
}

fn template_label(value: Value) -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {NEVER_READY_LABEL: value}}}}})
}

fn no_limits() -> Value {
    json!({"spec": {"limits": null}})
}

/// The pool is frozen, or no longer.
fn frozen(is_frozen: bool) -> Value {
    json!({"metadata": {"annotations": {"noderotation.io/freeze": is_frozen.then_some("2100-01-01T00:00:00Z")}}})
}

/// A second attempt is given its time.
fn patient() -> Deed {
    Deed::Policy(json!({"spec": {"surge": {"readyTimeout": "3m"}}}))
}

/// All of them. None of a pool's branches may race another: what decides which comes first must be what is compared.
pub fn scenes() -> Vec<Scene> {
    vec![
        // One Pod after another, as its budget allows.
        Scene::new("plain"),
        // All Pods at once.
        Scene { pods: (3, 2), away: 3, ..Scene::new("wide") },
        // There is room on another Node.
        Scene { pods: (1, 5), spare: true, ..Scene::new("absorbed") },
        // Nothing is launched; the second attempt comes after the backoff.
        Scene { stall: Stall::Limits, ..Scene::new("late") }
            .field("surge.readyTimeout", json!("8s"))
            .field("surge.retryBackoff", json!("6s"))
            .deed(&["failure pool"], 0, patient())
            .deed(&["failure pool"], 0, Deed::Pool(no_limits())),
        // What is launched never becomes Ready, and is taken back.
        Scene { stall: Stall::NeverReady, ..Scene::new("unready") }
            .field("surge.readyTimeout", json!("14s"))
            .field("surge.retryBackoff", json!("6s"))
            .deed(&["failure pool"], 0, patient())
            .deed(&["failure pool"], 0, Deed::Pool(template_label(Value::Null))),
        // Somebody deletes the claim while its surge is awaited; its drain is held until it has been counted.
        Scene { registration: 8, away: 0, end: "gone a", ..Scene::new("taken") }
            .deed(&["launched b"], 1, Deed::Delete("a"))
            .deed(&["expired pool"], 0, Deed::Pool(frozen(true)))
            .deed(&["expired pool", "ready b"], 2, Deed::Budget(2)),
        // Somebody deletes what came for the placeholder, which a freeze holds there: another comes for it in the same attempt.
        Scene::new("bereft").deed(&["asked surge"], 0, Deed::Pool(frozen(true))).deed(&["placed surge"], 0, Deed::Delete("b")).deed(
            &["deleted b"],
            0,
            Deed::Pool(frozen(false)),
        ),
        // A budget holds the drain until it is lifted; that somebody deletes the claim once more changes nothing.
        Scene { away: 0, ..Scene::new("held") }.deed(&["deleted a"], 0, Deed::Delete("a")).deed(&["deleted a"], 10, Deed::Budget(2)),
        // Too near to its deadline for a surge: t_rot is 1m + 20m + 8s, so it is too late once the claim is 12 s old.
        Scene { ends: ("21m20s", "20m"), away: 2, ..Scene::new("forced") }
            .field("surge.readyTimeout", json!("1m"))
            .field("surge.forcefulFallback", json!({"enabled": true})),
    ]
}
