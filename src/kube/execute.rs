//! Performs one effect: read its object, judge, write what was judged, and on conflict read and judge again (§2).
//!
//! Where the pass has a copy of the object already, the first judgement is made on that. Only a patch that it leads to and
//! that lands counts: it lands on the copy's very version, so it would have come to the same after reading. Whatever else the
//! copy comes to (nothing to do, not ours, gone, a create, a delete, a refusal) may be because it is old: the object is read,
//! and judged as if nothing had been known.
//!
//! A write is conditional (a patch on the version, a delete on the UID, a create on absence), so it can be sent again
//! whatever became of the one before. What remains is to tell whose write it was that is found: ours, if its answer was
//! lost or a proxy sent it twice, or a rival's. That is what [`Doubt`] is about.

use bytes::Bytes;
use kube::{
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request as Resource,
};
use serde_json::Value;

use super::{
    call::{Api, CallError},
    faults::Faults,
    resource::{collection, words},
    session::Guard,
};
use crate::{
    api::{
        json::{self, Unreadable},
        karpenter::pod_meta,
        keys::{PROGRAM, WRITTEN_BY},
        meta::Meta,
    },
    cluster::Failure,
    rotation::effect::{Fresh, Kind, Outcome, Target, Verdict},
};

/// How often an effect is judged at most.
const JUDGEMENTS: u32 = 5;
/// How often a write is sent at most when its answer is lost.
const UNCLEAR_TRIES: u32 = 3;
/// The pause before an object is read again after a lost answer, times the answers lost so far.
const UNCLEAR_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// What performs effects.
pub struct Executor<'a> {
    /// The API server.
    pub api: &'a Api,
    /// Says whether a write may be sent.
    pub guard: &'a Guard,
    /// The fault switch.
    pub faults: &'a Faults,
    /// Our pass's id.
    pub pass: &'a str,
}

/// A write of ours that may be stored, although its answer says otherwise or never came.
struct Doubt {
    before: Option<Fresh>,
    /// The UID that it deletes.
    deletes: Option<String>,
    /// The answer was lost; else it was a conflict.
    lost: bool,
    attempted: String,
    why: String,
}

enum Sent {
    Done(Outcome),
    Doubtful(Doubt),
}

