//! A step: what a pool looked like, what is to be done in order, and what is told when it lands.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    effect::{Effect, Outcome},
    notice::{Notice, Regarding},
    state::State,
    totals::Totals,
};
use crate::{
    api::{shared::Shared, time::Time},
    candidates::{Bucket, Candidate},
    schedule::{derive::Derivation, findings::Finding, window::Occurrence},
};

/// One pool's step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What was seen.
    pub assessment: Box<Assessment>,
    /// What is done, in a word and a sentence.
    pub action: Action,
    /// Bookkeeping beside the rotation: each write on its own, before the others.
    pub aside: Vec<Planned>,
    /// The writes, in order.
    pub effects: Vec<Planned>,
    /// The candidate, where the step starts a rotation.
    pub starts: Option<Candidate>,
    /// Conditions to tell, whatever lands.
    pub conditions: Vec<Shared<Notice>>,
    /// Nothing changes before this moment unless the cluster does; `None` for never.
    pub wake_at: Option<Time>,
    /// Why the pool counts as failed in this pass although its effects may land; such as an object that can't be read.
    pub error: Option<String>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Kebab-case code, such as `start`, `hold`, `await-surge`, `rollback`, `await-drain`, `complete`, `idle`.
    pub code: &'static str,
    /// One sentence.
    pub detail: String,
}

/// An effect in a step, with what follows from each result.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The write.
    pub effect: Effect,
    /// Told when it lands, and only then.
    pub say: Option<Box<Say>>,
    /// After `Gone`: go on, or leave the rest for the next pass.
    pub on_gone: Next,
    /// After `Refused`: `None` where nothing more is told, and the rest is left. The writes of one attempt have theirs in common.
    pub on_refused: Option<Shared<OnRefused>>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next effect.
    GoOn,
    /// The rest is left for the next pass.
    Stop,
}

/// What follows a refusal. It always makes the pool count as failed in this pass.
#[derive(Debug, Clone, PartialEq)]
pub struct OnRefused {
    /// The condition that is told, with the server's words added.
    pub tell: Option<Notice>,
    /// What undoes all that the step does, the latest first.
    pub undo: Shared<Vec<Planned>>,
    /// Where in it that begins which stands by then.
    pub from: usize,
}

impl OnRefused {
    /// Tells this, and leaves the rest.
    pub fn tell(notice: Notice) -> Self {
        Self { tell: Some(notice), undo: Shared::default(), from: 0 }
    }

    /// What is done instead of the rest.
    pub fn instead(&self) -> &[Planned] {
        self.undo.get(self.from..).unwrap_or_default()
    }
}

/// What is told of a transition that landed; the words are computed from what it found and left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Say {
    /// `RotationStarted`.
    Started {
        /// The pool.
        pool: Regarding,
        /// Why this claim, with age and deadline.
        why: String,
    },
    /// `ForcefulFallback`.
    Fallback {
        /// The pool.
        pool: Regarding,
        /// Why.
        why: String,
    },
    /// What a release counted: `RotationCompleted`, or `RotationExpired` where nobody could announce it earlier.
    Released {
        /// The pool.
        pool: Regarding,
        /// The claim; its UID is empty where it is gone.
        claim: Regarding,
        /// Whether an expired outcome was not announced yet.
        announce_expired: bool,
    },
    /// `RotationFailed`, with the retry count that the write produced.
    Failed {
        /// The claim.
        claim: Regarding,
        /// The pool.
        pool: String,
        /// What it waited for.
        why: String,
    },
    /// `RotationExpired`.
    Expired {
        /// The claim.
        claim: Regarding,
        /// The pool.
        pool: String,
    },
    /// `RotationSwept`.
    Swept {
        /// The claim.
        claim: Regarding,
        /// The pool.
        pool: String,
    },
    /// A fixed notice.
    Notice(Notice),
    /// Only a log line: what was done.
    Log(String),
}

