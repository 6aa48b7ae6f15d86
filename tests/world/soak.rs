//! Many worlds, each by its seed.

use std::{cell::RefCell, ops::Deref, time::Instant};

use chrono::TimeDelta;
use futures::FutureExt;
use noderotation::{
    api::{
        karpenter::NodeClaim,
        keys,
        time::{Time, later, to_annotation},
    },
    cluster::Cluster,
    rotation::effect::Kind,
    world::{pool::PoolWorld, run::tick},
};
use serde_json::json;

use crate::{
    defects::Defect,
    door::Door,
    ledger::Ledger,
    scenario::{Meddling, Scenario, begin, limits, policies},
};

/// What came of a world.
pub struct Told {
    /// Which invariants did not hold.
    pub wrong: Vec<String>,
    /// Every write.
    pub log: Vec<String>,
    pub rotations: u64,
    pub writes: u64,
}

/// The story of a seed.
pub fn story(seed: u64, defect: Option<Defect>) -> Told {
    play(&Scenario::of(seed), defect, None)
}

/// A scenario from its beginning to its end.
pub fn play(scenario: &Scenario, defect: Option<Defect>, fault_at: Option<(u64, crate::door::Fault)>) -> Told {
    let pools = scenario.pools();
    let ledger = Ledger::of(&pools, scenario.vandal, scenario.calm && fault_at.is_none());
    let mut door = Door::new(pools, scenario.config.clone(), ledger, scenario.seed);
    door.defect = defect;
    door.fault_at.set(fault_at);
    let mut player = Player {
        door,
        scenario,
        policy: scenario.policy.clone(),
        generation: 1,
        meddled: 0,
        govern_at: None,
        quota_until: None,
        limits_until: None,
        waiting: Vec::new(),
        soon: Vec::new(),
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| player.play()));
    let door = player.door;
    let writes = door.writes.get();
    let mut ledger = door.ledger.into_inner();
    if !ledger.wrong.is_empty() {
        for happening in door.pools.values().flat_map(|pool| pool.borrow().history.clone()) {
            let (at, event) = (to_annotation(happening.at), happening.event.as_str());
            ledger.log.push(format!("{at} the world: {event} {} {}", happening.claim, happening.detail));
        }
    }
    if panicked.is_err() {
        ledger.wrong.push("(0) it panicked".into());
    }
    Told { wrong: ledger.wrong, log: ledger.log, rotations: ledger.rotations, writes }
}

struct Player<'a> {
    door: Door,
    scenario: &'a Scenario,
    policy: serde_json::Value,
    generation: i64,
    meddled: usize,
    /// When the policies come back.
    govern_at: Option<Time>,
    /// When the quota is lifted.
    quota_until: Option<Time>,
    /// When the LimitRange goes again.
    limits_until: Option<Time>,
    /// What is done so many seconds after the next rotation has begun.
    waiting: Vec<(i64, Meddling)>,
    /// What is done soon.
    soon: Vec<(Time, Meddling)>,
}

