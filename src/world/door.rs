//! The typed door: a pass reads the View and has its effects judged and stored, by the same [`apply`] as on a real cluster.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    history::{Event, Said, claim_named},
    pool::PoolWorld,
};
use crate::{
    api::{events::Reason, time::Time},
    cluster::{Cluster, Failure},
    rotation::{
        effect::{Effect, Fresh, Kind, Outcome, Patch, Target, Verdict, apply},
        notice::Notice,
    },
    view::{Answer, Facts, Need, View},
};

impl PoolWorld {
    /// A fresh copy of an object; `None` where there is none.
    pub fn fresh(&self, target: &Target) -> Option<Fresh> {
        match target.kind {
            // The View has only those that are marked, and of them the metadata.
            Kind::Node => self.nodes.get(&target.name).map(|node| Fresh::Node(node.clone())),
            Kind::NodePool | Kind::NodeClaim | Kind::Pod => self.view.copy_of(target).flatten(),
        }
    }

    /// Judges an effect on the object as it is, and stores what comes of it. `pass` signs the write.
    pub fn perform(&mut self, effect: &Effect, pass: &str) -> Outcome {
        let target = effect.target();
        let before = self.fresh(&target);
        match apply(effect, before.as_ref(), pass) {
            Verdict::Already => return Outcome::Already,
            Verdict::NotMine(why) => return Outcome::Raced(why),
            Verdict::Gone => return Outcome::Gone,
            Verdict::Patch(patch) => {
                // A copy that nobody holds any more is changed in place; what stood there counts for a release alone.
                let before = before.and_then(Fresh::pool).filter(|_| matches!(effect, Effect::Release { .. }));
                self.patch(&target, patch);
                return Outcome::Landed { before, after: self.fresh(&target) };
            }
            Verdict::Create(pod) => match self.admitted(&pod) {
                Ok(changed) => self.add_placeholder(changed.map_or(pod, Into::into)),
                Err((status, words)) => return Outcome::Refused { status, words },
            },
            Verdict::Delete { .. } => self.remove(&target),
        }
        self.note_effect(effect);
        Outcome::Landed { before: None, after: self.fresh(&target) }
    }

    /// What is worth a line in the history.
    fn note_effect(&mut self, effect: &Effect) {
        if let Effect::DeleteClaim { claim, .. } = effect {
            let claim = claim.clone();
            self.tell(&claim, Event::Draining, String::new());
        }
    }

    /// Stores a merge patch.
    pub(super) fn patch(&mut self, target: &Target, patch: Patch) {
        let version = self.next().to_string();
        let name = target.name.as_str();
        match target.kind {
            Kind::NodePool => {
                if let Some(pool) = self.view.pools.get_mut(name) {
                    patch.merge(&mut pool.metadata);
                    pool.metadata.resource_version = version;
                }
            }
            Kind::NodeClaim => {
                self.memory.changed(name);
                if let Some(claim) = self.view.claims.get_mut(name) {
                    patch.merge(&mut claim.metadata);
                    claim.metadata.resource_version = version;
                }
            }
            Kind::Node => self.with_node(name, |node| {
                patch.merge_spec(&mut node.spec);
                patch.merge(&mut node.metadata);
            }),
            // No effect patches a Pod.
            Kind::Pod => {}
        }
        self.note_change();
    }

    fn remove(&mut self, target: &Target) {
        match target.kind {
            Kind::Pod => {
                self.remove_placeholder(&target.name);
            }
            Kind::NodeClaim => {
                if let Some(id) = self.host_of.get(&target.name).copied() {
                    self.delete(id);
                }
            }
            // No effect deletes a pool or a Node.
            Kind::NodePool | Kind::Node => {}
        }
    }

