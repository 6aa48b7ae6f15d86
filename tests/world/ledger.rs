//! What really happened, noted beside the engine: the invariants of the design are judged by it after every write.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use noderotation::{
    api::{events::Reason, karpenter::NodePool, keys, pod::Pod, time::Time},
    pass::PassReport,
    policy::resolve::{Governance, governance},
    rotation::{
        effect::{Effect, End, Fresh},
        notice::Notice,
        state::State,
        totals::Totals,
    },
    schedule::window::Schedule,
    surge::{PlaceholderState, placeholder_name},
    world::{history::claim_named, pool::PoolWorld},
};

/// A rotation in flight.
#[derive(Debug, Default)]
struct Rotation {
    claim: String,
    /// Its surge was Ready, or it needs none.
    draining: bool,
    /// A failed attempt that no total has yet.
    failed: bool,
}

/// Outcomes that were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Success,
    Failure,
    Expired,
}

/// The notes.
#[derive(Default)]
pub struct Ledger {
    /// What is wrong; the first is what matters.
    pub wrong: Vec<String>,
    /// Every write, for whoever has to find out.
    pub log: Vec<String>,
    /// Whether the operator spoils our annotations: then counters say what they may.
    pub vandal: bool,
    pub calm: bool,
    /// What the operator wrote on Nodes: do-not-disrupt and cordon.
    pub operator: BTreeMap<String, (Option<String>, bool)>,
    nodes: BTreeMap<String, usize>,
    began: Option<Time>,
    /// Whether the pass under way met a refusal.
    refusal: bool,
    current: BTreeMap<String, Rotation>,
    counted: BTreeMap<(String, Counted), u64>,
    deleted: BTreeSet<String>,
    /// How often each transition landed and was told: by reason and claim.
    landed: BTreeMap<(String, String), i64>,
    leftovers: BTreeSet<String>,
    /// Pools in which a quota or a LimitRange refused every placeholder when the pass, which rehearses, began.
    full: BTreeSet<String>,
    /// Claims whose surge was Ready when the pass began.
    ready: BTreeSet<String>,
    pub rotations: u64,
}

fn anchor(pool: &NodePool) -> Option<&str> {
    pool.metadata.annotation(keys::ACTIVE_ROTATION)
}

impl Ledger {
    pub fn of(pools: &BTreeMap<String, RefCell<PoolWorld>>, vandal: bool, calm: bool) -> Self {
        let nodes = pools.iter().map(|(name, pool)| (name.clone(), pool.borrow().view.claims.len())).collect();
        Self { vandal, calm, nodes, ..Self::default() }
    }

