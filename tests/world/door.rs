//! The typed door with faults: what a pass meets when processes die, answers are lost and others write in between.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use chrono::TimeDelta;
use noderotation::{
    api::{
        keys,
        time::{Time, later},
    },
    cluster::{Cluster, Failure},
    pass::{PassReport, pass},
    rotation::{
        effect::{Effect, Kind, Outcome, Target},
        notice::Notice,
        scene::Config,
    },
    view::{Facts, Need, View},
    world::pool::PoolWorld,
};
use rand::Rng;
use rand_pcg::Pcg64Mcg;

use crate::{defects::Defect, ledger::Ledger};

/// What goes wrong at one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies right before it.
    DieBefore,
    /// The process dies right after it.
    DieAfter,
    /// It is stored, and its answer is an error.
    LoseAnswer,
    /// Its answer is an error, and it is not stored.
    Fail,
    /// It is sent twice, and only the second answer arrives.
    Repeat,
    /// It is refused for good.
    Refuse,
    /// Another process does a whole pass right before it, as if no Lease kept it out.
    Rival,
    /// A minute and a half go by right before it.
    Stall,
}

pub const FAULTS: [Fault; 8] =
    [Fault::DieBefore, Fault::DieAfter, Fault::LoseAnswer, Fault::Fail, Fault::Repeat, Fault::Refuse, Fault::Rival, Fault::Stall];

/// All pools of a world, and what becomes of passes over them.
pub struct Door {
    pub pools: BTreeMap<String, RefCell<PoolWorld>>,
    pub ledger: RefCell<Ledger>,
    pub config: Config,
    pub defect: Option<Defect>,
    /// One write in so many meets a fault.
    pub one_in_faults: Cell<u32>,
    /// The fault at the write of this number.
    pub fault_at: Cell<Option<(u64, Fault)>>,
    pub writes: Cell<u64>,
    dead: Cell<bool>,
    serial: Cell<u32>,
    pass: Cell<u32>,
    rng: RefCell<Pcg64Mcg>,
}

fn interrupted() -> Failure {
    Failure::Interrupted("the world's fault".into())
}

fn failed(effect: &Effect) -> Failure {
    Failure::Call { attempted: effect.to_string(), why: "the world's fault".into() }
}

impl Door {
    pub fn new(pools: BTreeMap<String, RefCell<PoolWorld>>, config: Config, ledger: Ledger, seed: u64) -> Self {
        Self {
            pools,
            ledger: RefCell::new(ledger),
            config,
            defect: None,
            one_in_faults: Cell::new(0),
            fault_at: Cell::new(None),
            writes: Cell::new(0),
            dead: Cell::new(false),
            serial: Cell::new(0),
            pass: Cell::new(0),
            rng: RefCell::new(<Pcg64Mcg as rand::SeedableRng>::seed_from_u64(seed ^ 0xFA01)),
        }
    }

    pub fn advance(&self, until: Time) {
        for pool in self.pools.values() {
            pool.borrow_mut().advance(until);
        }
    }

    pub fn next_due(&self) -> Option<Time> {
        self.pools.values().filter_map(|pool| pool.borrow().next_due()).min()
    }

    pub fn take_changed(&self) -> bool {
        // Every one of them is asked: the question is what resets the answer.
        self.pools.values().filter(|pool| pool.borrow_mut().take_changed()).count() > 0
    }

    /// Another process does one pass.
    pub async fn pass(&self) -> PassReport {
        self.serial.set(self.serial.get() + 1);
        self.pass.set(self.serial.get());
        self.dead.set(false);
        self.ledger.borrow_mut().begin(self.now(), &self.pools, self.config.rehearse);
        let config = self.config.clone();
        let report = pass(self, &config, 1).await;
        self.ledger.borrow_mut().end(&report, &self.pools);
        for pool in self.pools.values() {
            let now = pool.borrow().now;
            pool.borrow_mut().advance(now);
        }
        report
    }

