//! Rehearsal (§2): before anything is touched, the API server is asked by dry run whether it would agree to all that a
//! start does, the deletion at its end included.

use std::sync::Arc;

use super::{
    attempt::Surge,
    effect::{Effect, Fresh},
    notice::Notice,
    scene::Scene,
    state::State,
    step::Assessment,
};
use crate::{
    api::{events::Reason, karpenter::NodeClaim},
    candidates::{Bucket, Candidate},
    surge,
    view::{Answer, Missing},
};

/// So many candidates are tried in one pass.
pub const CANDIDATES: usize = 3;

/// What a rehearsal came to.
pub enum Rehearsed {
    /// The API server agrees, or can't tell; with what it would change.
    Agreed(Vec<Notice>),
    /// It refuses.
    Refused(Notice),
}

/// Takes candidates whose first stamp would be refused out of the turn. Past the first few nothing is asked: a pool
/// where all of those are refused starts nothing in this pass.
pub fn leave_out_unwritable(scene: &Scene<'_>, assessment: &mut Assessment) -> Result<(), Missing> {
    if !scene.config.rehearse {
        return Ok(());
    }
    let stamp =
        |candidate: &Candidate| Effect::BeginAttempt { claim: candidate.claim.clone(), from: &[State::None, State::Failed], at: scene.now };
    let asked: Vec<Effect> = assessment.candidates.iter().take(CANDIDATES).map(stamp).collect();
    // Hardly ever is a stamp refused: the others are asked for, together, only where the first one is.
    let first = ask(scene, asked.get(..1).unwrap_or_default())?;
    if !first.iter().any(|answer| matches!(answer, Answer::Refused { .. })) {
        return Ok(());
    }
    let answers = ask(scene, &asked)?;
    let unwritable: Vec<bool> = answers.iter().map(|answer| matches!(answer, Answer::Refused { .. })).collect();
    let refused = unwritable.iter().filter(|refused| **refused).count();
    let candidates = Arc::make_mut(&mut assessment.candidates);
    if refused == unwritable.len() {
        candidates.clear();
    } else {
        let mut refused = unwritable.into_iter();
        candidates.retain(|_| !refused.next().unwrap_or(false));
    }
    *assessment.census.entry(Bucket::Unwritable).or_default() += refused;
    if let Some(eligible) = assessment.census.get_mut(&Bucket::Eligible) {
        *eligible = eligible.saturating_sub(refused);
    }
    assessment.census.retain(|_, count| *count > 0);
    Ok(())
}

/// Rehearses a start with a surge.
pub fn surge(scene: &Scene<'_>, claim: &NodeClaim, surge: &Surge) -> Result<Rehearsed, Missing> {
    if !scene.config.rehearse {
        return Ok(Rehearsed::Agreed(Vec::new()));
    }
    let name = claim.metadata.name.clone();
    let node = claim.node().unwrap_or_default().to_owned();
    let writes =
        [Effect::Hold { node, claim: name.clone() }, Effect::CreatePlaceholder { pod: surge.pod.clone(), claim: name }, delete(claim)];
    let answers = ask(scene, &writes)?;
    for (write, answer) in writes.iter().zip(&answers) {
        if let Answer::Refused { status, words } = answer {
            return Ok(Rehearsed::Refused(refusal(scene, claim, write, *status, words)));
        }
    }
    let created = answers.get(1).and_then(|answer| match answer {
        Answer::Agreed { after: Some(after) } => match after.as_ref() {
            Fresh::Pod(pod) => Some(pod),
            _ => None,
        },
        _ => None,
    });
    if let Some(lost) = created.and_then(|created| surge::disowned(&surge.pod, created)) {
        return Ok(Rehearsed::Refused(disowned(scene, claim, lost)));
    }
    let mutated = created.and_then(|created| surge::mutated(&surge.pod, created)).map(|how| {
        let message = format!("The placeholder for NodeClaim {} would not be created as it was sent: {how}", claim.metadata.name);
        Notice::new(Reason::SurgeMutated, scene.regarding(), scene.name(), message)
    });
    Ok(Rehearsed::Agreed(mutated.into_iter().collect()))
}

/// A placeholder that would come without what tells it as ours would be found by no later pass, and stay for good.
fn disowned(scene: &Scene<'_>, claim: &NodeClaim, lost: &str) -> Notice {
    let message = format!(
        "No rotation of NodeClaim {} starts: its placeholder would be created without its {lost}, by which passes find it again. \
         Something in the cluster (an admission webhook or policy) takes it away: let it leave the Pods of namespace {} alone.",
        claim.metadata.name, scene.config.placeholder.namespace
    );
    Notice::new(Reason::SurgeRefused, scene.regarding(), scene.name(), message)
}

/// Rehearses the deletion of a forceful fallback.
pub fn fallback(scene: &Scene<'_>, claim: &NodeClaim) -> Result<Option<Notice>, Missing> {
    if !scene.config.rehearse {
        return Ok(None);
    }
    let delete = delete(claim);
    match scene.view.rehearsal(delete.clone())? {
        Answer::Refused { status, words } => Ok(Some(refusal(scene, claim, &delete, *status, words))),
        Answer::Agreed { .. } | Answer::Unknown(_) => Ok(None),
    }
}

fn delete(claim: &NodeClaim) -> Effect {
    Effect::DeleteClaim { claim: claim.metadata.name.clone(), uid: claim.metadata.uid.clone() }
}

fn refusal(scene: &Scene<'_>, claim: &NodeClaim, write: &Effect, status: u16, words: &str) -> Notice {
    let reason = if matches!(write, Effect::DeleteClaim { .. }) { Reason::DeleteRefused } else { Reason::SurgeRefused };
    let claim = &claim.metadata.name;
    let message = format!("No rotation of NodeClaim {claim} starts, since the API server would refuse it ({status}): {write}: {words}");
    Notice::new(reason, scene.regarding(), scene.name(), message)
}

/// The answers, or all that are missing at once.
fn ask<'a>(scene: &Scene<'a>, writes: &[Effect]) -> Result<Vec<&'a Answer>, Missing> {
    let mut missing = Missing::default();
    let mut answers = Vec::new();
    for write in writes {
        match scene.view.rehearsal(write.clone()) {
            Ok(answer) => answers.push(answer),
            Err(Missing(needs)) => missing.0.extend(needs),
        }
    }
    if missing.0.is_empty() { Ok(answers) } else { Err(missing) }
}
