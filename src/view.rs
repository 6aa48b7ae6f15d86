//! The immutable View: everything a pass knows of the cluster, and the facts that single steps ask for.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Deref,
    sync::Arc,
};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::{
    api::{
        karpenter::{Node, NodeClaim, NodePool},
        pod::Pod,
        shared::Shared,
    },
    policy::Policy,
    rotation::effect::{Effect, Fresh, Kind, Target},
};

/// What a pass knows.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// All policies, by name.
    pub policies: BTreeMap<String, Policy>,
    /// All NodePools, by name.
    pub pools: BTreeMap<String, Shared<NodePool>>,
    /// All NodeClaims, by name.
    pub claims: BTreeMap<String, Shared<NodeClaim>>,
    /// Our placeholder Pods (by label, in our namespace), by name.
    pub placeholders: BTreeMap<String, Shared<Pod>>,
    /// Metadata of the Nodes that carry [`crate::api::keys::MARKED`], by name.
    pub marked: BTreeMap<String, Shared<Node>>,
    /// Objects that could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Rotations in flight in pools that this View leaves out, where pools are decided one by one.
    pub in_flight_elsewhere: usize,
    /// What was read because a step asked for it.
    pub facts: Facts,
}

/// An object of a list that could not be read: it harms only itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The pool it belongs to, where that could be told.
    pub pool: Option<String>,
    /// What is wrong, with the field's path.
    pub why: String,
}

/// Something a step has to know and the View doesn't say yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Metadata of all Nodes of a pool.
    NodesOfPool(String),
    /// One Node, whole.
    Node(String),
    /// The Pods of one Node.
    PodsOn(String),
    /// The PodDisruptionBudgets of a namespace.
    BudgetsIn(String),
    /// What the scheduler or Karpenter says of a Pod of ours: the messages of its Events.
    EventsAbout(String),
    /// Whether the API server would agree to a write, asked by server-side dry run.
    Rehearsal(Rehearsal),
}

impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodesOfPool(pool) => write!(formatter, "the Nodes of NodePool {pool}"),
            Self::Node(node) => write!(formatter, "Node {node}"),
            Self::PodsOn(node) => write!(formatter, "the Pods on Node {node}"),
            Self::BudgetsIn(namespace) => write!(formatter, "the PodDisruptionBudgets in namespace {namespace}"),
            Self::EventsAbout(pod) => write!(formatter, "the Events about Pod {pod}"),
            Self::Rehearsal(write) => write!(formatter, "the rehearsal of {}", write.0),
        }
    }
}

/// A write that is to be tried by dry run before anything is touched (§2). Rehearsals of one pass are told apart by the
/// kind of the write and its object.
#[derive(Debug, Clone, PartialEq)]
pub struct Rehearsal(pub Effect);

impl Rehearsal {
    /// The kind of the write and its object.
    pub fn key(&self) -> (&'static str, Target) {
        let kind = match &self.0 {
            Effect::BeginAttempt { .. } => "stamp",
            Effect::DeleteClaim { .. } => "delete",
            Effect::Hold { .. } => "hold",
            Effect::CreatePlaceholder { .. } => "create",
            _ => "other",
        };
        (kind, self.0.target())
    }
}

impl Eq for Rehearsal {}

impl PartialOrd for Rehearsal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rehearsal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// What the API server says of a rehearsed write.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It would do it.
    Agreed {
        /// The new object as it would be, where the answer carries it.
        after: Option<Box<Fresh>>,
    },
    /// It refuses, as it would refuse the real write.
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words.
        words: String,
    },
    /// It can't be told: dry run isn't supported or allowed, or the object has changed. The real write will tell.
    Unknown(String),
}