impl Executor<'_> {
    /// Performs the effect on this object that the judge decides on; first on what is `known` of it.
    ///
    /// # Errors
    /// [`Failure`] for what says nothing about the effect. Five conflicts in a row are a lost race, not a failure.
    pub async fn perform(
        &self,
        target: &Target,
        known: Option<Option<Fresh>>,
        judge: impl Fn(Option<&Fresh>) -> Verdict,
    ) -> Result<Outcome, Failure> {
        let mut doubt: Option<Doubt> = None;
        let mut lost = 0;
        let known = known.filter(|_| !self.api.clock.may_have_slept());
        if let Some((verdict, known)) = known.and_then(|known| Some((on_version(judge(known.as_ref()))?, known))) {
            self.guard.permits(&words(target))?;
            match self.write(target, verdict, known).await? {
                Sent::Done(outcome @ Outcome::Landed { .. }) => return Ok(outcome),
                Sent::Done(_) => {}
                Sent::Doubtful(new) => doubt = Some(self.doubt(new, None, &mut lost).await),
            }
        }
        for _ in 0..JUDGEMENTS {
            self.guard.permits(&words(target))?;
            let fresh = read(self.api, target).await?;
            if let Some(outcome) = doubt.as_ref().and_then(|doubt| doubt.deleted(fresh.as_ref())) {
                return Ok(outcome);
            }
            let verdict = match judge(fresh.as_ref()) {
                Verdict::Already => return Ok(self.already(fresh, doubt)),
                Verdict::NotMine(why) => return Ok(Outcome::Raced(why)),
                Verdict::Gone => return Ok(Outcome::Gone),
                write => write,
            };
            // The answer to the read may have told that it is later than it seemed.
            self.guard.permits(&words(target))?;
            if let Some(doubt) = doubt.take_if(|_| lost >= UNCLEAR_TRIES) {
                return Err(doubt.failure());
            }
            match self.write(target, verdict, fresh).await? {
                Sent::Done(outcome) => return Ok(outcome),
                Sent::Doubtful(new) => doubt = Some(self.doubt(new, doubt, &mut lost).await),
            }
        }
        match doubt {
            Some(doubt) if doubt.lost => Err(doubt.failure()),
            doubt => {
                let last = doubt.map(|doubt| doubt.why).unwrap_or_default();
                Ok(Outcome::Raced(format!("{JUDGEMENTS} conflicts in a row, the last: {last}")))
            }
        }
    }

    /// The doubt that is left by a write, after an earlier one; where the answer is lost, after a pause.
    async fn doubt(&self, new: Doubt, earlier: Option<Doubt>, lost: &mut u32) -> Doubt {
        if new.lost {
            *lost += 1;
            self.api.pause(UNCLEAR_PAUSE * *lost).await;
        }
        new.after(earlier)
    }

    /// It is as we want it. Did we do it? A pool or claim says who wrote it; a Pod or Node doesn't, so there it is ours
    /// where an answer was lost, and a Pod that wasn't there when we sent ours is ours.
    fn already(&self, fresh: Option<Fresh>, doubt: Option<Doubt>) -> Outcome {
        let (Some(found), Some(doubt)) = (&fresh, doubt) else { return Outcome::Already };
        let ours = match found {
            Fresh::NodePool(_) | Fresh::NodeClaim(_) => meta(found).annotation(WRITTEN_BY) == Some(self.pass),
            Fresh::Node(_) => doubt.lost,
            Fresh::Pod(_) => doubt.lost || doubt.before.is_none(),
        };
        if ours { Outcome::landed(doubt.before, fresh) } else { Outcome::Already }
    }

    async fn write(&self, target: &Target, verdict: Verdict, before: Option<Fresh>) -> Result<Sent, Failure> {
        let deletes = if let Verdict::Delete { uid } = &verdict { Some(uid.clone()) } else { None };
        let (verb, request) = request(target, &verdict, Mode::Real);
        let attempted = format!("{verb} {}", words(target));
        let request = request.map_err(|error| unbuildable(&attempted, &error))?;
        self.faults.before_write();
        let answer = self.api.write(&request).await;
        if answer.is_ok() {
            self.faults.after_write();
        }
        let error = match answer {
            Ok(body) => {
                let after = self.after(target, deletes.is_some(), &body).map_err(|why| Failure::Call { attempted, why })?;
                return Ok(Sent::Done(Outcome::landed(before, after)));
            }
            Err(error) => error,
        };
        let creates = matches!(verdict, Verdict::Create(_));
        let lost = error.is_unclear();
        match error {
            // Someone, or the first of two deliveries of ours, has deleted it.
            CallError::Status { code: 404, .. } if deletes.is_some() => Ok(Sent::Done(Outcome::landed(before, None))),
            CallError::Status { code: 404, .. } if !creates => Ok(Sent::Done(Outcome::Gone)),
            CallError::Status { code: 409, words, .. } => Ok(Sent::Doubtful(Doubt { before, deletes, lost, attempted, why: words })),
            // Not about this write: who we are, or how much the server can bear.
            CallError::Status { code: 401 | 429, .. } => Err(error.failure(&attempted)),
            CallError::Status { code: status @ 400..500, words, .. } if !lost => Ok(Sent::Done(Outcome::Refused { status, words })),
            error if lost => Ok(Sent::Doubtful(Doubt { before, deletes, lost, attempted, why: error.to_string() })),
            error => Err(error.failure(&attempted)),
        }
    }

    /// The object after the write; a delete may be answered with a `Status` instead.
    fn after(&self, target: &Target, deleted: bool, body: &Bytes) -> Result<Option<Fresh>, String> {
        if deleted {
            let answer: Value = serde_json::from_slice(body).unwrap_or_default();
            if answer["metadata"]["name"].as_str() != Some(&target.name) || answer["kind"] == "Status" {
                return Ok(None);
            }
        }
        fresh(target.kind, body).map(Some).map_err(|why| format!("it has landed, but its answer can't be read: {why}"))
    }
}

impl Doubt {
    fn failure(self) -> Failure {
        Failure::Call { attempted: self.attempted, why: self.why }
    }

