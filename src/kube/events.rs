//! Tells notices as Events (§8). A process that lives for a second can't remember what it has said, so the API server
//! does: a condition's Event has a name that follows from its object, reason and subject, and is not written again while
//! it is still there (its TTL is the reminder interval). Failing to tell costs nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use kube::{api::PostParams, core::Request as Resource};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::{call::Api, list::List, resource, session::Guard};
use crate::{
    api::{
        events::{Kind, Lasting, Reason},
        karpenter::Node,
        keys::{PROGRAM, REPORTING_CONTROLLER},
        time::{Time, to_micro},
    },
    rotation::notice::Notice,
};

/// Events about cluster-scoped objects have to be here.
const NAMESPACE: &str = "default";
/// The most bytes that a note may have.
const NOTE: usize = 1024;
/// The most bytes that an instance may have.
const INSTANCE: usize = 128;
/// Bytes of an object's name that go into an Event's: with a dot and the hash they are a valid name.
const NAME: usize = 200;
/// How many are written at once.
const AT_ONCE: usize = 4;

/// What the API server still knew of our Events when the pass first had a condition to tell.
#[derive(Debug, Default)]
pub struct Said(OnceCell<BTreeSet<String>>);

/// Who tells.
pub struct Teller<'a> {
    /// The API server.
    pub api: &'a Api,
    /// Says whether anything may be written.
    pub guard: &'a Guard,
    /// What has been said; one per pass.
    pub said: &'a Said,
    /// The process.
    pub instance: &'a str,
    /// Our pass's id.
    pub pass: &'a str,
}

impl Teller<'_> {
    /// Tells them.
    pub async fn tell(&self, notices: &[Notice]) {
        let now = self.api.clock.now();
        let lasts = notices.iter().any(|notice| notice.lasting == Lasting::Condition);
        let said = if lasts { self.said.0.get_or_init(|| already_said(self.api)).await.clone() } else { BTreeSet::new() };
        let named = notices.iter().enumerate().map(|(index, notice)| (name(notice, self.pass, now, index), notice));
        let due: BTreeMap<String, &Notice> = named.filter(|(name, _)| !said.contains(name)).collect();
        stream::iter(due).for_each_concurrent(AT_ONCE, |(name, notice)| self.write(name, notice, now)).await;
    }

    async fn write(&self, name: String, notice: &Notice, now: Time) {
        let attempted = format!("tell {} of {} {}", notice.reason, notice.regarding.kind, notice.regarding.name);
        if let Err(failure) = self.guard.permits(&attempted) {
            return tracing::warn!("{failure}");
        }
        let params = PostParams { field_manager: Some(PROGRAM.into()), ..PostParams::default() };
        let body = event(&name, notice, self.instance, now).to_string().into_bytes();
        let answer = match Resource::new(resource::events(NAMESPACE)).create(&params, body) {
            Ok(request) => self.api.write(&request).await.map_err(|error| (error.code(), error.to_string())),
            Err(error) => Err((None, error.to_string())),
        };
        match answer {
            Ok(_) | Err((Some(409), _)) => {}
            Err((_, why)) => tracing::warn!("{attempted}: {why}"),
        }
    }
}

/// The names of our Events that the API server still has; empty where they can't be listed: what exists is then found
/// out one by one.
async fn already_said(api: &Api) -> BTreeSet<String> {
    let list = List::of("Event", resource::events(NAMESPACE)).where_field(format!("reportingController={REPORTING_CONTROLLER}")).metadata();
    match list.read(api, super::load::one_of_many::<Node>).await {
        Ok(listed) => listed.items.into_iter().map(|event| event.metadata.name).collect(),
        Err(failure) => {
            tracing::warn!("{failure}");
            BTreeSet::new()
        }
    }
}

fn event(name: &str, notice: &Notice, instance: &str, now: Time) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "eventTime": to_micro(now),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": cut(instance, INSTANCE),
        "action": match notice.lasting { Lasting::Transition => "Rotate", Lasting::Condition => "Assess" },
        "reason": notice.reason,
        "type": match notice.kind { Kind::Normal => "Normal", Kind::Warning => "Warning" },
        "regarding": {
            "apiVersion": "karpenter.sh/v1",
            "kind": notice.regarding.kind,
            "name": notice.regarding.name,
            "uid": notice.regarding.uid,
        },
        "note": cut(&notice.message, NOTE),
    })
}

/// A condition's name follows from what it is about; a transition's is unique, but for `RotationExpired`: two passes may
/// both see that end, and it is announced once.
fn name(notice: &Notice, pass: &str, now: Time, index: usize) -> String {
    let (regarding, reason) = (&notice.regarding, notice.reason);
    let identity = if regarding.uid.is_empty() { format!("{}/{}", regarding.kind, regarding.name) } else { regarding.uid.clone() };
    let parts = match notice.lasting {
        _ if reason == Reason::RotationExpired.about().name => vec![regarding.kind.to_owned(), regarding.name.clone(), reason.to_owned()],
        Lasting::Condition => vec![identity, reason.to_owned(), notice.subject.clone()],
        Lasting::Transition => vec![identity, reason.to_owned(), pass.to_owned(), to_micro(now), index.to_string(), notice.message.clone()],
    };
    // Lengths keep ("a", "bc") apart from ("ab", "c").
    let digest = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part.len().to_be_bytes()).chain_update(part));
    let hash: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let stem = cut_at(&regarding.name, NAME).trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    format!("{stem}.{hash}")
}

/// The text, or what of it fits, ending in `…`.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes { text.to_owned() } else { format!("{}…", cut_at(text, bytes - '…'.len_utf8())) }
}

fn cut_at(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
