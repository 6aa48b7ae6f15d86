//! The Lease: one pass writes at a time (§2). Taken conditionally, renewed in the background until the last write,
//! released at the end; a process that is killed leaves it to expire before the next pass a minute later.
//!
//! Times are the server's. A write is allowed for half of the duration after the last renewal, so a holder that can't
//! renew stops writing well before anyone else may begin; and every write is conditional on its object's version anyway.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use chrono::TimeDelta;
use http::Request;
use kube::{
    api::{GetParams, Patch, PatchParams, PostParams},
    core::Request as Resource,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use super::{
    call::{Api, CallError, after},
    resource::leases,
};
use crate::{
    api::{
        keys::{LAST_PASS, PROGRAM},
        time::{Time, format_duration, later, to_micro},
    },
    cluster::Failure,
};

mod last;
mod record;

pub use last::LastPass;
pub use record::{Held, Record};

/// How long a renewal lasts.
pub const DURATION: TimeDelta = TimeDelta::seconds(20);
/// A write is allowed this long after the last renewal.
const WRITABLE: TimeDelta = TimeDelta::seconds(10);
/// The pause between renewals.
const RENEWAL: Duration = Duration::from_secs(5);
/// The pause after a renewal that failed.
const RENEWAL_AGAIN: Duration = Duration::from_secs(1);
/// A renewal, or the release, may take this long.
const LIMIT: Duration = Duration::from_secs(4);
/// A waiting pass looks again after this long.
const POLL: Duration = Duration::from_secs(1);
/// The pause before taking it is tried again.
const TAKE_AGAIN: Duration = Duration::from_millis(200);
/// The release as a whole, with a renewal that may be under way, is waited for no longer than this.
const RELEASE_LIMIT: Duration = Duration::from_secs(8);
/// How often taking it is tried while others write it, too.
const TRIES: u32 = 5;

/// The answer to an attempt to take it.
#[derive(Debug)]
pub enum Acquisition {
    /// It is ours, and is being renewed.
    Ours(Lease),
    /// Someone else holds it.
    Held(Held),
}

/// Our hold.
#[derive(Debug)]
pub struct Lease {
    hold: Arc<Hold>,
    end: oneshot::Sender<Option<LastPass>>,
    renewing: JoinHandle<()>,
}

#[derive(Debug)]
struct Hold(Mutex<Standing>);

#[derive(Debug, Clone)]
struct Standing {
    /// The `renewTime` that is stored for us.
    renewed: Time,
    /// The version that the next write depends on.
    version: String,
    /// Why it is no longer ours.
    lost: Option<String>,
    /// Why the last renewal failed.
    trouble: Option<String>,
}

/// Where it is and who we are.
#[derive(Clone)]
struct Desk {
    api: Api,
    namespace: String,
    identity: String,
}

/// What a waiting pass has seen of a record that makes no sense.
#[derive(Default)]
struct Watch(Option<(String, Instant)>);

impl Watch {
    /// Whether a record whose times can't be trusted has stood unchanged, before our eyes, for its whole duration: a
    /// holder would have renewed it.
    fn is_abandoned(&mut self, record: &Record, held: &Held) -> bool {
        let now = Instant::now();
        let since = match &self.0 {
            Some((version, since)) if *version == record.version => *since,
            _ => self.0.insert((record.version.clone(), now)).1,
        };
        held.oddity.is_some() && record.duration.to_std().is_ok_and(|duration| now - since >= duration)
    }
}

/// A name that no other process has: host, process, and a random part.
pub fn identity() -> String {
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    format!("{host}_{}_{:08x}", std::process::id(), rand::random::<u32>())
}

/// The Lease as it is stored; reads only. `None` where there is none.
///
/// # Errors
/// [`Failure`] where it can't be read.
pub async fn look(api: &Api, namespace: &str) -> Result<Option<Record>, Failure> {
    let desk = Desk { api: api.clone(), namespace: namespace.into(), identity: String::new() };
    desk.read().await.map_err(|error| error.failure(&desk.words("get")))
}

/// Takes the Lease in this namespace, waiting for as long as `patience` while it is held, but not past the deadline.
///
/// # Errors
/// [`Failure`] where it can't be read or written, or a signal ends the wait.
pub async fn acquire(api: &Api, namespace: &str, identity: &str, patience: Duration) -> Result<Acquisition, Failure> {
    let desk = Desk { api: api.clone(), namespace: namespace.into(), identity: identity.into() };
    let taken = desk.wait(patience, async |watch| desk.take(watch).await).await?;
    Ok(match taken {
        Ok(standing) => Acquisition::Ours(desk.keep(standing)),
        Err(held) => Acquisition::Held(held),
    })
}

/// Sees whether the Lease is free, waiting likewise; reads only.
///
/// # Errors
/// As [`acquire`].
pub async fn look_for(api: &Api, namespace: &str, identity: &str, patience: Duration) -> Result<Result<Sight, Held>, Failure> {
    let desk = Desk { api: api.clone(), namespace: namespace.into(), identity: identity.into() };
    let seen = desk.wait(patience, async |watch| desk.see(watch).await).await?;
    Ok(seen.map(|free| Sight { desk: desk.clone(), free }))
}

/// A Lease that was seen free. Whoever takes it on that sight knows that nobody has held it since: what was read of the
/// cluster meanwhile is as good as read while holding it.
pub struct Sight {
    desk: Desk,
    /// As it is stored; `None` where there is none.
    free: Option<Record>,
}

impl Sight {
    /// Takes it; `None` where it is no longer as it was seen: look again.
    ///
    /// # Errors
    /// [`Failure`] where it can't be written.
    pub async fn take(self) -> Result<Option<Lease>, Failure> {
        Ok(match self.desk.claim(self.free).await? {
            Ok(standing) => Some(self.desk.keep(standing)),
            Err(why) => {
                tracing::debug!("{}: {why}", self.desk.words("take"));
                self.desk.api.pause(TAKE_AGAIN).await;
                None
            }
        })
    }
}

impl Lease {
    /// Whether a write may be sent now; else why not.
    ///
    /// # Errors
    /// Words, for [`Failure::LeaseLost`].
    pub fn permits(&self, now: Time) -> Result<(), String> {
        let standing = self.hold.standing();
        if let Some(lost) = standing.lost {
            return Err(lost);
        }
        if now < later(standing.renewed, WRITABLE) {
            return Ok(());
        }
        let trouble = standing.trouble.unwrap_or_else(|| "no renewal has been answered".into());
        Err(format!("not renewed for {}: {trouble}", format_duration(now - standing.renewed)))
    }

    /// Ends the renewals and gives it back, with word of how the pass ended, if it was one. What fails is logged: the Lease
    /// then expires.
    pub async fn release(self, last: Option<LastPass>) {
        // Nobody listens any more where the Lease was lost.
        let _ = self.end.send(last);
        match tokio::time::timeout(RELEASE_LIMIT, self.renewing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the Lease was not released: {error}; it expires by itself"),
            Err(_) => tracing::warn!("the Lease was not released within {RELEASE_LIMIT:?}; it expires by itself"),
        }
    }
}

impl Hold {
    fn standing(&self) -> Standing {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Desk {
    /// Looks until it isn't held, for as long as `patience`.
    async fn wait<T>(
        &self,
        patience: Duration,
        mut look: impl AsyncFnMut(&mut Watch) -> Result<Result<T, Held>, Failure>,
    ) -> Result<Result<T, Held>, Failure> {
        let (until, mut watch) = (after(patience), Watch::default());
        loop {
            let held = match look(&mut watch).await? {
                Ok(free) => return Ok(Ok(free)),
                Err(held) => held,
            };
            let left = until.saturating_duration_since(Instant::now());
            let waited = !left.is_zero() && self.api.pause(POLL.min(left)).await;
            if self.api.stop.requested().is_some() {
                return Err(Failure::Interrupted("the Lease was free".into()));
            }
            if !waited {
                return Ok(Err(held));
            }
        }
    }

    /// Tries to take it; a conflict is judged again.
    async fn take(&self, watch: &mut Watch) -> Result<Result<Standing, Held>, Failure> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let free = match self.see(watch).await? {
                Ok(free) => free,
                Err(held) => return Ok(Err(held)),
            };
            match self.claim(free).await? {
                Ok(standing) => return Ok(Ok(standing)),
                Err(why) => last = why,
            }
            self.api.pause(TAKE_AGAIN).await;
        }
        Err(Failure::Call { attempted: self.words("take"), why: format!("{TRIES} tries, the last ended: {last}") })
    }

    /// Reads it, and judges whether it may be taken. It may be ours already, by an earlier write whose answer was lost.
    async fn see(&self, watch: &mut Watch) -> Result<Result<Option<Record>, Held>, Failure> {
        let record = self.read().await.map_err(|error| error.failure(&self.words("get")))?;
        let of_others = record.as_ref().filter(|record| record.holder != self.identity);
        if let Some((record, held)) = of_others.and_then(|record| Some((record, record.held(self.api.clock.now())?))) {
            if !watch.is_abandoned(record, &held) {
                return Ok(Err(held));
            }
            tracing::warn!("the Lease of {} is taken: nobody has written it for {}", held.by, format_duration(record.duration));
        }
        if let Some(finalizers) = record.as_ref().and_then(|record| record.ending.as_ref()) {
            tracing::warn!("the Lease is being deleted and held by its finalizers {finalizers:?}; it is used until it is gone");
        }
        Ok(Ok(record))
    }

    /// Creates it, or writes to the version that was seen free; else why it is not ours.
    async fn claim(&self, free: Option<Record>) -> Result<Result<Standing, String>, Failure> {
        let now = self.api.clock.now();
        let (verb, request) = match &free {
            None => ("create", self.creation(now)),
            Some(record) => ("take", self.patch(&record.version, &self.taken(record, now))),
        };
        let error = match self.written(request, None).await {
            Ok(version) => return Ok(Ok(Standing { renewed: now, version, lost: None, trouble: None })),
            Err(error) if error.code() == Some(409) || error.is_unclear() => error,
            // Deleted since it was seen. Without one, it is the namespace that is missing.
            Err(error) if error.code() == Some(404) && free.is_some() => error,
            Err(error) => return Err(error.failure(&self.words(verb))),
        };
        // Our name on it can only come from a write to a version that was free.
        let ours = self.read().await.ok().flatten().filter(|record| record.holder == self.identity);
        Ok(ours.map_or_else(
            || Err(error.to_string()),
            |record| Ok(Standing { renewed: record.acquired.unwrap_or(now), version: record.version, lost: None, trouble: None }),
        ))
    }

    /// Renews in the background until told to end, then releases.
    fn keep(self, standing: Standing) -> Lease {
        let hold = Arc::new(Hold(Mutex::new(standing)));
        let (end, mut ended) = oneshot::channel();
        let renewed = Arc::clone(&hold);
        let renewing = tokio::spawn(async move {
            let mut pause = RENEWAL;
            let last = loop {
                tokio::select! {
                    // A dropped sender ends it as well: nothing writes any more.
                    last = &mut ended => break last.ok().flatten(),
                    () = tokio::time::sleep(pause) => {}
                }
                pause = if self.renew(&renewed).await { RENEWAL } else { RENEWAL_AGAIN };
                if renewed.standing().lost.is_some() {
                    return;
                }
            };
            self.give_back(&renewed, last).await;
        });
        Lease { hold, end, renewing }
    }

    /// Renews once; only the version we know. `false` where it has to be tried again soon.
    async fn renew(&self, hold: &Hold) -> bool {
        let (now, version) = (self.api.clock.now(), hold.standing().version);
        let spec = json!({"holderIdentity": self.identity, "renewTime": to_micro(now)});
        match self.written(self.patch(&version, &spec), Some(LIMIT)).await {
            Ok(version) => {
                hold.set(|standing| (standing.renewed, standing.version, standing.trouble) = (now, version, None));
                true
            }
            Err(error) if error.code() == Some(404) => {
                hold.set(|standing| standing.lost = Some("it was deleted".into()));
                false
            }
            Err(error) if error.code() == Some(409) || error.is_unclear() => self.look_again(hold, now, &error).await,
            Err(error) => {
                hold.set(|standing| standing.trouble = Some(error.to_string()));
                false
            }
        }
    }

    /// After a renewal without a clear answer: what is stored? A renewal of ours that was stored counts; anyone else's
    /// name means that it is lost.
    async fn look_again(&self, hold: &Hold, sent: Time, error: &CallError) -> bool {
        match self.read_within(LIMIT).await {
            Ok(Some(record)) if record.holder == self.identity => {
                let stored = matches!(&record.renewed, Ok(Some(renewed)) if to_micro(*renewed) == to_micro(sent));
                hold.set(|standing| {
                    standing.version = record.version;
                    if stored {
                        (standing.renewed, standing.trouble) = (sent, None);
                    } else {
                        standing.trouble = Some(error.to_string());
                    }
                });
                stored
            }
            Ok(Some(record)) => {
                let holder = if record.holder.is_empty() { "nobody".into() } else { record.holder };
                hold.set(|standing| standing.lost = Some(format!("it is held by {holder}")));
                false
            }
            Ok(None) => {
                hold.set(|standing| standing.lost = Some("it was deleted".into()));
                false
            }
            Err(again) => {
                hold.set(|standing| standing.trouble = Some(format!("{error}; then {again}")));
                false
            }
        }
    }

    /// Gives it back, if it is still ours; a conflict with our own last renewal is tried once more.
    async fn give_back(&self, hold: &Hold, last: Option<LastPass>) {
        let mut version = hold.standing().version;
        let annotations = last.map(|last| json!({LAST_PASS: last.text()}));
        for _ in 0..2 {
            let now = to_micro(self.api.clock.now());
            let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now});
            let mut metadata = json!({"resourceVersion": version});
            if let Some(annotations) = &annotations {
                metadata["annotations"] = annotations.clone();
            }
            let patch = self.merge(&json!({"metadata": metadata, "spec": spec}));
            let error = match self.written(patch, Some(LIMIT)).await {
                Ok(_) => return,
                Err(error) => error,
            };
            match self.read_within(LIMIT).await {
                Ok(Some(record)) if record.holder == self.identity => version = record.version,
                Ok(_) => return,
                Err(_) => return tracing::warn!("{}: {error}; it expires by itself", self.words("release")),
            }
        }
    }

    fn words(&self, verb: &str) -> String {
        format!("{verb} Lease {}/{PROGRAM}", self.namespace)
    }

    fn resource(&self) -> Resource {
        Resource::new(leases(&self.namespace))
    }

    async fn read(&self) -> Result<Option<Record>, CallError> {
        let request = self.resource().get(PROGRAM, &GetParams::default()).map_err(unbuildable)?;
        found(self.api.read(&request).await)
    }

    async fn read_within(&self, limit: Duration) -> Result<Option<Record>, CallError> {
        let request = self.resource().get(PROGRAM, &GetParams::default()).map_err(unbuildable)?;
        found(self.api.send(&request, limit).await)
    }

    fn creation(&self, now: Time) -> Result<Request<Vec<u8>>, CallError> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": PROGRAM, "namespace": self.namespace},
            "spec": self.spec(now, 0),
        });
        let params = PostParams { field_manager: Some(PROGRAM.into()), ..PostParams::default() };
        self.resource().create(&params, lease.to_string().into_bytes()).map_err(unbuildable)
    }

    fn taken(&self, record: &Record, now: Time) -> Value {
        let transitions = record.transitions.saturating_add(1).clamp(0, i64::from(i32::MAX));
        self.spec(now, transitions)
    }

    fn spec(&self, now: Time, transitions: i64) -> Value {
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION.num_seconds(),
            "acquireTime": to_micro(now),
            "renewTime": to_micro(now),
            "leaseTransitions": transitions,
        })
    }

    /// A merge patch of the spec, conditional on this version.
    fn patch(&self, version: &str, spec: &Value) -> Result<Request<Vec<u8>>, CallError> {
        self.merge(&json!({"metadata": {"resourceVersion": version}, "spec": spec}))
    }

    fn merge(&self, patch: &Value) -> Result<Request<Vec<u8>>, CallError> {
        let params = PatchParams { field_manager: Some(PROGRAM.into()), ..PatchParams::default() };
        self.resource().patch(PROGRAM, &params, &Patch::Merge(patch)).map_err(unbuildable)
    }

    /// Sends a write, with a limit of its own or as any other; the version that it made.
    async fn written(&self, request: Result<Request<Vec<u8>>, CallError>, limit: Option<Duration>) -> Result<String, CallError> {
        let request = request?;
        let body = match limit {
            Some(limit) => self.api.send(&request, limit).await?,
            None => self.api.write(&request).await?,
        };
        Ok(record(&body)?.version)
    }
}

fn found(answer: Result<Bytes, CallError>) -> Result<Option<Record>, CallError> {
    match answer {
        Ok(body) => record(&body).map(Some),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

fn record(body: &[u8]) -> Result<Record, CallError> {
    serde_json::from_slice(body).map(|lease: Value| Record::read(&lease)).map_err(|error| CallError::Unreadable(error.to_string()))
}

fn unbuildable(error: kube::core::request::Error) -> CallError {
    CallError::Broken(error.to_string())
}

#[cfg(test)]
mod tests;