    /// The pool that an object belongs to.
    fn of(&self, target: &Target, effect: Option<&Effect>) -> Option<&RefCell<PoolWorld>> {
        if let Some(Effect::CreatePlaceholder { pod, .. }) = effect {
            return self.pools.get(pod.metadata.labels.as_ref()?.get(keys::NODEPOOL_LABEL)?);
        }
        self.pools.values().find(|pool| {
            let pool = pool.borrow();
            match target.kind {
                Kind::NodePool => pool.name == target.name,
                Kind::NodeClaim => pool.view.claims.contains_key(&target.name),
                Kind::Node => pool.nodes().contains_key(&target.name),
                Kind::Pod => pool.view.placeholders.contains_key(&target.name),
            }
        })
    }

    fn store(&self, effect: &Effect) -> Outcome {
        if let Some(defect) = self.defect
            && defect.swallows(effect)
        {
            return Outcome::Already;
        }
        let Some(pool) = self.of(&effect.target(), Some(effect)) else { return Outcome::Gone };
        let id = format!("pass-{}", self.pass.get());
        if let Some(defect) = self.defect {
            defect.prepares(effect, &mut pool.borrow_mut());
        }
        let outcome = pool.borrow_mut().perform(effect, &id);
        if let Some(defect) = self.defect {
            defect.spoils(effect, &outcome, &mut pool.borrow_mut());
        }
        if matches!(outcome, Outcome::Refused { .. }) {
            self.ledger.borrow_mut().refused();
        }
        if let Outcome::Landed { before, after } = &outcome {
            let pool = pool.borrow();
            self.ledger.borrow_mut().landed(effect, before.as_deref(), after.as_ref(), &pool);
        }
        outcome
    }

    /// Whether this effect would write, as far as can be told without doing it.
    fn is_write(&self, effect: &Effect) -> bool {
        use noderotation::rotation::effect::{Verdict, apply};
        let Some(pool) = self.of(&effect.target(), Some(effect)) else { return false };
        let fresh = pool.borrow().fresh(&effect.target());
        matches!(apply(effect, fresh.as_ref(), "nobody"), Verdict::Patch(_) | Verdict::Create(_) | Verdict::Delete { .. })
    }

    fn fault(&self) -> Option<Fault> {
        let write = self.writes.get() + 1;
        self.writes.set(write);
        if let Some((at, fault)) = self.fault_at.get()
            && at == write
        {
            return Some(fault);
        }
        let count = self.one_in_faults.get();
        let mut rng = self.rng.borrow_mut();
        (count > 0 && rng.random_ratio(1, count)).then(|| FAULTS[rng.random_range(0..FAULTS.len())])
    }

    async fn rival(&self) {
        let (ours, faults, at) = (self.pass.get(), self.one_in_faults.take(), self.fault_at.take());
        self.serial.set(self.serial.get() + 1);
        self.pass.set(self.serial.get());
        let config = self.config.clone();
        let rival: Pin<Box<dyn Future<Output = PassReport> + '_>> = Box::pin(pass(self, &config, 1));
        rival.await;
        self.pass.set(ours);
        self.one_in_faults.set(faults);
        self.fault_at.set(at);
    }
}

impl Cluster for Door {
    fn now(&self) -> Time {
        self.pools.values().next().unwrap().borrow().now
    }

    async fn load(&self) -> Result<View, Failure> {
        let mut view = View::default();
        for pool in self.pools.values() {
            let pool = pool.borrow().view.clone();
            view.policies.extend(pool.policies);
            view.pools.extend(pool.pools);
            view.claims.extend(pool.claims);
            view.placeholders.extend(pool.placeholders);
            view.marked.extend(pool.marked);
        }
        if let Some(defect) = self.defect {
            defect.deceives(&mut view);
        }
        Ok(view)
    }

