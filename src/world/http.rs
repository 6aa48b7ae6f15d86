//! The HTTP door: a `tower` service that speaks the Kubernetes API over [`PoolWorld`]s, so that the whole program with its
//! real client runs against the embedded world.
//!
//! What the models know (NodePools, NodeClaims, Nodes, Pods, PodDisruptionBudgets, the Pods' controllers and their volumes) is rendered from
//! the world and written into it; every other object, such as Leases, Events and policies, lies on a shelf as JSON. Fields that the world doesn't
//! know are kept beside it, so that they survive.
//!
//! The time is that of tokio's clock: the world goes on by as much as has passed there whenever somebody asks it
//! something. With that clock paused, a pass takes no time but for what it waits, and a month takes seconds.
//!
//! Not served: PUT, watches, other patches than merge patches, subresources but `status`, and namespaces as objects.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use chrono::TimeDelta;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, request::Parts};
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::pool::PoolWorld;
use crate::{
    api::time::{Time, later},
    policy::read,
};

mod answer;
pub mod faults;
mod limits;
mod live;
mod merge;
mod pages;
mod pods;
mod quota;
mod request;
mod resource;
mod selector;
mod store;
mod volumes;
mod workloads;
mod write;

#[cfg(test)]
mod tests;

use answer::Answer;
use pages::Pages;
use request::{Call, Verb};
use resource::{Key, POLICIES};

/// Who asks. The API server tells its callers apart by their credentials; in the world a door is opened for one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The program under test.
    Program,
    /// Somebody with `kubectl`.
    Operator,
}

/// NodePools behind an API server. Cheap to clone: all clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

/// What is behind the door.
#[derive(Clone)]
struct State {
    pools: Vec<PoolWorld>,
    /// What the models don't know, by key.
    shelf: BTreeMap<Key, Value>,
    /// What was written to objects of the models, whole.
    whole: BTreeMap<Key, Value>,
    pages: Pages,
    /// Grows with every write of the shelf.
    version: u64,
    /// Up to when the models have gone.
    reached: Time,
    /// The world's time at this moment of tokio's clock.
    begun: (Time, Instant),
}

impl World {
    /// These pools, of which each is at `now`.
    pub fn new(pools: Vec<PoolWorld>, now: Time) -> Self {
        Self(Arc::new(Mutex::new(State {
            pools,
            shelf: BTreeMap::new(),
            whole: BTreeMap::new(),
            pages: Pages::default(),
            version: 1,
            reached: now,
            begun: (now, Instant::now()),
        })))
    }

    /// Another world, which goes on from where this one was last asked: to try out another future of it.
    pub fn fork(&self) -> Self {
        let mut state = self.state().clone();
        state.begun = (state.reached, Instant::now());
        Self(Arc::new(Mutex::new(state)))
    }

    /// A client of this world; to be called inside a runtime.
    pub fn client(&self, actor: Actor) -> kube::Client {
        kube::Client::new(self.door(actor), "default")
    }

    /// The service that answers this caller.
    pub fn door(&self, actor: Actor) -> Door {
        Door { world: self.clone(), actor }
    }

    /// The world's time.
    pub fn now(&self) -> Time {
        self.state().now()
    }

    /// Looks at the pools as they are now.
    pub fn look<T>(&self, look: impl FnOnce(&[PoolWorld]) -> T) -> T {
        let mut state = self.state();
        state.go_on();
        look(&state.pools)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, actor: Actor, head: &Parts, body: &[u8]) -> (Answer, Time) {
        let mut state = self.state();
        state.go_on();
        (state.answer(actor, head, body), state.now())
    }
}

impl State {
    fn now(&self) -> Time {
        let (time, moment) = self.begun;
        let passed = TimeDelta::try_seconds(i64::try_from(moment.elapsed().as_secs()).unwrap_or(i64::MAX)).unwrap_or(TimeDelta::MAX);
        later(time, passed)
    }

    /// Lets the models go on until now. What was written since they last did is scheduled first, at the time of the write.
    fn go_on(&mut self) {
        let now = self.now();
        if now <= self.reached {
            return;
        }
        for pool in &mut self.pools {
            pool.schedule();
            pool.advance(now);
        }
        self.reached = now;
        self.part_from_gone();
    }

    fn answer(&mut self, actor: Actor, head: &Parts, body: &[u8]) -> Answer {
        let done = Call::read(head, body).and_then(|call| match call.verb {
            Verb::Get => self.one(&call),
            Verb::List => self.list(&call),
            Verb::Create => self.create(&call, actor),
            Verb::Patch => self.patch(&call),
            Verb::Delete => self.delete(&call, actor),
        });
        done.unwrap_or_else(|refusal| refusal)
    }

    /// Hands the policies to the models, so that the typed door sees what this one stores.
    fn share_policies(&mut self) {
        let stored = self.shelf.iter().filter(|(key, _)| key.is(POLICIES));
        let policies: BTreeMap<_, _> = stored.map(|(key, object)| (key.name.clone(), read::policy(object))).collect();
        for pool in &mut self.pools {
            pool.view.policies.clone_from(&policies);
            pool.note_change();
        }
    }
}

/// The service. Its answers carry the world's time as `Date`.
#[derive(Clone)]
pub struct Door {
    world: World,
    actor: Actor,
}

impl Service<Request<Body>> for Door {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let door = self.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let (answer, now) = door.world.answer(door.actor, &head, &body);
            respond(answer, now)
        }
        .boxed()
    }
}

fn respond(answer: Answer, now: Time) -> Result<Response<Body>, BoxError> {
    let (media, body) = match answer.body {
        Value::String(text) => ("text/plain", text),
        body => ("application/json", body.to_string()),
    };
    let date = now.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let response = Response::builder().status(answer.code).header("Content-Type", media).header("Date", date);
    Ok(response.body(Body::from(body.into_bytes()))?)
}