    fn demand(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            let words = words();
            self.log.push(format!("WRONG: {words}"));
            self.wrong.push(words);
        }
    }

    pub fn refused(&mut self) {
        self.refusal = true;
    }

    /// A pass begins.
    pub fn begin(&mut self, now: Time, pools: &BTreeMap<String, RefCell<PoolWorld>>, rehearses: bool) {
        self.began = Some(now);
        self.refusal = false;
        self.leftovers = leftovers(pools);
        // What is refused of a Pod that asks for nothing is refused of every one.
        let is_full = |pool: &PoolWorld| rehearses && pool.admitted(&Pod::default()).is_err();
        self.full = pools.values().filter(|pool| is_full(&pool.borrow())).map(|pool| pool.borrow().name.clone()).collect();
        let running = |pool: &PoolWorld| pool.view.claims.keys().filter(|claim| surge_runs(pool, claim)).cloned().collect::<Vec<_>>();
        self.ready = pools.values().flat_map(|pool| running(&pool.borrow())).collect();
    }

    /// A pass has ended: what was left over before it, and could be removed, is gone (2).
    pub fn end(&mut self, report: &PassReport, pools: &BTreeMap<String, RefCell<PoolWorld>>) {
        if !report.failed() && !self.refusal {
            let still: Vec<String> = leftovers(pools).intersection(&self.leftovers).cloned().collect();
            self.demand(still.is_empty(), || format!("(2) a whole pass left over: {}", still.join(", ")));
        }
        for (name, pool) in pools {
            let (claims, had) = (pool.borrow().view.claims.len(), self.nodes[name]);
            let calm = self.calm;
            // For a claim that Karpenter expires it may bring another one besides.
            let pool = pool.borrow();
            let anchor = pool.view.pools[name].metadata.annotation(keys::ACTIVE_ROTATION);
            let leaving = pool.view.claims.values().filter(|claim| claim.metadata.is_deleting() && anchor != Some(&claim.metadata.name));
            let leaving = leaving.count();
            self.demand(!calm || claims <= had + 1 + leaving, || format!("(3) pool {name} has {claims} claims, and had {had}"));
        }
    }

    /// A write landed.
    pub fn landed(&mut self, effect: &Effect, before: Option<&NodePool>, after: Option<&Fresh>, pool: &PoolWorld) {
        self.log.push(format!("{} {effect}", noderotation::api::time::to_annotation(pool.now)));
        match effect {
            Effect::Anchor { claim, .. } => self.started(claim, false, before, pool),
            Effect::StartFallback { claim, .. } => self.started(claim, true, before, pool),
            Effect::MirrorDraining { claim, surge, .. } => {
                let ready = surge.is_none() || self.ready.contains(claim) || surge_runs(pool, claim);
                self.demand(ready || self.vandal, || format!("(5) {claim} is to drain without a Ready surge"));
                if let Some(rotation) = self.current.get_mut(&pool.name) {
                    rotation.draining = true;
                }
            }
            Effect::MarkFailed { claim, .. } => {
                self.note(Reason::RotationFailed, claim);
                if let Some(rotation) = self.current.get_mut(&pool.name).filter(|rotation| rotation.claim == *claim) {
                    rotation.failed = true;
                }
            }
            Effect::MarkExpired { claim, .. } => self.note(Reason::RotationExpired, claim),
            Effect::DeleteClaim { claim, uid } => self.claim_deleted(claim, uid, pool),
            Effect::ReapClaim { claim, .. } => {
                let pods = pool.workload_pods_on(claim);
                self.demand(pods == 0, || format!("(5) {claim} is reaped with {pods} Pods of others on it"));
            }
            _ => {}
        }
        self.totals(effect, before, after, pool);
        self.holds(pool);
    }

    fn note(&mut self, reason: Reason, claim: &str) {
        *self.landed.entry((reason.about().name.to_owned(), claim.to_owned())).or_default() += 1;
    }

    /// (1) and (4): nothing was in flight, a window was open when the pass began, nobody had stopped it.
    fn started(&mut self, claim: &str, fallback: bool, before: Option<&NodePool>, pool: &PoolWorld) {
        self.rotations += 1;
        let there = before.and_then(anchor).map(str::to_owned);
        self.demand(there.is_none(), || format!("(1) {claim} is anchored over {there:?}"));
        self.note(if fallback { Reason::ForcefulFallback } else { Reason::RotationStarted }, claim);
        let began = self.began.unwrap_or(pool.now);
        let object = &pool.view.pools[&pool.name];
        match governance(&pool.view.policies, &object.metadata.labels) {
            Governance::Policy(policy) => {
                let schedule = Schedule::under(&policy.settings, began);
                let open = schedule.open_at(began).is_some() && schedule.blackouts.covering(began).is_none();
                self.demand(open, || format!("(4) {claim} started outside of every window"));
                self.demand(!policy.settings.suspend, || format!("(4) {claim} started although its policy is suspended"));
            }
            _ => self.demand(false, || format!("(4) {claim} started although no policy governs its pool")),
        }
        let freeze = object.metadata.stamp(keys::FREEZE);
        let frozen = freeze != noderotation::api::meta::Stamp::Absent && freeze.time().is_none_or(|until| began < until);
        self.demand(!frozen, || format!("(4) {claim} started although its pool is frozen"));
        let refused = !fallback && self.full.contains(&pool.name);
        self.demand(!refused, || format!("(4) {claim} started although its rehearsal was refused"));
        self.current.insert(pool.name.clone(), Rotation { claim: claim.into(), draining: fallback, failed: false });
    }

    /// (5): only with a Ready surge, or as an announced fallback, and once.
    fn claim_deleted(&mut self, claim: &str, uid: &str, pool: &PoolWorld) {
        let once = self.deleted.insert(uid.to_owned());
        self.demand(once, || format!("(5) {claim} is deleted twice"));
        if self.vandal {
            return;
        }
        let object = &pool.view.pools[&pool.name];
        let anchored = object.metadata.annotation(keys::ACTIVE_ROTATION) == Some(claim);
        self.demand(anchored, || format!("(5) {claim} is deleted without an anchor"));
        let fallback = object.metadata.annotation(keys::ROTATION_MODE).is_some();
        let noted = self.current.get(&pool.name).is_some_and(|rotation| rotation.claim == claim && rotation.draining);
        self.demand(fallback || noted, || format!("(5) {claim} is deleted without a Ready surge"));
    }

    /// (6): totals move in the writes that decide an outcome, by exactly that outcome.
    fn totals(&mut self, effect: &Effect, before: Option<&NodePool>, after: Option<&Fresh>, pool: &PoolWorld) {
        let (Some(was), Some(Fresh::NodePool(is))) = (before, after) else { return };
        let read = |totals: Result<Totals, String>| totals.unwrap_or_default();
        let (was_totals, is_totals) = (read(Totals::of(&was.metadata)), read(Totals::of(&is.metadata)));
        let mut expected = was_totals.clone();
        match effect {
            Effect::StartFallback { .. } => expected.fallback += 1,
            Effect::SettleWindows { missed, .. } => expected.window_missed += missed,
            Effect::Release { claim, end, .. } => return self.released(claim, *end, &was_totals, &is_totals, pool),
            _ => {}
        }
        let vandal = self.vandal;
        self.demand(vandal || expected == is_totals, || format!("(6) {effect} moved totals from {was_totals:?} to {is_totals:?}"));
    }

    fn released(&mut self, claim: &str, end: End, was: &Totals, is: &Totals, pool: &PoolWorld) {
        let moved = [
            (Counted::Success, is.success.saturating_sub(was.success)),
            (Counted::Failure, is.failure.saturating_sub(was.failure)),
            (Counted::Expired, is.expired.saturating_sub(was.expired)),
        ];
        let counted: Vec<Counted> = moved.iter().filter(|(_, by)| *by == 1).map(|(outcome, _)| *outcome).collect();
        let rotation = self.current.remove(&pool.name).unwrap_or_default();
        for outcome in &counted {
            *self.counted.entry((pool.name.clone(), *outcome)).or_default() += 1;
            match outcome {
                Counted::Success => self.note(Reason::RotationCompleted, claim),
                // Announced by the write that marked it, or here where nobody could.
                Counted::Expired => self.note(Reason::RotationExpired, claim),
                Counted::Failure => {}
            }
        }
        if self.vandal {
            return;
        }
        let gone = !pool.view.claims.contains_key(claim);
        let ungoverned = pool.view.policies.is_empty();
        let state = pool.view.claims.get(claim).map(|claim| State::of(&claim.metadata));
        let ours = pool.view.claims.get(claim).is_some_and(|claim| self.deleted.contains(&claim.metadata.uid));
        let words = || format!("(6) the release of {claim} ({end:?}; {rotation:?}; {state:?}) counted {counted:?}");
        let right = match counted.as_slice() {
            // Governance that is lost ends a rotation without outcome, wherever it stands (§5.4).
            [] => matches!(end, End::WithoutOutcome | End::NoRetry) && (ungoverned || !(rotation.draining && gone)),
            [Counted::Failure] => rotation.failed,
            [Counted::Success] => rotation.draining && gone && !rotation.failed,
            // What somebody else deleted before us is expired, whatever we had written of our intent.
            [Counted::Expired] => (gone && !rotation.draining) || (state == Some(State::Expired) && !ours),
            _ => false,
        };
        let words = (!right).then(words);
        self.demand(right, || words.unwrap_or_default());
    }

    /// (1) and (3) after every write.
    fn holds(&mut self, pool: &PoolWorld) {
        if self.vandal {
            return;
        }
        let in_flight = pool.view.claims.values().filter(|claim| matches!(State::of(&claim.metadata), State::Pending | State::Draining));
        let in_flight = in_flight.count();
        self.demand(in_flight <= 1, || format!("(1) {in_flight} rotations are in flight in pool {}", pool.name));
        let touched: Vec<String> = pool
            .nodes()
            .values()
            .filter(|node| {
                let ours = node.metadata.label(keys::MARKED).is_some();
                let (value, cordoned) = self.operator.get(&node.metadata.name).cloned().unwrap_or_default();
                let differs = node.metadata.annotation(keys::DO_NOT_DISRUPT) != value.as_deref() || node.spec.unschedulable != cordoned;
                !ours && differs
            })
            .map(|node| node.metadata.name.clone())
            .collect();
        self.demand(touched.is_empty(), || format!("(3) not as the operator left them: {}", touched.join(", ")));
    }

    /// (7): told only what landed, and once.
    pub fn told(&mut self, notices: &[Notice], twice: bool) {
        let transitions =
            [Reason::RotationStarted, Reason::RotationCompleted, Reason::RotationFailed, Reason::RotationExpired, Reason::ForcefulFallback];
        for notice in notices.iter().chain(notices.iter().filter(|_| twice)) {
            if !transitions.iter().any(|reason| reason.about().name == notice.reason) {
                continue;
            }
            let claim =
                if notice.regarding.kind == "NodeClaim" { notice.regarding.name.clone() } else { claim_named(&notice.message).to_owned() };
            let left = self.landed.entry((notice.reason.to_owned(), claim.clone())).or_default();
            *left -= 1;
            let told = *left >= 0;
            let reason = notice.reason;
            let vandal = self.vandal;
            self.demand(told || vandal, || format!("(7) {reason} of {claim} is told and did not land, or was told before"));
        }
    }

    /// The world has been left alone for long enough (8), and counters equal outcomes (6).
    pub fn rest(&mut self, pools: &BTreeMap<String, RefCell<PoolWorld>>) {
        let still = leftovers(pools);
        self.demand(still.is_empty(), || format!("(2) left over at rest: {still:?}"));
        for (name, pool) in pools {
            let pool = pool.borrow();
            let object = &pool.view.pools[name];
            let anchor = object.metadata.annotation(keys::ACTIVE_ROTATION);
            self.demand(anchor.is_none(), || format!("(8) {anchor:?} is still in flight in pool {name} after a long rest"));
            if self.vandal {
                continue;
            }
            let totals = Totals::of(&object.metadata).unwrap_or_default();
            let of = |outcome| self.counted.get(&(name.clone(), outcome)).copied().unwrap_or_default();
            let really = (of(Counted::Success), of(Counted::Failure), of(Counted::Expired));
            let says = (totals.success, totals.failure, totals.expired);
            self.demand(says == really, || format!("(6) pool {name} says {says:?}, and really it was {really:?}"));
        }
    }
}

/// Whether the placeholder of a claim really runs, on a Node that is Ready.
fn surge_runs(pool: &PoolWorld, claim: &str) -> bool {
    match PlaceholderState::of(pool.view.placeholders.get(&placeholder_name(claim)).map(|pod| &**pod)) {
        PlaceholderState::Running { node } => pool.nodes().get(&node).is_some_and(|node| node.is_ready()),
        _ => false,
    }
}

/// What belongs to no rotation in flight.
fn leftovers(pools: &BTreeMap<String, RefCell<PoolWorld>>) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    for (name, pool) in pools {
        let pool = pool.borrow();
        let anchor = pool.view.pools[name].metadata.annotation(keys::ACTIVE_ROTATION);
        let placeholders = pool.view.placeholders.keys().filter(|pod| pool.placeholder_claim(pod) != anchor || anchor.is_none());
        left.extend(placeholders.map(|pod| format!("Pod {pod}")));
        let marked = pool.nodes().values().filter(|node| node.metadata.label(keys::MARKED).is_some());
        let marked = marked.filter(|node| node.metadata.annotation(keys::SURGE_FOR) != anchor || anchor.is_none());
        left.extend(marked.map(|node| format!("Node {}", node.metadata.name)));
    }
    left
}
