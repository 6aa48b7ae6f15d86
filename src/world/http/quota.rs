//! ResourceQuotas of Pods, cpu and memory: the API server refuses a Pod that would exceed one, in a dry run as in earnest. Scopes
//! are not modelled.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    State,
    answer::Answer,
    request::Call,
    resource::{Key, PODS, QUOTAS},
};
use crate::{
    api::{self, pod::Pod, quantity::Quantity},
    surge::requests::effective_requests,
    world::quota::exceeded,
};

type Amounts = BTreeMap<String, Quantity>;

impl State {
    /// Whether the quotas of its namespace have room for a new object.
    pub fn meets_quotas(&self, call: &Call, name: &str, object: &Value) -> Result<(), Answer> {
        if call.kind != PODS {
            return Ok(());
        }
        let quotas = self.shelf.iter().filter(|(key, _)| key.is(QUOTAS) && key.namespace == call.namespace);
        for (Key { name: quota, .. }, stored) in quotas {
            let hard = amounts(&stored["spec"]["hard"]);
            if let Some(why) = unspecified(&hard, object) {
                let why = format!("failed quota: {quota}: must specify {why}");
                return Err(Answer::forbidden(PODS, name, &format!("pods \"{name}\" is forbidden: {why}")));
            }
            let (asked, used) = (usage(&hard, [object]), self.used(&hard, &call.namespace));
            let over: Amounts = hard.into_iter().filter(|(resource, hard)| used[resource].0 + asked[resource].0 > hard.0).collect();
            if !over.is_empty() {
                let [asked, used, hard] = [&asked, &used, &over].map(|list| told(list, &over));
                return Err(Answer::forbidden(PODS, name, &exceeded(name, quota, &asked, &used, &hard)));
            }
        }
        Ok(())
    }

    /// A quota with what is used of it, as the controller of quotas keeps it.
    pub fn with_usage(&self, mut quota: Value) -> Value {
        let hard = amounts(&quota["spec"]["hard"]);
        let namespace = quota["metadata"]["namespace"].as_str().unwrap_or_default();
        let used = self.used(&hard, namespace);
        let used: BTreeMap<_, _> = used.iter().map(|(resource, amount)| (resource, amount.canonical(of_pod(resource)))).collect();
        quota["status"] = json!({"hard": quota["spec"]["hard"], "used": used});
        quota
    }

    fn used(&self, hard: &Amounts, namespace: &str) -> Amounts {
        let pods = self.all(PODS, namespace, None);
        let ended = |pod: &&Value| ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default());
        usage(hard, pods.iter().filter(|pod| !ended(pod)))
    }
}

fn amounts(list: &Value) -> Amounts {
    let amounts = list.as_object().into_iter().flatten();
    amounts.filter_map(|(resource, amount)| Some((resource.clone(), Quantity::parse_value(amount).ok()?))).collect()
}

/// How a Pod calls what a quota limits.
fn of_pod(resource: &str) -> &str {
    resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("count/")).unwrap_or(resource)
}

/// What containers have to say, since a quota counts it, and which of them don't.
fn unspecified(hard: &Amounts, pod: &Value) -> Option<String> {
    let containers = || pod["spec"]["containers"].as_array().into_iter().flatten();
    let counted = hard.keys().filter(|resource| ["cpu", "memory"].contains(&of_pod(resource)));
    let told = counted.filter_map(|resource| {
        let silent = containers().filter(|container| container["resources"]["requests"][of_pod(resource)].is_null());
        let names: Vec<&str> = silent.filter_map(|container| container["name"].as_str()).collect();
        (!names.is_empty()).then(|| format!("{resource} for: {}", names.join(",")))
    });
    Some(told.collect::<Vec<_>>().join("; ")).filter(|told| !told.is_empty())
}

/// What these Pods take of each resource that is limited.
fn usage<'a>(hard: &Amounts, pods: impl IntoIterator<Item = &'a Value>) -> Amounts {
    let mut sum: Amounts = hard.keys().map(|resource| (resource.clone(), Quantity::default())).collect();
    for pod in pods {
        let requests = api::json::from_value::<Pod>(pod).ok().and_then(|pod| effective_requests(&pod).ok()).unwrap_or_default();
        for (resource, sum) in &mut sum {
            let amount = if of_pod(resource) == "pods" { Quantity::units(1) } else { requests.get(of_pod(resource)) };
            *sum = sum.saturating_add(amount);
        }
    }
    sum
}

/// Of a list, the resources that are exceeded, as the API server says it.
fn told(list: &Amounts, over: &Amounts) -> String {
    let told = list.iter().filter(|(resource, _)| over.contains_key(*resource));
    told.map(|(resource, amount)| format!("{resource}={}", amount.canonical(of_pod(resource)))).collect::<Vec<_>>().join(",")
}