impl Player<'_> {
    fn play(&mut self) {
        let end = later(begin(), self.scenario.length);
        let calm_from = later(begin(), self.scenario.trouble);
        // Nothing starts in the last hours, so that what is in flight can come to its end.
        let mut last_start = Some(later(end, TimeDelta::hours(-8)));
        let mut wake = Some(begin());
        let mut mended = false;
        self.door.one_in_faults.set(self.scenario.one_in_faults);
        loop {
            let now = self.door.now();
            if self.door.take_changed() {
                wake = Some(now);
            }
            let pass = wake.map(|wake| tick(begin(), self.door.config.cadence, wake.max(now)));
            let moments = [pass, self.door.next_due(), self.next_meddling(), last_start.map(|at| at.max(now))];
            let Some(next) = moments.into_iter().flatten().min().filter(|next| *next <= end) else { break };
            self.door.advance(next);
            if next >= calm_from && !std::mem::replace(&mut mended, true) {
                self.door.one_in_faults.set(0);
                self.mend();
                self.waiting.clear();
            }
            self.meddle(next);
            self.follow(next);
            if last_start.take_if(|at| *at <= next).is_some() {
                self.policy["suspend"] = json!(true);
                self.govern(true);
            }
            if pass != Some(next) {
                continue;
            }
            let report = self.door.pass().now_or_never().expect("nothing in the world waits");
            let again = later(self.door.now(), TimeDelta::seconds(1));
            // Its own writes are nothing new at this moment, whether it failed or not.
            let wrote = self.door.take_changed();
            wake = if wrote || report.failed() { Some(again) } else { report.wake_at.map(|wake| wake.max(again)) };
            if !self.door.ledger.borrow().wrong.is_empty() {
                return;
            }
        }
        self.door.advance(end);
        self.door.ledger.borrow_mut().rest(&self.door.pools);
    }

    /// The operator deletes Nodes that never became Ready, and takes protections off Pods: nobody else does.
    fn mend(&mut self) {
        for pool in self.door.pools.values() {
            let mut pool = pool.borrow_mut();
            let dead = |claim: &&NodeClaim| claim.is("Registered") && !claim.is("Ready") && !claim.metadata.is_deleting();
            let dead: Vec<String> =
                pool.view.claims.values().map(Deref::deref).filter(dead).map(|claim| claim.metadata.name.clone()).collect();
            dead.iter().for_each(|claim| pool.delete_claim(claim));
            pool.clear_pods_of(keys::DO_NOT_DISRUPT);
        }
    }

    fn next_meddling(&self) -> Option<Time> {
        let next = self.scenario.meddling.get(self.meddled).map(|(at, _)| *at);
        let soon = self.soon.iter().map(|(at, _)| *at);
        [next, self.govern_at, self.quota_until, self.limits_until]
            .into_iter()
            .flatten()
            .chain(soon)
            .min()
            .map(|at| at.max(self.door.now()))
    }

    fn meddle(&mut self, now: Time) {
        if self.govern_at.take_if(|at| *at <= now).is_some() {
            self.govern(true);
        }
        if self.quota_until.take_if(|at| *at <= now).is_some() {
            self.limit(None);
        }
        if self.limits_until.take_if(|at| *at <= now).is_some() {
            self.bound(&[]);
        }
        while let Some((at, what)) = self.scenario.meddling.get(self.meddled).cloned()
            && at <= now
        {
            self.meddled += 1;
            self.do_it(now, &what);
        }
        for (_, what) in self.soon.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.do_it(now, &what);
        }
    }

    /// A rotation has begun: who waited for one waits no longer.
    fn follow(&mut self, now: Time) {
        let is_in_flight = |pool: &RefCell<PoolWorld>| anchor(&pool.borrow()).is_some();
        if self.door.pools.values().any(is_in_flight) {
            self.soon.extend(self.waiting.drain(..).map(|(seconds, what)| (later(now, TimeDelta::seconds(seconds)), what)));
        }
    }

    fn govern(&mut self, governed: bool) {
        self.generation += 1;
        let policies = if governed { policies(&self.policy, self.generation) } else { Default::default() };
        for pool in self.door.pools.values() {
            pool.borrow_mut().govern(&policies);
        }
    }

    fn limit(&self, quota: Option<u32>) {
        for pool in self.door.pools.values() {
            pool.borrow_mut().set_quota(quota);
        }
    }

    fn bound(&self, items: &[serde_json::Value]) {
        for pool in self.door.pools.values() {
            pool.borrow_mut().set_limits(items.to_vec());
        }
    }

    fn do_it(&mut self, now: Time, what: &Meddling) {
        self.door.ledger.borrow_mut().log.push(format!("{} the operator: {what:?}", to_annotation(now)));
        match what {
            Meddling::Ungovern(minutes) => {
                self.govern_at = Some(later(now, TimeDelta::minutes(*minutes)));
                self.govern(false);
            }
            Meddling::Edit(field, value) => {
                self.policy[*field] = value.clone();
                self.govern(self.govern_at.is_none());
                // What an operator suspends is resumed in the end.
                if *value == json!(true) {
                    self.policy[*field] = json!(false);
                    self.govern_at = Some(later(now, TimeDelta::hours(20)));
                }
            }
            Meddling::InFlight(seconds, what) => self.waiting.push((*seconds, (**what).clone())),
            Meddling::Quota(minutes) | Meddling::DeletePlaceholders(Some(minutes)) => {
                self.quota_until = Some(later(now, TimeDelta::minutes(*minutes)));
                self.limit(Some(0));
            }
            Meddling::Limit(index, minutes) => {
                self.limits_until = Some(later(now, TimeDelta::minutes(*minutes)));
                self.bound(&limits(*index));
            }
            _ => {}
        }
        for pool in self.door.pools.values() {
            meddle_with(&mut pool.borrow_mut(), &mut self.door.ledger.borrow_mut(), now, what);
        }
    }
}

