//! A cluster in memory: objects with versions, merge patches, claims that go only when the test lets them; a fault at one
//! write; and what must hold after each.

use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use serde_json::{Value, json};

use crate::{
    api::{
        keys,
        time::{Time, to_annotation},
    },
    cluster::{Cluster, Failure},
    pass::{PassReport, pass},
    rotation::{
        effect::{Effect, Fresh, Kind, Outcome, Target, Verdict, apply},
        notice::Notice,
        tests::{
            check::words,
            fleet::{Fleet, Object, config, merge, typed},
        },
    },
    view::{Need, View},
};

/// What goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies right before the write.
    DieBefore,
    /// It dies right after: the write is stored, and nothing is told of it.
    DieAfter,
    /// The write is stored, and its answer is an error.
    LoseAnswer,
    /// Another process does a whole pass right before the write, as if no Lease kept it out.
    Rival,
    /// The API server refuses the write.
    Refuse,
}

pub struct State {
    pub fleet: Fleet,
    pub now: Time,
    /// Which pass this is; its id follows from it.
    pub pass: u32,
    /// Writes so far, over all passes.
    pub writes: usize,
    /// The fault, at the write with this number.
    pub fault: Option<(usize, Fault)>,
    dead: bool,
    pub told: Vec<Notice>,
    /// Every write, and what the world did.
    pub log: Vec<String>,
    deleted: BTreeMap<String, u32>,
}

/// The cluster.
pub struct Memory(RefCell<State>);

impl Memory {
    pub fn new(fleet: Fleet, now: Time) -> Self {
        Self(RefCell::new(State {
            fleet,
            now,
            pass: 0,
            writes: 0,
            fault: None,
            dead: false,
            told: Vec::new(),
            log: Vec::new(),
            deleted: BTreeMap::new(),
        }))
    }

    pub fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// The rival's pass comes once, where the next write is the one of the fault.
    async fn let_a_rival_in(&self, effect: &Effect) {
        let ours = {
            let mut state = self.state();
            let is_write = |state: &State| {
                let fresh = state.fresh(&effect.target());
                matches!(apply(effect, fresh.as_ref(), "rival"), Verdict::Patch(_) | Verdict::Create(_) | Verdict::Delete { .. })
            };
            if state.fault != Some((state.writes + 1, Fault::Rival)) || !is_write(&state) {
                return;
            }
            state.fault = None;
            let ours = state.pass;
            state.pass = 1000;
            ours
        };
        let config = config();
        let rival: Pin<Box<dyn Future<Output = PassReport> + '_>> = Box::pin(pass(self, &config, 1));
        rival.await;
        self.state().pass = ours;
    }

    /// Another process starts.
    pub fn next_pass(&self) {
        let mut state = self.state();
        state.pass += 1;
        state.dead = false;
    }
}

impl State {
    pub fn object(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.fleet.objects.get(&(kind, name.to_owned())).map(|object| &object.0)
    }

    fn fresh(&self, target: &Target) -> Option<Fresh> {
        let object = self.object(target.kind, &target.name)?;
        Some(match target.kind {
            Kind::NodePool => Fresh::NodePool(typed(object)),
            Kind::NodeClaim => Fresh::NodeClaim(typed(object)),
            Kind::Node => Fresh::Node(typed(object)),
            Kind::Pod => Fresh::Pod(typed(object)),
        })
    }