/// What a pass saw of one pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assessment {
    /// The pool's name.
    pub pool: String,
    /// The policy that governs it.
    pub policy: Option<String>,
    /// The policies that tie for it; empty without a conflict.
    pub conflict: Vec<String>,
    /// Whether any policy matches: ungoverned pools have no series.
    pub governed: bool,
    /// Whether it could not be judged: its totals are told, which a gateway would else forget, and no gauge.
    pub unjudged: bool,
    /// Claims per bucket.
    pub census: BTreeMap<Bucket, usize>,
    /// Eligible candidates, in order.
    pub candidates: Arc<Vec<Candidate>>,
    /// When the claims that are eligible or in backoff were triggered.
    pub outstanding: Arc<Vec<Time>>,
    /// The derivation for the pool's template.
    pub derivation: Option<Derivation>,
    /// Findings on the pool.
    pub findings: Vec<Shared<Finding>>,
    /// Closed gates: why no rotation may start.
    pub gates: Vec<Gate>,
    /// The occurrence that is open now.
    pub window: Option<Occurrence>,
    /// When the next one opens.
    pub next_window: Option<Time>,
    /// The freeze, where one is set and can be read.
    pub freeze_until: Option<Time>,
    /// Claims whose lifetime is no longer than their lead time.
    pub short_lead: usize,
    /// The earliest deadline of the pool's claims that are not being deleted.
    pub next_deadline: Option<Time>,
    /// The largest retry count of the pool's claims.
    pub retry_count: u32,
    /// The next moment at which a claim changes its bucket by time alone.
    pub next_change: Option<Time>,
    /// The rotation in flight.
    pub in_flight: Option<InFlight>,
    /// The drain is over its estimate.
    pub drain_blocked: bool,
    /// The drain is over its bound.
    pub drain_stuck: bool,
    /// The durable totals as they were read.
    pub totals: Totals,
}

/// A closed gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Kebab-case code: `window-closed`, `blackout`, `suspended`, `frozen`, `cooldown`, `failure-pause`, `static-pool`, `finding`, `conflict`,
    /// `invalid-policy`, `swept`, `deleting`, `headroom`, `refused`, `max-in-flight`, `still-draining`.
    pub code: &'static str,
    /// Why, with times.
    pub detail: String,
    /// When it opens by itself, where that is known.
    pub until: Option<Time>,
}

/// A rotation in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// The old claim.
    pub claim: String,
    /// Its Node.
    pub node: Option<String>,
    /// Its state.
    pub state: State,
    /// Since when it is in that state.
    pub since: Option<Time>,
    /// When the rotation began; none in the pass that begins it.
    pub begun: Option<Time>,
    /// What it waits for.
    pub waiting_for: String,
}

impl Assessment {
    /// Follows the anchor after the step's last write on the pool (`None`: it was not written).
    pub fn follow(&mut self, anchored: Option<Option<String>>) {
        match anchored {
            None => {}
            Some(None) => self.in_flight = None,
            Some(Some(claim)) if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.claim == claim) => {}
            Some(Some(claim)) => {
                let waiting_for = "its surge was asked for in this pass".into();
                self.in_flight = Some(InFlight { claim, node: None, state: State::Pending, since: None, begun: None, waiting_for });
            }
        }
    }
}

impl Step {
    /// A step that does nothing yet.
    pub fn of(assessment: Box<Assessment>, action: Action) -> Self {
        Self {
            assessment,
            action,
            starts: None,
            aside: Vec::new(),
            effects: Vec::new(),
            conditions: Vec::new(),
            wake_at: None,
            error: None,
        }
    }

    /// A step that can't be decided; the pool counts as failed in this pass.
    pub fn failed(assessment: Box<Assessment>, error: String) -> Self {
        let mut step = Self::of(assessment, Action { code: "hold", detail: error.clone() });
        step.error = Some(error);
        step
    }

    /// The step of a pool that starts nothing, for one more reason.
    pub fn gated(mut assessment: Box<Assessment>, gate: Gate) -> Self {
        let action = Action { code: "gated", detail: format!("no start ({}): {}", gate.code, gate.detail) };
        assessment.gates.push(gate);
        Self::of(assessment, action)
    }

    /// The same step, waiting for this.
    pub fn waiting(mut self, detail: String) -> Self {
        if let Some(in_flight) = &mut self.assessment.in_flight {
            in_flight.waiting_for.clone_from(&detail);
        }
        self.action.detail = detail;
        self
    }
}

impl Planned {
    /// An effect after which only `Landed` and `Already` go on.
    pub fn new(effect: Effect) -> Self {
        Self { effect, say: None, on_gone: Next::Stop, on_refused: None }
    }

    /// Tells this when it lands.
    pub fn say(mut self, say: Say) -> Self {
        self.say = Some(say.into());
        self
    }

    /// Goes on where the object is gone: there is nothing to undo.
    pub fn gone_is_fine(mut self) -> Self {
        self.on_gone = Next::GoOn;
        self
    }

    /// What to do when it is refused.
    pub fn refused(mut self, on_refused: impl Into<Shared<OnRefused>>) -> Self {
        self.on_refused = Some(on_refused.into());
        self
    }

    /// Whether the next effect follows this outcome.
    pub fn goes_on(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Landed { .. } | Outcome::Already => true,
            Outcome::Gone => self.on_gone == Next::GoOn,
            Outcome::Raced(_) | Outcome::Refused { .. } => false,
        }
    }
}