    /// Whether what is found is what our delete leaves: nothing, another object of the name, or one that is going.
    fn deleted(&self, found: Option<&Fresh>) -> Option<Outcome> {
        let uid = self.deletes.as_ref()?;
        let ours = found.map(meta).filter(|meta| meta.uid == *uid);
        match ours {
            None => Some(Outcome::landed(self.before.clone(), None)),
            Some(meta) if meta.is_deleting() => Some(Outcome::landed(self.before.clone(), found.cloned())),
            Some(_) => None,
        }
    }

    /// This doubt, after an earlier one: an answer that was lost stays lost. What stood before the first write is kept
    /// as long as it may be that one that is stored.
    fn after(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) if earlier.lost => Self { lost: true, before: earlier.before, ..self },
            _ => self,
        }
    }
}

/// The verdict, where it is a write that lands on nothing but what was judged.
fn on_version(verdict: Verdict) -> Option<Verdict> {
    match verdict {
        Verdict::Patch(_) => Some(verdict),
        // A delete depends on the UID alone. A placeholder comes right after its Node was cordoned, and a scheduler that has
        // not seen that yet may bind it there: the moment that reading takes is left to it.
        Verdict::Delete { .. } | Verdict::Create(_) | Verdict::Already | Verdict::NotMine(_) | Verdict::Gone => None,
    }
}

/// The metadata of a fresh copy.
fn meta(fresh: &Fresh) -> Meta {
    match fresh {
        Fresh::NodePool(pool) => pool.metadata.clone(),
        Fresh::NodeClaim(claim) => claim.metadata.clone(),
        Fresh::Node(node) => node.metadata.clone(),
        Fresh::Pod(pod) => pod_meta(pod),
    }
}

/// Reads an effect's object; `None` where it does not exist.
///
/// # Errors
/// [`Failure`] that names it.
pub async fn read(api: &Api, target: &Target) -> Result<Option<Fresh>, Failure> {
    let attempted = format!("get {}", words(target));
    let request = Resource::new(collection(target)).get(&target.name, &GetParams::default());
    let request = request.map_err(|error| unbuildable(&attempted, &error))?;
    match api.read(&request).await {
        Ok(body) => fresh(target.kind, &body).map(Some).map_err(|why| Failure::Call { attempted, why: why.to_string() }),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error.failure(&attempted)),
    }
}

/// An object of this kind, as an answer tells it.
pub fn fresh(kind: Kind, body: &Bytes) -> Result<Fresh, Unreadable> {
    Ok(match kind {
        Kind::NodePool => Fresh::NodePool(json::direct(body)?),
        Kind::NodeClaim => Fresh::NodeClaim(json::direct(body)?),
        Kind::Node => Fresh::Node(json::direct(body)?),
        Kind::Pod => Fresh::Pod(json::from_slice(body)?),
    })
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Whether a write is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is stored.
    Real,
    /// The API server does all but store it.
    DryRun,
}

/// The request that a verdict asks for, and its verb.
pub fn request(target: &Target, verdict: &Verdict, mode: Mode) -> (&'static str, Built) {
    let dry_run = mode == Mode::DryRun;
    let resource = Resource::new(collection(target));
    match verdict {
        Verdict::Patch(patch) => {
            let params = PatchParams { dry_run, field_manager: Some(PROGRAM.into()), ..PatchParams::default() };
            ("patch", resource.patch(&target.name, &params, &Patch::Merge(patch)))
        }
        Verdict::Create(pod) => {
            let params = PostParams { dry_run, field_manager: Some(PROGRAM.into()) };
            let body = serde_json::to_vec(pod).map_err(kube::core::request::Error::SerializeBody);
            ("create", body.and_then(|body| resource.create(&params, body)))
        }
        Verdict::Delete { uid } => {
            let params = DeleteParams {
                dry_run,
                preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                // A placeholder holds nothing that has to end gracefully.
                grace_period_seconds: (target.kind == Kind::Pod).then_some(0),
                ..DeleteParams::default()
            };
            ("delete", resource.delete(&target.name, &params))
        }
        Verdict::Already | Verdict::NotMine(_) | Verdict::Gone => ("get", resource.get(&target.name, &GetParams::default())),
    }
}

fn unbuildable(attempted: &str, error: &kube::core::request::Error) -> Failure {
    Failure::Call { attempted: attempted.into(), why: error.to_string() }
}

#[cfg(test)]
mod tests;
