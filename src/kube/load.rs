//! Reads the View: five lists side by side. Pods are never listed cluster-wide, Nodes only by our label.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::{
    call::Api,
    list::{List, Listed},
    resource::{NODECLAIMS, NODEPOOLS, NODES, POLICIES, pods},
    slim::Slimmer,
};
use crate::{
    api::{
        json,
        karpenter::{Node, NodeClaim, NodePool},
        keys,
        pod::Pod,
        shared::Shared,
    },
    cluster::Failure,
    policy::{Policy, read},
    view::{Unreadable, View},
};

/// Reads the View of the pass whose placeholders are in this namespace.
///
/// # Errors
/// [`Failure`] of the first list that can't be read, in the order in which preflight asks, whichever answer came first:
/// the same trouble is told in the same words in every pass. An object that can't be read is in `view.unreadable`.
pub async fn load(api: &Api, namespace: &str) -> Result<View, Failure> {
    let policies = List::of("RotationPolicy", POLICIES);
    let pools = List::of("NodePool", NODEPOOLS);
    let claims = List::of("NodeClaim", NODECLAIMS);
    let placeholders = List::of("Pod", pods(namespace)).labelled(keys::SURGE_FOR);
    let marked = List::of("Node", NODES).labelled(format!("{}=true", keys::MARKED)).metadata();
    let slimmer = Slimmer::default();
    let claim = |raw: &[u8]| one_of_many::<NodeClaim>(raw).map(|claim| Shared::from(slimmer.slim(claim)));
    let (policies, pools, claims, placeholders, marked) = futures::join!(
        policies.read(api, policy),
        pools.read(api, one_of_many::<Shared<NodePool>>),
        claims.read(api, claim),
        placeholders.read(api, item::<Shared<Pod>>),
        marked.read(api, one_of_many::<Shared<Node>>),
    );
    let (pools, claims, policies) = (pools?, claims?, policies?);
    let (placeholders, marked) = (placeholders?, marked?);
    let mut unreadable = Vec::new();
    Ok(View {
        policies: by_name(policies, &mut unreadable, |policy| policy.name.clone()),
        pools: by_name(pools, &mut unreadable, |pool: &Shared<NodePool>| pool.metadata.name.clone()),
        claims: by_name(claims, &mut unreadable, |claim: &Shared<NodeClaim>| claim.metadata.name.clone()),
        placeholders: by_name(placeholders, &mut unreadable, |pod: &Shared<Pod>| pod.metadata.name.clone().unwrap_or_default()),
        marked: by_name(marked, &mut unreadable, |node: &Shared<Node>| node.metadata.name.clone()),
        unreadable,
        ..View::default()
    })
}

/// Reads one item of a list.
pub fn item<T: DeserializeOwned>(raw: &[u8]) -> Result<T, String> {
    json::from_slice(raw).map_err(|why| why.to_string())
}

/// One item of a list of thousands.
pub fn one_of_many<T: DeserializeOwned>(raw: &[u8]) -> Result<T, String> {
    json::direct(raw).map_err(|why| why.to_string())
}

fn policy(raw: &[u8]) -> Result<Policy, String> {
    Ok(read::policy(&one_of_many(raw)?))
}

fn by_name<T>(listed: Listed<T>, unreadable: &mut Vec<Unreadable>, name: impl Fn(&T) -> String) -> BTreeMap<String, T> {
    unreadable.extend(listed.unreadable);
    listed.items.into_iter().map(|item| (name(&item), item)).collect()
}

#[cfg(test)]
mod tests;
