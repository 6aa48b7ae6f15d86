//! Answers to what steps ask for beyond the View, side by side. A fact with a hole in it is no fact: where one Pod of a
//! node can't be read, the need has failed, and the step that wants it ends in an error instead of a wrong sum.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::api::{events::v1::Event, policy::v1::PodDisruptionBudget};
use kube::{api::GetParams, core::Request as Resource};

use super::{
    call::{Api, CallError},
    list::List,
    load::{item, one_of_many},
    rehearse::rehearse,
    resource::{NODES, PODS, budgets, events},
};
use crate::{
    api::{
        json,
        karpenter::Node,
        keys,
        pod::Pod,
        shared::Shared,
        time::{Time, from_api, from_micro},
    },
    view::{self, Facts, Need, View},
};

/// How many are read at once.
const AT_ONCE: usize = 8;

enum Answer {
    NodesOfPool(BTreeMap<String, Shared<Node>>),
    Node(Option<Shared<Node>>),
    Pods(Vec<Pod>),
    Budgets(Vec<PodDisruptionBudget>),
    Events(BTreeMap<String, String>),
    Rehearsal(view::Answer),
}

/// What facts are read with.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The API server.
    pub api: &'a Api,
    /// Where our Pods are.
    pub namespace: &'a str,
    /// Our pass's id.
    pub pass: &'a str,
}

/// Reads what is needed into `view.facts`.
pub async fn read(reader: Reader<'_>, view: &mut View, needs: &BTreeSet<Need>) {
    let known = &*view;
    let answers: Vec<_> =
        stream::iter(needs).map(|need| async move { (need, answer(reader, need, known).await) }).buffer_unordered(AT_ONCE).collect().await;
    for (need, answer) in answers {
        match answer {
            Ok(answer) => store(&mut view.facts, need, answer),
            Err(why) => {
                view.facts.failed.insert(need.clone(), why);
            }
        }
    }
}

fn store(facts: &mut Facts, need: &Need, answer: Answer) {
    match (need, answer) {
        (Need::NodesOfPool(key), Answer::NodesOfPool(nodes)) => drop(facts.nodes_of_pool.insert(key.clone(), nodes.into())),
        (Need::Node(key), Answer::Node(node)) => drop(facts.nodes.insert(key.clone(), node)),
        (Need::PodsOn(key), Answer::Pods(pods)) => drop(facts.pods_on.insert(key.clone(), pods)),
        (Need::BudgetsIn(key), Answer::Budgets(budgets)) => drop(facts.budgets.insert(key.clone(), budgets)),
        (Need::EventsAbout(key), Answer::Events(messages)) => drop(facts.events.insert(key.clone(), messages)),
        (Need::Rehearsal(key), Answer::Rehearsal(answer)) => drop(facts.rehearsals.insert(key.clone(), answer)),
        // Each need has an answer of its own kind, in `answer`.
        (need, _) => drop(facts.failed.insert(need.clone(), "it was answered by something else".into())),
    }
}

async fn answer(reader: Reader<'_>, need: &Need, view: &View) -> Result<Answer, String> {
    let Reader { api, namespace, .. } = reader;
    match need {
        Need::NodesOfPool(pool) => {
            let list = List::of("Node", NODES).labelled(format!("{}={pool}", keys::NODEPOOL_LABEL)).metadata();
            let nodes = whole(api, &list, one_of_many::<Shared<Node>>).await?;
            Ok(Answer::NodesOfPool(nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect()))
        }
        Need::Node(name) => node(api, name).await.map(Answer::Node),
        Need::PodsOn(node) => {
            let list = List::of("Pod", PODS).where_field(format!("spec.nodeName={node}"));
            whole(api, &list, item).await.map(Answer::Pods)
        }
        Need::BudgetsIn(namespace) => whole(api, &List::of("PodDisruptionBudget", budgets(namespace)), item).await.map(Answer::Budgets),
        Need::Rehearsal(write) => {
            let known = view.copy_of(&write.0.target());
            Ok(Answer::Rehearsal(rehearse(api, reader.pass, &write.0, known).await))
        }
        Need::EventsAbout(pod) => {
            let uid = view.placeholders.get(pod).and_then(|pod| pod.metadata.uid.as_deref());
            let uid = uid.map(|uid| format!(",regarding.uid={uid}")).unwrap_or_default();
            let list = List::of("Event", events(namespace)).where_field(format!("regarding.kind=Pod,regarding.name={pod}{uid}"));
            whole(api, &list, item).await.map(|events| Answer::Events(newest(events)))
        }
    }
}

/// A list of which every item can be read.
async fn whole<T>(api: &Api, list: &List, read: impl Fn(&[u8]) -> Result<T, String>) -> Result<Vec<T>, String> {
    let listed = list.read(api, read).await.map_err(|failure| failure.to_string())?;
    match listed.unreadable.first() {
        None => Ok(listed.items),
        Some(broken) => Err(format!("{}: {} {} can't be read: {}", list.attempted(), broken.kind, broken.name, broken.why)),
    }
}

async fn node(api: &Api, name: &str) -> Result<Option<Shared<Node>>, String> {
    let attempted = format!("get Node {name}");
    let request = Resource::new(NODES).get(name, &GetParams::default()).map_err(|error| format!("{attempted}: {error}"))?;
    match api.read(&request).await {
        Ok(body) => json::direct(&body).map(Some).map_err(|why| format!("{attempted}: {why}")),
        Err(CallError::Status { code: 404, .. }) => Ok(None),
        Err(error) => Err(error.failure(&attempted).to_string()),
    }
}

/// The newest message of each reporter, by reporter. Both APIs' recorders are understood: the older one's Events name
/// their reporter and times in the deprecated fields.
fn newest(events: Vec<Event>) -> BTreeMap<String, String> {
    let mut messages: BTreeMap<String, (Option<Time>, String)> = BTreeMap::new();
    for event in events {
        let source = event.deprecated_source.as_ref().and_then(|source| source.component.clone());
        let reporter = event.reporting_controller.clone().filter(|name| !name.is_empty()).or(source).unwrap_or_else(|| "unknown".into());
        let at = last_seen(&event);
        let message = event.note.unwrap_or_default();
        match messages.get(&reporter) {
            Some((known, _)) if *known > at => {}
            _ => drop(messages.insert(reporter, (at, message))),
        }
    }
    messages.into_iter().map(|(reporter, (_, message))| (reporter, message)).collect()
}

fn last_seen(event: &Event) -> Option<Time> {
    let times = [
        event.series.as_ref().map(|series| from_micro(&series.last_observed_time)),
        event.deprecated_last_timestamp.as_ref().map(from_api),
        event.event_time.as_ref().map(from_micro),
        event.deprecated_first_timestamp.as_ref().map(from_api),
        event.metadata.creation_timestamp.as_ref().map(from_api),
    ];
    times.into_iter().flatten().max()
}

#[cfg(test)]
mod tests;