    async fn read(&self, view: &mut View, needs: &BTreeSet<Need>) {
        for need in needs {
            let pools = self.pools.values().map(RefCell::borrow);
            let one = |pool: &PoolWorld| match need {
                Need::NodesOfPool(name) => pool.name == *name,
                Need::Node(name) | Need::PodsOn(name) => pool.nodes().contains_key(name),
                Need::BudgetsIn(_) => true,
                Need::EventsAbout(pod) => pool.view.placeholders.contains_key(pod),
                Need::Rehearsal(rehearsal) => {
                    self.of(&rehearsal.0.target(), Some(&rehearsal.0)).is_some_and(|of| of.borrow().name == pool.name)
                }
            };
            let mut budgets = Vec::new();
            let mut facts = std::mem::take(&mut view.facts);
            let mut answered = false;
            for pool in pools.filter(|pool| one(pool)) {
                pool.answer(need, &mut facts);
                answered = true;
                if let Need::BudgetsIn(namespace) = need {
                    budgets.extend(facts.budgets.remove(namespace).unwrap_or_default());
                }
            }
            if let Need::BudgetsIn(namespace) = need {
                facts.budgets.insert(namespace.clone(), budgets);
            } else if !answered {
                none(need, &mut facts);
            }
            view.facts = facts;
        }
    }

    async fn apply(&self, effect: &Effect) -> Result<Outcome, Failure> {
        if self.dead.get() {
            return Err(interrupted());
        }
        if !self.is_write(effect) {
            return Ok(self.store(effect));
        }
        match self.fault() {
            None => Ok(self.store(effect)),
            Some(Fault::DieBefore) => {
                self.dead.set(true);
                Err(interrupted())
            }
            Some(Fault::DieAfter) => {
                self.store(effect);
                self.dead.set(true);
                Err(interrupted())
            }
            Some(Fault::LoseAnswer) => {
                self.store(effect);
                Err(failed(effect))
            }
            Some(Fault::Fail) => Err(failed(effect)),
            // The shell knows its own write again: by its signature, its UID or the name of its placeholder.
            Some(Fault::Repeat) => {
                let first = self.store(effect);
                Ok(match self.store(effect) {
                    Outcome::Raced(_) | Outcome::Already | Outcome::Gone => first,
                    second => second,
                })
            }
            Some(Fault::Refuse) => {
                self.ledger.borrow_mut().refused();
                Ok(Outcome::Refused { status: 403, words: "the world's fault".into() })
            }
            Some(Fault::Rival) => {
                self.rival().await;
                Ok(self.store(effect))
            }
            Some(Fault::Stall) => {
                self.advance(later(self.now(), TimeDelta::seconds(90)));
                Ok(self.store(effect))
            }
        }
    }

    async fn tell(&self, notices: &[Notice]) {
        if !self.dead.get() {
            self.ledger.borrow_mut().told(notices, self.defect == Some(Defect::AnnounceTwice));
        }
    }

    async fn write_status(&self, _policy: &str, _version: &str, _status: &serde_json::Value) -> Result<(), Failure> {
        if self.dead.get() { Err(interrupted()) } else { Ok(()) }
    }
}

/// What is not there.
fn none(need: &Need, facts: &mut Facts) {
    match need {
        Need::NodesOfPool(pool) => drop(facts.nodes_of_pool.insert(pool.clone(), Default::default())),
        Need::Node(name) => drop(facts.nodes.insert(name.clone(), None)),
        Need::PodsOn(name) => drop(facts.pods_on.insert(name.clone(), Vec::new())),
        Need::EventsAbout(name) => drop(facts.events.insert(name.clone(), Default::default())),
        Need::Rehearsal(rehearsal) => {
            let gone = noderotation::view::Answer::Unknown("there is no such object".into());
            facts.rehearsals.insert(rehearsal.clone(), gone);
        }
        Need::BudgetsIn(_) => {}
    }
}
