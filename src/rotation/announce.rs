//! The words of what landed, from what the write found and left; never from what was attempted (§5.2).

use super::{
    effect::{Effect, Ended, Fresh, Outcome, ended, retry_count},
    notice::Notice,
    step::{Planned, Say},
};
use crate::api::{
    events::Reason,
    keys,
    time::{format_duration, to_annotation},
};

/// What is told of a landed effect: an Event with its log line, or a log line alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// An Event.
    Notice(Notice),
    /// A log line.
    Log(String),
}

/// What is told of this outcome; nothing unless it landed.
pub fn told(planned: &Planned, outcome: &Outcome) -> Option<Told> {
    let Outcome::Landed { before, after } = outcome else { return None };
    let say = planned.say.as_deref()?;
    let notice = match say {
        Say::Log(line) => return Some(Told::Log(line.clone())),
        Say::Notice(notice) => notice.clone(),
        Say::Started { pool, why } => Notice::new(Reason::RotationStarted, pool.clone(), &pool.name, format!("Rotation of {why}")),
        Say::Fallback { pool, why } => {
            Notice::new(Reason::ForcefulFallback, pool.clone(), &pool.name, format!("Deleted without a surge: {why}"))
        }
        Say::Expired { claim, pool } => {
            let message = format!("NodeClaim {} was deleted by someone else while its rotation was in flight", claim.name);
            Notice::new(Reason::RotationExpired, claim.clone(), pool, message)
        }
        Say::Swept { claim, pool } => {
            let message = format!("NodeClaim {} was in flight although no anchor names it: marked failed", claim.name);
            Notice::new(Reason::RotationSwept, claim.clone(), pool, message)
        }
        Say::Failed { claim, pool, why } => {
            let retries = match after {
                Some(Fresh::NodeClaim(after)) => retry_count(&after.metadata),
                _ => 0,
            };
            let message = format!("Attempt {retries} on NodeClaim {} failed and was rolled back: {why}", claim.name);
            Notice::new(Reason::RotationFailed, claim.clone(), pool, message)
        }
        Say::Released { pool, claim, announce_expired } => {
            let before = before.as_ref()?;
            let Effect::Release { end, at, .. } = &planned.effect else { return None };
            match ended(before, *end) {
                Ended::Success => {
                    let meta = &before.metadata;
                    let wait = meta.annotation(keys::SURGE_WAIT).map_or("without a surge".into(), |wait| format!("surge {wait}"));
                    let drain = meta.stamp(keys::DRAINING_AT).time().filter(|since| since <= at);
                    let drain = drain.map_or("drain of unknown length".into(), |since| format!("drain {}", format_duration(*at - since)));
                    let message = format!("NodeClaim {} was rotated at {}: {wait}, {drain}", claim.name, to_annotation(*at));
                    Notice::new(Reason::RotationCompleted, pool.clone(), &pool.name, message)
                }
                Ended::Expired if *announce_expired => {
                    let message = format!("NodeClaim {} was gone before its rotation could finish", claim.name);
                    Notice::new(Reason::RotationExpired, claim.clone(), &pool.name, message)
                }
                Ended::Expired | Ended::Failure => return Some(Told::Log(format!("released the anchor on NodeClaim {}", claim.name))),
                Ended::Nothing => return Some(Told::Log(format!("released the anchor on NodeClaim {} without an outcome", claim.name))),
            }
        }
    };
    Some(Told::Notice(notice))
}