    /// Answers what a step has to know.
    pub fn answer(&self, need: &Need, facts: &mut Facts) {
        match need {
            Need::NodesOfPool(pool) => {
                let nodes = if *pool == self.name { Arc::clone(&self.nodes) } else { Arc::default() };
                facts.nodes_of_pool.insert(pool.clone(), nodes);
            }
            Need::Node(name) => {
                facts.nodes.insert(name.clone(), self.nodes.get(name).cloned());
            }
            Need::PodsOn(node) => {
                facts.pods_on.insert(node.clone(), self.objects_on(node));
            }
            Need::BudgetsIn(namespace) => {
                facts.budgets.insert(namespace.clone(), self.budgets(namespace));
            }
            Need::EventsAbout(pod) => {
                facts.events.entry(pod.clone()).or_default();
            }
            Need::Rehearsal(rehearsal) => {
                let admitted = if let Effect::CreatePlaceholder { pod, .. } = &rehearsal.0 { self.admitted(pod) } else { Ok(None) };
                let answer = match admitted {
                    Ok(changed) => Answer::Agreed { after: changed.map(|pod| Box::new(Fresh::Pod(pod.into()))) },
                    Err((status, words)) => Answer::Refused { status, words },
                };
                facts.rehearsals.insert(rehearsal.clone(), answer);
            }
        }
    }

    /// Writes an engine's notice into the history, where it is of a transition.
    pub fn hear(&mut self, notice: &Notice) {
        if !self.hear_event(notice.reason, notice.regarding.kind, &notice.regarding.name, &notice.message) {
            self.note_said(notice.reason, &notice.message);
        }
    }

    /// The same of an Event about an object of this kind and name; says whether it is of a transition.
    pub(super) fn hear_event(&mut self, reason: &str, kind: &str, name: &str, message: &str) -> bool {
        let event = match reason {
            reason if reason == Reason::RotationStarted.about().name => Event::Started,
            reason if reason == Reason::RotationCompleted.about().name => Event::Completed,
            reason if reason == Reason::RotationFailed.about().name => Event::Failed,
            reason if reason == Reason::RotationExpired.about().name => Event::Overtaken,
            reason if reason == Reason::ForcefulFallback.about().name => Event::Fallback,
            reason if reason == Reason::WindowMissed.about().name => Event::WindowMissed,
            _ => return false,
        };
        let claim = match event {
            Event::WindowMissed => String::new(),
            _ if kind == "NodeClaim" => name.to_owned(),
            _ => claim_named(message).to_owned(),
        };
        self.tell(&claim, event, message.to_owned());
        true
    }

    fn note_said(&mut self, reason: &'static str, words: &str) {
        let first = self.now;
        let said = self.said.entry(reason).or_insert_with(|| Said { passes: 0, first, words: words.to_owned() });
        said.passes += 1;
    }

    /// An operator deletes a NodeClaim.
    pub fn delete_claim(&mut self, claim: &str) {
        if let Some(id) = self.host_of.get(claim).copied() {
            self.tell(claim, Event::Deleted, String::new());
            self.delete(id);
        }
    }
}

/// A pool's world as the cluster of a pass.
pub struct PoolDoor<'a> {
    world: &'a RefCell<PoolWorld>,
    pass: String,
}

impl<'a> PoolDoor<'a> {
    /// The door of a pass with this id.
    pub fn new(world: &'a RefCell<PoolWorld>, pass: String) -> Self {
        Self { world, pass }
    }
}

impl Cluster for PoolDoor<'_> {
    fn now(&self) -> Time {
        self.world.borrow().now
    }

    async fn load(&self) -> Result<View, Failure> {
        Ok(self.world.borrow().view.clone())
    }

    async fn read(&self, view: &mut View, needs: &BTreeSet<Need>) {
        let world = self.world.borrow();
        for need in needs {
            world.answer(need, &mut view.facts);
        }
    }

    async fn apply(&self, effect: &Effect) -> Result<Outcome, Failure> {
        Ok(self.world.borrow_mut().perform(effect, &self.pass))
    }

    async fn tell(&self, notices: &[Notice]) {
        let mut world = self.world.borrow_mut();
        for notice in notices {
            world.hear(notice);
        }
    }

    async fn write_status(&self, _policy: &str, _version: &str, _status: &Value) -> Result<(), Failure> {
        Ok(())
    }
}
