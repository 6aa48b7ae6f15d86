//! The fleet of a cluster. Reads only: the lists of a pass, the Nodes of the pools, and the Pods of some of them.

use std::collections::{BTreeMap, BTreeSet};

use super::question::Found;
use crate::{
    cli::{
        ExitCode,
        reach::{Ended, ReachArgs, fail, failed},
    },
    cluster::Cluster,
    kube::stop::Stop,
    view::{Need, View},
    world::scenario::objects::Objects,
};

/// So many Nodes' Pods are read at most: one request each.
const SAMPLE: usize = 200;

/// Reads it.
///
/// # Errors
/// Ends where it can't be read.
pub async fn load(reach: &ReachArgs, stop: &Stop) -> Result<Found, Ended> {
    let reached = reach.client().await?;
    let session = reach.session(&reached, stop).await?;
    let mut view = session.load().await.map_err(|failure| failed(&failure))?;
    for unreadable in &view.unreadable {
        eprintln!("warning: {} {} can't be read and is left out: {}", unreadable.kind, unreadable.name, unreadable.why);
    }
    let named: BTreeSet<String> = view.claims.values().filter_map(|claim| claim.node().map(str::to_owned)).collect();
    let sample: BTreeSet<String> = evenly(&named, SAMPLE);
    let mut needs: BTreeSet<Need> = view.pools.keys().cloned().map(Need::NodesOfPool).collect();
    needs.extend(sample.iter().cloned().map(Need::PodsOn));
    session.read(&mut view, &needs).await;
    let pods: Vec<_> = view.facts.pods_on.values().flatten().cloned().collect();
    let namespaces: BTreeSet<Need> = pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).map(Need::BudgetsIn).collect();
    session.read(&mut view, &namespaces).await;
    if let Some((_, why)) = view.facts.failed.first_key_value() {
        return Err(fail(ExitCode::Failed, why));
    }
    let now = session.now();
    let sampled = (sample.len() < named.len()).then_some(sample);
    let View { policies, pools, claims, facts, .. } = view;
    let nodes: BTreeMap<_, _> = facts.nodes_of_pool.into_values().flat_map(|nodes| nodes.as_ref().clone()).collect();
    let budgets = facts.budgets.into_values().flatten().collect();
    let objects = Objects { pools, claims, nodes, pods, budgets: Some(budgets), sampled };
    Ok(Found { objects, policies, now: Some(now) })
}

/// At most so many of them, from all over.
fn evenly(names: &BTreeSet<String>, most: usize) -> BTreeSet<String> {
    let step = names.len().div_ceil(most).max(1);
    names.iter().step_by(step).cloned().collect()
}