/// Answers to [`Need`]s.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Metadata of the Nodes of a pool.
    pub nodes_of_pool: BTreeMap<String, Arc<BTreeMap<String, Shared<Node>>>>,
    /// Whole Nodes; `None` for one that does not exist.
    pub nodes: BTreeMap<String, Option<Shared<Node>>>,
    /// All Nodes that there are, whole, by name; `None` where they are read one by one.
    pub all_nodes: Option<Arc<BTreeMap<String, Shared<Node>>>>,
    /// Pods by Node.
    pub pods_on: BTreeMap<String, Vec<Pod>>,
    /// Budgets by namespace.
    pub budgets: BTreeMap<String, Vec<PodDisruptionBudget>>,
    /// By Pod: the newest message of each reporter, by reporter.
    pub events: BTreeMap<String, BTreeMap<String, String>>,
    /// Answers to rehearsals.
    pub rehearsals: BTreeMap<Rehearsal, Answer>,
    /// Needs that could not be answered, with the reason: a step that wants one ends in an error.
    pub failed: BTreeMap<Need, String>,
}

/// The facts a step still wants: read them and decide again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing(pub BTreeSet<Need>);

impl View {
    /// The claims of a pool, by name.
    pub fn claims_of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a NodeClaim> + 'a {
        self.claims.values().map(Deref::deref).filter(move |claim| claim.pool() == Some(pool))
    }

    /// All Nodes' metadata of a pool.
    pub fn nodes_of_pool(&self, pool: &str) -> Result<&BTreeMap<String, Shared<Node>>, Missing> {
        self.facts.nodes_of_pool.get(pool).map(AsRef::as_ref).ok_or_else(|| Missing::one(Need::NodesOfPool(pool.into())))
    }

    /// One Node, whole; `None` where it does not exist.
    pub fn node(&self, name: &str) -> Result<Option<&Node>, Missing> {
        if let Some(all) = &self.facts.all_nodes {
            return Ok(all.get(name).map(Deref::deref));
        }
        self.facts.nodes.get(name).map(Option::as_deref).ok_or_else(|| Missing::one(Need::Node(name.into())))
    }

    /// The Pods of one Node.
    pub fn pods_on(&self, node: &str) -> Result<&[Pod], Missing> {
        self.facts.pods_on.get(node).map(Vec::as_slice).ok_or_else(|| Missing::one(Need::PodsOn(node.into())))
    }

    /// The budgets of a namespace.
    pub fn budgets_in(&self, namespace: &str) -> Result<&[PodDisruptionBudget], Missing> {
        self.facts.budgets.get(namespace).map(Vec::as_slice).ok_or_else(|| Missing::one(Need::BudgetsIn(namespace.into())))
    }

    /// What is said of a Pod of ours: the newest message of each reporter, by reporter.
    pub fn events_about(&self, pod: &str) -> Result<&BTreeMap<String, String>, Missing> {
        self.facts.events.get(pod).ok_or_else(|| Missing::one(Need::EventsAbout(pod.into())))
    }
}

impl View {
    /// An object as it was read for this View: `None` where it was not read whole, `Some(None)` where there was none. It is old by
    /// as much as the View is, and lacks what no effect is judged by.
    pub fn copy_of(&self, target: &Target) -> Option<Option<Fresh>> {
        let name = &target.name;
        match target.kind {
            Kind::NodePool => self.pools.get(name).map(|pool| Some(Fresh::NodePool(pool.clone()))),
            Kind::NodeClaim => self.claims.get(name).map(|claim| Some(Fresh::NodeClaim(claim.clone()))),
            Kind::Node => self.facts.nodes.get(name)?.as_ref().map(|node| Some(Fresh::Node(node.clone()))),
            Kind::Pod => Some(self.placeholders.get(name).map(|pod| Fresh::Pod(pod.clone()))),
        }
    }

    /// What the API server says of this write.
    pub fn rehearsal(&self, effect: Effect) -> Result<&Answer, Missing> {
        let rehearsal = Rehearsal(effect);
        self.facts.rehearsals.get(&rehearsal).ok_or_else(|| Missing::one(Need::Rehearsal(rehearsal)))
    }
}

impl Missing {
    /// One fact.
    pub fn one(need: Need) -> Self {
        Self(BTreeSet::from([need]))
    }
}
