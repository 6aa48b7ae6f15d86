//! Rehearsals: a write is sent with `dryRun=All`, so that the API server runs everything it would run for the real one
//! (rights, quota, limits, Pod Security, policies, webhooks) and stores nothing (§2). To us that is a read: it needs no
//! Lease, may be repeated, and ends with the deadline or a signal. It never fails a pool: what can't be told is unknown,
//! and the real write will tell.
//!
//! Rights know no dry run of their own, so a 403 is what the real write would get, too; likewise any other 4xx. Only what
//! refuses the dry run *as such* says nothing about the write: a webhook with side effects (400, "does not support dry
//! run"), an aggregated API or a proxy without it; those name it.

use bytes::Bytes;
use serde_json::Value;

use super::{
    call::{Api, CallError},
    execute::{Mode, fresh, read, request},
    resource::words,
};
use crate::{
    rotation::effect::{Effect, Fresh, Target, Verdict, rehearse as judge},
    view::Answer,
};

/// How often one write is tried at most while its object changes under it.
const TRIES: u32 = 3;

/// Asks whether the API server would do this, for the pass with this id. What is `known` of its object need
/// not be read; where that has changed since, the dry run conflicts, and it is read again.
pub async fn rehearse(api: &Api, pass: &str, effect: &Effect, mut known: Option<Option<Fresh>>) -> Answer {
    let target = effect.target();
    let mut last = String::new();
    for _ in 0..TRIES {
        let found = match known.take() {
            Some(known) => known,
            None => match read(api, &target).await {
                Ok(found) => found,
                Err(failure) => return Answer::Unknown(failure.to_string()),
            },
        };
        let verdict = match judge(effect, found.as_ref(), pass) {
            Verdict::Already => return Answer::Agreed { after: found.map(Box::new) },
            Verdict::NotMine(why) => return Answer::Unknown(why),
            Verdict::Gone => return Answer::Unknown(format!("there is no {}", words(&target))),
            write => write,
        };
        match ask(api, &target, &verdict).await {
            Ok(answer) => return answer,
            Err(conflict) => last = conflict,
        }
    }
    Answer::Unknown(format!("{TRIES} conflicts in a row, the last: {last}"))
}

/// Sends the dry run; `Err` where the object has changed meanwhile.
async fn ask(api: &Api, target: &Target, verdict: &Verdict) -> Result<Answer, String> {
    let (verb, request) = request(target, verdict, Mode::DryRun);
    let attempted = format!("{verb} {} (dry run)", words(target));
    let answer = match request {
        Ok(request) => api.read(&request).await,
        Err(error) => return Ok(Answer::Unknown(format!("{attempted}: {error}"))),
    };
    let creates = matches!(verdict, Verdict::Create(_));
    match answer {
        // Only at a new object anyone looks: would it be as it was sent?
        Ok(body) => Ok(Answer::Agreed { after: if creates { after(target, &body) } else { None } }),
        Err(CallError::Status { code: 409, words, .. }) => Err(words),
        Err(CallError::Status { code: 404, words, .. }) if !creates => Ok(Answer::Unknown(format!("{attempted}: {words}"))),
        Err(CallError::Status { code: status @ 400..=500, words, .. }) if is_about_the_write(status, &words) => {
            Ok(Answer::Refused { status, words })
        }
        Err(error) => Ok(Answer::Unknown(error.failure(&attempted).to_string())),
    }
}

/// The object as it would be; what stands in between may answer with a `Status` instead.
fn after(target: &Target, body: &Bytes) -> Option<Box<Fresh>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    if answer["kind"] == "Status" {
        return None;
    }
    fresh(target.kind, body).ok().map(Box::new)
}

/// Whether the real write would be refused likewise: not where the dry run itself is refused, nor where it is about who
/// we are (401) or what the server can bear (408, 429). A webhook that must be asked and doesn't answer is a 500 of the
/// API server's: it stands in the way of the real write, too.
fn is_about_the_write(status: u16, words: &str) -> bool {
    let squeezed: String = words.to_lowercase().chars().filter(|character| character.is_alphanumeric()).collect();
    let is_of_a_webhook = squeezed.contains("failedcallingwebhook");
    !matches!(status, 401 | 408 | 429) && (status < 500 || is_of_a_webhook) && !squeezed.contains("dryrun")
}

#[cfg(test)]
mod tests;
