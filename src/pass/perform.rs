//! Performs the effects of one step in order, tells what lands before the next one, and stops where the next pass has to
//! look again.

use super::known::Known;
use crate::{
    api::{events::Kind, keys},
    cluster::{Cluster, Failure},
    rotation::{
        announce::{Told, told},
        effect::{Fresh, Outcome},
        notice::Notice,
        step::{OnRefused, Planned},
        totals::Totals,
    },
};

/// What came of a step's effects.
#[derive(Debug, Default)]
pub struct Performed {
    /// Refusals and failed calls.
    pub errors: Vec<String>,
    /// What ends the whole pass.
    pub aborted: Option<Failure>,
    /// Conditions that came up, with the server's words.
    pub conditions: Vec<Notice>,
    /// The annotation with the pool's totals, where a write has moved them.
    counted: Option<String>,
    /// Whether the pool has an anchor after the last write on it; `None` where none was made.
    pub anchored: Option<Option<String>>,
}

impl Performed {
    /// The pool's totals as the last write left them; `None` where none has moved them, or they can't be read.
    pub fn totals(&self) -> Option<Totals> {
        Totals::read(self.counted.as_deref()?).ok()
    }

    /// Whether the pool counts as failed.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty() || self.aborted.is_some()
    }
}

/// Performs effects in order, each on its object as it is then.
pub async fn perform(cluster: &impl Cluster, effects: &[Planned]) -> Performed {
    perform_knowing(cluster, &Known::default(), effects).await
}

/// Performs effects in order, and reads first only what is not known.
pub async fn perform_knowing(cluster: &impl Cluster, known: &Known<'_>, effects: &[Planned]) -> Performed {
    let mut performed = Performed::default();
    let mut instead: &[Planned] = &[];
    for planned in effects {
        match one(cluster, known, planned, &mut performed).await {
            After::Next => {}
            After::Stop => break,
            After::Instead => {
                instead = planned.on_refused.as_deref().map(OnRefused::instead).unwrap_or_default();
                break;
            }
        }
    }
    // What undoes a refused attempt has nothing to undo itself.
    for planned in instead {
        if !matches!(one(cluster, known, planned, &mut performed).await, After::Next) {
            break;
        }
    }
    performed
}

enum After {
    Next,
    Stop,
    Instead,
}

async fn one(cluster: &impl Cluster, known: &Known<'_>, planned: &Planned, performed: &mut Performed) -> After {
    let target = planned.effect.target();
    let outcome = cluster.apply_knowing(&planned.effect, known.copy(&target)).await;
    known.learn(target, &outcome);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure @ Failure::Call { .. }) => {
            performed.errors.push(failure.to_string());
            return After::Stop;
        }
        Err(failure) => {
            performed.aborted = Some(failure);
            return After::Stop;
        }
    };
    performed.see(&outcome);
    match &outcome {
        Outcome::Landed { .. } | Outcome::Already => announce(cluster, planned, &outcome).await,
        Outcome::Gone => tracing::debug!("{}: not written, it is gone", planned.effect),
        Outcome::Raced(why) => tracing::debug!("{}: not written: {why}", planned.effect),
        Outcome::Refused { status, words } => return performed.refused(planned, *status, words),
    }
    if planned.goes_on(&outcome) { After::Next } else { After::Stop }
}

async fn announce(cluster: &impl Cluster, planned: &Planned, outcome: &Outcome) {
    match told(planned, outcome) {
        None => {}
        Some(Told::Log(line)) => tracing::info!("{line}"),
        Some(Told::Notice(notice)) => {
            let (pool, reason, message) = (&notice.pool, notice.reason, &notice.message);
            match notice.kind {
                Kind::Normal => tracing::info!(nodepool = pool, reason, "{message}"),
                Kind::Warning => tracing::warn!(nodepool = pool, reason, "{message}"),
            }
            cluster.tell(std::slice::from_ref(&notice)).await;
        }
    }
}

impl Performed {
    /// With what came of later effects.
    pub fn then(mut self, later: Self) -> Self {
        self.errors.extend(later.errors);
        self.conditions.extend(later.conditions);
        self.aborted = self.aborted.or(later.aborted);
        self.counted = later.counted.or(self.counted);
        self.anchored = later.anchored.or(self.anchored);
        self
    }

    fn see(&mut self, outcome: &Outcome) {
        if let Outcome::Landed { before, after: Some(Fresh::NodePool(pool)) } = outcome {
            let counted = pool.metadata.annotation(keys::TOTALS);
            if before.as_ref().is_none_or(|before| before.metadata.annotation(keys::TOTALS) != counted) {
                self.counted = counted.map(str::to_owned);
            }
            self.anchored = Some(pool.metadata.annotation(keys::ACTIVE_ROTATION).map(str::to_owned));
        }
    }

    fn refused(&mut self, planned: &Planned, status: u16, words: &str) -> After {
        let target = planned.effect.target();
        let what = format!("{:?} {}: the API server refuses the write ({status}): {words}", target.kind, target.name);
        let on_refused = planned.on_refused.as_deref();
        if let Some(mut notice) = on_refused.and_then(|on_refused| on_refused.tell.clone()) {
            notice.message = format!("{} ({status}): {words}", notice.message);
            self.conditions.push(notice);
        }
        self.errors.push(what);
        if on_refused.is_none_or(|on_refused| on_refused.instead().is_empty()) { After::Stop } else { After::Instead }
    }
}