    fn write(&mut self, effect: &Effect, verdict: Verdict) {
        let target = effect.target();
        let key = (target.kind, target.name.clone());
        self.may(effect, &verdict);
        self.log.push(format!("pass {} write {}: {}", self.pass, self.writes, words(effect)));
        let version = json!((self.writes + 1).to_string());
        match verdict {
            Verdict::Patch(patch) => {
                let patch = patch.to_value();
                let object = &mut self.fleet.objects.get_mut(&key).unwrap().0;
                assert_eq!(patch["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
                merge(object, &patch);
                object["metadata"]["resourceVersion"] = version;
            }
            Verdict::Create(pod) => {
                let mut object = serde_json::to_value(pod).unwrap();
                object["metadata"]["uid"] = json!(format!("uid-{}", self.writes));
                object["metadata"]["resourceVersion"] = version;
                object["status"] = json!({"phase": "Pending"});
                self.fleet.objects.insert(key, Object(object));
            }
            Verdict::Delete { uid } => {
                let object = &mut self.fleet.objects.get_mut(&key).unwrap().0;
                assert_eq!(object["metadata"]["uid"], uid);
                if target.kind == Kind::Pod {
                    self.fleet.objects.remove(&key);
                } else {
                    object["metadata"]["deletionTimestamp"] = json!(to_annotation(self.now));
                    object["metadata"]["resourceVersion"] = version;
                }
            }
            Verdict::Already | Verdict::NotMine(_) | Verdict::Gone => unreachable!(),
        }
        self.holds();
    }

    fn annotation(&self, kind: Kind, name: &str, key: &str) -> Option<&str> {
        self.object(kind, name)?["metadata"]["annotations"][key].as_str()
    }

    /// What may be done only under a condition (invariants 4 and 5).
    fn may(&mut self, effect: &Effect, verdict: &Verdict) {
        match effect {
            Effect::Anchor { .. } | Effect::StartFallback { .. } => {
                assert_eq!(self.annotation(Kind::NodePool, "web", keys::FREEZE), None, "started although frozen");
                assert!(!self.fleet.policies.is_empty(), "started although ungoverned");
            }
            Effect::DeleteClaim { claim, .. } if matches!(verdict, Verdict::Delete { .. }) => {
                *self.deleted.entry(claim.clone()).or_default() += 1;
                assert_eq!(self.deleted[claim], 1, "{claim} is deleted twice");
                assert_eq!(self.annotation(Kind::NodePool, "web", keys::ACTIVE_ROTATION), Some(claim.as_str()));
                let fallback = self.annotation(Kind::NodePool, "web", keys::ROTATION_MODE).is_some();
                let own = format!("node-{claim}");
                let is_host = |(kind, name): &(Kind, String)| {
                    *kind == Kind::Node && *name != own && self.annotation(*kind, name, keys::SURGE_FOR) == Some(claim.as_str())
                };
                assert!(fallback || self.fleet.objects.keys().any(is_host), "{claim} is deleted without a frozen surge Node");
            }
            _ => {}
        }
    }

    /// What holds after every write (invariants 1 and 3).
    fn holds(&self) {
        let claims = self.fleet.objects.keys().filter(|(kind, _)| *kind == Kind::NodeClaim);
        let in_flight = claims.filter(|(kind, name)| {
            let state = self.annotation(*kind, name, keys::STATE).unwrap_or_default();
            ["pending", "draining"].contains(&state)
        });
        assert!(in_flight.count() <= 1, "two rotations at once");
        for ((kind, name), object) in &self.fleet.objects {
            if *kind == Kind::Node {
                assert_eq!(object.0["metadata"]["annotations"]["example.com/note"].as_str(), Some("mine"), "{name}");
            }
        }
    }
}

fn interrupted() -> Failure {
    Failure::Interrupted("the test's fault".into())
}

impl Cluster for Memory {
    fn now(&self) -> Time {
        self.state().now
    }

    async fn load(&self) -> Result<View, Failure> {
        Ok(self.state().fleet.load())
    }

    async fn read(&self, view: &mut View, needs: &BTreeSet<Need>) {
        self.state().fleet.answer(view, needs);
    }

    async fn apply(&self, effect: &Effect) -> Result<Outcome, Failure> {
        self.let_a_rival_in(effect).await;
        let mut state = self.state();
        if state.dead {
            return Err(interrupted());
        }
        let target = effect.target();
        let before = state.fresh(&target);
        let pass = format!("pass-{}", state.pass);
        let verdict = match apply(effect, before.as_ref(), &pass) {
            Verdict::Already => return Ok(Outcome::Already),
            Verdict::NotMine(why) => return Ok(Outcome::Raced(why)),
            Verdict::Gone => return Ok(Outcome::Gone),
            verdict => verdict,
        };
        state.writes += 1;
        let fault = state.fault.filter(|(at, _)| *at == state.writes).map(|(_, fault)| fault);
        if fault == Some(Fault::DieBefore) {
            state.dead = true;
            return Err(interrupted());
        }
        if fault == Some(Fault::Refuse) {
            return Ok(Outcome::Refused { status: 403, words: "not allowed".into() });
        }
        state.write(effect, verdict);
        match fault {
            Some(Fault::DieAfter) => {
                state.dead = true;
                Err(interrupted())
            }
            Some(Fault::LoseAnswer) => Err(Failure::Call { attempted: words(effect), why: "connection reset".into() }),
            _ => Ok(Outcome::landed(before, state.fresh(&target))),
        }
    }

    async fn tell(&self, notices: &[Notice]) {
        let mut state = self.state();
        if !state.dead {
            state.told.extend_from_slice(notices);
        }
    }

    async fn write_status(&self, policy: &str, _resource_version: &str, status: &Value) -> Result<(), Failure> {
        let mut state = self.state();
        if state.dead {
            return Err(interrupted());
        }
        if let Some(policy) = state.fleet.policies.get_mut(policy) {
            policy["status"] = status.clone();
        }
        Ok(())
    }
}
