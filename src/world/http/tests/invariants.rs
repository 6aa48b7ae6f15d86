//! What must hold after every request, judged by the objects and by what the models did.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt};

use crate::{
    api::{keys, time::to_annotation},
    rotation::{state::State, totals::Totals},
    surge::{PlaceholderState, placeholder_name},
    world::{
        history::Event,
        http::{Actor, World},
        pool::PoolWorld,
    },
};

/// The judge of a world.
#[derive(Clone)]
pub struct Invariants {
    world: World,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Default)]
struct Notes {
    /// How many claims each pool had.
    had: BTreeMap<String, usize>,
    /// Claims whose surge was seen Ready.
    surged: BTreeSet<String>,
    wrong: Vec<String>,
    /// Whether one node more is all there may be: what keeps a placeholder through a drain, brings another.
    is_calm: bool,
}

impl Invariants {
    pub fn of(world: &World) -> Self {
        let had = world.look(|pools| pools.iter().map(|pool| (pool.name.clone(), pool.view.claims.len())).collect());
        // What a drain under way had, cannot be seen any more.
        let surged = world.look(|pools| pools.iter().flat_map(drained).cloned().collect());
        let notes = Notes { had, surged, is_calm: true, ..Notes::default() };
        let judge = Self { world: world.clone(), notes: Arc::new(Mutex::new(notes)) };
        judge.judge("at the beginning");
        judge
    }

    /// The same where requests go wrong.
    pub fn in_trouble(world: &World) -> Self {
        let judge = Self::of(world);
        judge.notes.lock().unwrap().is_calm = false;
        judge
    }

    /// The program's door, at which every answer is judged.
    pub fn door(
        &self,
    ) -> impl Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + Send + Sync + 'static {
        let (judge, door) = (self.clone(), self.world.door(Actor::Program));
        tower::service_fn(move |request: Request<Body>| {
            let (judge, door) = (judge.clone(), door.clone());
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let answer = door.oneshot(request).await;
                judge.judge(&line);
                answer
            }
        })
    }

    fn judge(&self, after: &str) {
        let mut notes = self.notes.lock().unwrap();
        self.world.look(|pools| {
            for pool in pools {
                notes.see(pool);
                for wrong in notes.wrong_with(pool) {
                    let now = to_annotation(pool.now);
                    notes.wrong.push(format!("{now} after {after}: pool {}: {wrong}", pool.name));
                }
            }
        });
    }

    /// Nothing was ever wrong.
    pub fn assert(&self, words: &str) {
        let wrong = self.notes.lock().unwrap().wrong.first().cloned();
        assert!(wrong.is_none(), "{words}: {wrong:?}\n{}", self.history());
    }

    /// Nothing was ever wrong, nothing is in flight or left over, and what was counted is what happened.
    pub fn assert_rest(&self, words: &str) {
        self.assert(words);
        self.world.look(|pools| {
            for pool in pools {
                let left = left_over(pool);
                assert!(left.is_empty(), "{words}: left over at rest: {left:?}\n{}", self.history_of(pools));
                let (counted, happened) = (counted(pool), happened(pool));
                assert_eq!(counted, happened, "{words}: counted, and happened\n{}", self.history_of(pools));
            }
        });
    }

    /// Whether no rotation is in flight, and one has been.
    pub fn is_at_rest(&self) -> bool {
        self.world.look(|pools| pools.iter().all(|pool| anchor(pool).is_none() && count(pool, Event::Draining) > 0))
    }

    fn history(&self) -> String {
        self.world.look(|pools| self.history_of(pools))
    }

    fn history_of(&self, pools: &[PoolWorld]) -> String {
        let happenings = pools.iter().flat_map(|pool| &pool.history);
        let line = |at, claim: &str, event: Event, detail: &str| format!("{} {claim} {} {detail}\n", to_annotation(at), event.as_str());
        happenings.map(|happening| line(happening.at, &happening.claim, happening.event, &happening.detail)).collect()
    }
}

impl Notes {
    fn see(&mut self, pool: &PoolWorld) {
        let running = pool.view.claims.keys().filter(|claim| {
            let placeholder = pool.view.placeholders.get(&placeholder_name(claim));
            matches!(PlaceholderState::of(placeholder.map(|placeholder| &**placeholder)), PlaceholderState::Running { .. })
        });
        self.surged.extend(running.cloned());
    }

    fn wrong_with(&self, pool: &PoolWorld) -> Vec<String> {
        let mut wrong = Vec::new();
        let in_flight = |state| matches!(state, State::Pending | State::Draining);
        let count = pool.view.claims.values().filter(|claim| in_flight(State::of(&claim.metadata))).count();
        if count > 1 {
            wrong.push(format!("(1) {count} rotations are in flight"));
        }
        let (has, had) = (pool.view.claims.len(), self.had[&pool.name]);
        if self.is_calm && has > had + 1 {
            wrong.push(format!("(3) it has {has} claims, and had {had}"));
        }
        for node in pool.nodes.values().filter(|node| node.metadata.label(keys::MARKED).is_none()) {
            if node.spec.unschedulable || node.metadata.annotation(keys::DO_NOT_DISRUPT).is_some() {
                wrong.push(format!("(2) Node {} keeps what a rotation did to it", node.metadata.name));
            }
        }
        let mut deleted = BTreeSet::new();
        for claim in drained(pool) {
            if !deleted.insert(claim) {
                wrong.push(format!("(5) {claim} was deleted twice"));
            }
            if !self.surged.contains(claim) {
                wrong.push(format!("(5) {claim} was deleted without a Ready surge"));
            }
        }
        // One that failed may be started again, which takes trouble.
        let started = self.is_calm.then_some(Event::Started);
        for event in [Event::Completed, Event::Overtaken].into_iter().chain(started) {
            let mut told = BTreeSet::new();
            for happening in pool.history.iter().filter(|happening| happening.event == event) {
                if !told.insert(&happening.claim) {
                    wrong.push(format!("(7) {} of {} was told twice", event.as_str(), happening.claim));
                }
            }
        }
        wrong
    }
}

fn anchor(pool: &PoolWorld) -> Option<&str> {
    pool.view.pools[&pool.name].metadata.annotation(keys::ACTIVE_ROTATION)
}

/// The claims that the program deleted, in order.
fn drained(pool: &PoolWorld) -> impl Iterator<Item = &String> {
    pool.history.iter().filter(|happening| happening.event == Event::Draining).map(|happening| &happening.claim)
}

fn count(pool: &PoolWorld, event: Event) -> usize {
    pool.history.iter().filter(|happening| happening.event == event).count()
}

fn left_over(pool: &PoolWorld) -> Vec<String> {
    let mut left: Vec<String> = anchor(pool).map(|claim| format!("the anchor on {claim}")).into_iter().collect();
    left.extend(pool.view.placeholders.keys().map(|pod| format!("Pod {pod}")));
    let marked = pool.nodes.values().filter(|node| node.metadata.label(keys::MARKED).is_some());
    left.extend(marked.map(|node| format!("the marks on Node {}", node.metadata.name)));
    left
}

/// Successes and claims that others deleted, as the pool counts them.
fn counted(pool: &PoolWorld) -> (usize, usize) {
    let totals = Totals::of(&pool.view.pools[&pool.name].metadata).unwrap();
    (usize::try_from(totals.success).unwrap(), usize::try_from(totals.expired).unwrap())
}

/// Claims that the program deleted and that are gone; nobody else deletes any.
fn happened(pool: &PoolWorld) -> (usize, usize) {
    (drained(pool).filter(|claim| !pool.view.claims.contains_key(*claim)).count(), 0)
}