/// What an operator does to one pool.
fn meddle_with(pool: &mut PoolWorld, ledger: &mut Ledger, now: Time, what: &Meddling) {
    let name = pool.name.clone();
    let claims: Vec<String> = pool.view.claims.keys().cloned().collect();
    let nodes: Vec<String> = pool.nodes().keys().cloned().collect();
    match what {
        Meddling::Freeze(minutes) => {
            let until = to_annotation(later(now, TimeDelta::minutes(*minutes)));
            pool.annotate(Kind::NodePool, &name, keys::FREEZE, Some(&until));
        }
        // Only Nodes that are not ours at the moment: whose the value is could not be told otherwise.
        Meddling::Cordon(index, cordoned) => {
            if let Some(node) = nodes.get(*index).filter(|node| !is_marked(pool, node)) {
                pool.cordon(node, *cordoned);
                ledger.operator.entry(node.clone()).or_default().1 = *cordoned;
            }
        }
        Meddling::Protect(index, value) => {
            if let Some(node) = nodes.get(*index).filter(|node| !is_marked(pool, node)) {
                pool.annotate(Kind::Node, node, keys::DO_NOT_DISRUPT, *value);
                ledger.operator.entry(node.clone()).or_default().0 = value.map(str::to_owned);
            }
        }
        Meddling::Delete(index) => {
            if let Some(claim) = claims.get(*index) {
                pool.delete_claim(claim);
            }
        }
        Meddling::DeleteInFlight => {
            if let Some(anchor) = anchor(pool) {
                pool.delete_claim(&anchor);
            }
        }
        Meddling::Ask(index) => {
            if let Some(claim) = claims.get(*index) {
                pool.annotate(Kind::NodeClaim, claim, keys::ROTATE_REQUESTED, Some(&to_annotation(now)));
            }
        }
        Meddling::Spoil(kind, index, key, value) => {
            let object = [Some(&name), claims.get(*index), nodes.get(*index)][*kind];
            spoil(pool, *kind, object, keys::ANNOTATIONS[key % keys::ANNOTATIONS.len()].key, value);
        }
        Meddling::DeletePlaceholders(_) => pool.delete_placeholders(),
        Meddling::DeletePod(index) => {
            if let Some(node) = nodes.get(*index) {
                pool.delete_pod_on(node);
            }
        }
        Meddling::Scale(index, replicas) => {
            let workloads: Vec<String> = pool.ready_pods().into_keys().collect();
            pool.scale(&workloads[index % workloads.len()], *replicas);
        }
        Meddling::ProtectPod(index, value) => {
            if let Some(node) = nodes.get(*index) {
                pool.annotate_pod_on(node, keys::DO_NOT_DISRUPT, *value);
            }
        }
        Meddling::Ungovern(_) | Meddling::Edit(..) | Meddling::Quota(_) | Meddling::Limit(..) | Meddling::InFlight(..) => {}
    }
}

fn anchor(pool: &PoolWorld) -> Option<String> {
    pool.view.pools[&pool.name].metadata.annotation(keys::ACTIVE_ROTATION).map(str::to_owned)
}

/// Writes into one of our annotations. A freeze is the operator's own to write, and holds the pool.
fn spoil(pool: &mut PoolWorld, kind: usize, object: Option<&String>, key: &str, value: &str) {
    if let Some(object) = object.filter(|_| key != keys::FREEZE) {
        pool.annotate([Kind::NodePool, Kind::NodeClaim, Kind::Node][kind], object, key, Some(value));
    }
}

fn is_marked(pool: &PoolWorld, node: &str) -> bool {
    pool.nodes().get(node).is_some_and(|node| node.metadata.label(keys::MARKED).is_some())
}

/// `NODEROTATION_SEEDS`: how many (`make soak` plays more of them); `NODEROTATION_SEED`: only this one, with its log.
#[test]
fn invariants_hold_in_every_world() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("NODEROTATION_SEED") {
        let told = story(seed, None);
        told.log.iter().for_each(|line| println!("{line}"));
        assert!(told.wrong.is_empty(), "{:#?}", told.wrong);
        return;
    }
    let seeds = number("NODEROTATION_SEEDS").unwrap_or(200);
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let told: Vec<(u64, Told)> = std::thread::scope(|scope| {
        let work: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    (thread..seeds).step_by(threads as usize).map(|seed| (seed, lean(story(seed, None)))).collect::<Vec<_>>()
                })
            })
            .collect();
        work.into_iter().flat_map(|work| work.join().unwrap()).collect()
    });
    let (rotations, writes) = told.iter().fold((0, 0), |(rotations, writes), (_, told)| (rotations + told.rotations, writes + told.writes));
    println!("{seeds} worlds, {rotations} rotations, {writes} writes, {:.0?}", started.elapsed());
    assert!(rotations > seeds, "{rotations} rotations only");
    let failing: Vec<String> = told
        .iter()
        .filter(|(_, told)| !told.wrong.is_empty())
        .map(|(seed, told)| format!("make soak SEED={seed}    # {}", told.wrong[0]))
        .collect();
    assert!(failing.is_empty(), "{} of {seeds} seeds fail:\n{}", failing.len(), failing[..failing.len().min(20)].join("\n"));
}

/// Without the log, of which thousands would fill the memory.
fn lean(mut told: Told) -> Told {
    told.log = Vec::new();
    told
}
