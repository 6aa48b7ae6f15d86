//! What keeps a drain from ending (§6), told as Karpenter's terminator and the eviction API judge it. Nothing is forced
//! here: this only names the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use chrono::TimeDelta;
use k8s_openapi::{
    api::{core::v1::Taint, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    pods::{is_completed, is_daemonset, is_mirror, is_terminating, phase, pod_name},
    ready::untolerated,
};
use crate::api::{
    karpenter::{Condition, NodeClaim},
    keys,
    pod::Pod,
    time::{Time, from_api, later, parse_duration, to_annotation},
};

/// How long past its deletion Karpenter still waits for a Pod.
const STUCK_AFTER: TimeDelta = TimeDelta::minutes(1);
/// How many are named in the summary: an Event's message is short.
const NAMED_MAX: usize = 3;

/// What a drain waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blockers {
    /// The Pods of the tier that is being evicted; those that something holds come first.
    pub pods: Vec<Blocker>,
    /// With no Pod left to wait for: what the claim itself says.
    pub claim: Vec<String>,
    /// In a sentence, naming Pods and budgets.
    pub summary: String,
}

/// A Pod that a drain waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// `namespace/name`.
    pub pod: String,
    /// Everything that holds it; empty where its eviction is only a matter of time.
    pub held_by: Vec<String>,
}

impl fmt::Display for Blocker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held_by = self.held_by.join("; ");
        write!(formatter, "Pod {}: {}", self.pod, if held_by.is_empty() { "waits for its eviction" } else { &held_by })
    }
}

/// The namespaces whose budgets [`blockers`] needs.
pub fn namespaces(pods: &[Pod], now: Time) -> BTreeSet<&str> {
    first_tier(pods, now).into_iter().filter_map(|pod| pod.metadata.namespace.as_deref()).collect()
}

/// What the drain of a claim waits for: `pods` are those on its Node, `budgets` those of their [`namespaces`].
pub fn blockers(pods: &[Pod], budgets: &BTreeMap<String, Vec<PodDisruptionBudget>>, claim: &NodeClaim, now: Time) -> Blockers {
    let mut blocking: Vec<Blocker> = first_tier(pods, now)
        .into_iter()
        .map(|pod| {
            let of_namespace = pod.metadata.namespace.as_ref().and_then(|namespace| budgets.get(namespace));
            Blocker { pod: pod_name(pod), held_by: held_by(pod, of_namespace.map(Vec::as_slice).unwrap_or_default(), now) }
        })
        .collect();
    blocking.sort_by_key(|blocker| (blocker.held_by.is_empty(), blocker.pod.clone()));
    if blocking.is_empty() {
        let claim = claim_waits(claim, pods, now);
        let summary = format!("no Pod is left to evict; {}", claim.join("; "));
        return Blockers { pods: blocking, claim, summary };
    }
    let mut named: Vec<String> = blocking.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    if blocking.len() > NAMED_MAX {
        named.push(format!("and {} more", blocking.len() - NAMED_MAX));
    }
    Blockers { pods: blocking, claim: Vec::new(), summary: named.join("; ") }
}

/// Karpenter evicts tier by tier, and a later one only when nothing of the earlier is left.
fn first_tier(pods: &[Pod], now: Time) -> Vec<&Pod> {
    let waited_for: Vec<&Pod> = pods.iter().filter(|pod| is_waited_for(pod, now)).collect();
    let first = waited_for.iter().map(|pod| tier(pod)).min();
    waited_for.into_iter().filter(|pod| Some(tier(pod)) == first).collect()
}

/// Ordinary, DaemonSet, critical, critical DaemonSet.
fn tier(pod: &Pod) -> (bool, bool) {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    (matches!(class, Some("system-cluster-critical" | "system-node-critical")), is_daemonset(pod))
}

/// Whether Karpenter waits for the Pod. Not for one that is terminating since more than a minute after its grace.
fn is_waited_for(pod: &Pod, now: Time) -> bool {
    !is_completed(pod) && !is_mirror(pod) && !tolerates_disrupted(pod) && !is_stuck(pod, now)
}

fn is_stuck(pod: &Pod, now: Time) -> bool {
    let end_of_grace = pod.metadata.deletion_timestamp.as_ref().map(from_api);
    end_of_grace.is_some_and(|end| now > later(end, STUCK_AFTER))
}

/// Whether it tolerates `karpenter.sh/disrupted:NoSchedule` (which has no value).
fn tolerates_disrupted(pod: &Pod) -> bool {
    let disrupted = Taint { key: keys::DISRUPTED_TAINT.into(), effect: "NoSchedule".into(), ..Taint::default() };
    untolerated(&[disrupted], Some(pod)).is_none()
}

/// Everything that holds a Pod. One that is terminating has nothing else to wait for.
fn held_by(pod: &Pod, budgets: &[PodDisruptionBudget], now: Time) -> Vec<String> {
    if is_terminating(pod) {
        return vec![terminating_since(pod)];
    }
    do_not_disrupt(pod, now).into_iter().chain(budget(pod, budgets)).collect()
}

fn terminating_since(pod: &Pod) -> String {
    let grace = TimeDelta::try_seconds(pod.metadata.deletion_grace_period_seconds.unwrap_or_default()).unwrap_or_default();
    let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
    let held = if finalizers.is_empty() { String::new() } else { format!(" (finalizers {})", finalizers.join(", ")) };
    let asked = pod.metadata.deletion_timestamp.as_ref().map(|deletion| later(from_api(deletion), -grace));
    format!("terminating since {}{held}", asked.map(to_annotation).unwrap_or_default())
}

/// An active `karpenter.sh/do-not-disrupt`: `true`, or a duration from the Pod's start that has not ended. Anything else
/// is as absent. A Pod that has not started yet is held.
fn do_not_disrupt(pod: &Pod, now: Time) -> Option<String> {
    let value = pod.metadata.annotations.as_ref()?.get(keys::DO_NOT_DISRUPT)?;
    if value == "true" {
        return Some(format!("{}=true", keys::DO_NOT_DISRUPT));
    }
    let span = parse_duration(value).filter(|span| *span > TimeDelta::zero())?;
    let Some(start) = pod.status.as_ref().and_then(|status| status.start_time.as_ref()) else {
        return Some(format!("{}={value}, and it has not started yet", keys::DO_NOT_DISRUPT));
    };
    let until = later(from_api(start), span);
    (now < until).then(|| format!("{}={value} until {}", keys::DO_NOT_DISRUPT, to_annotation(until)))
}

/// The budget that refuses the Pod's eviction, judged as the eviction API judges it.
fn budget(pod: &Pod, budgets: &[PodDisruptionBudget]) -> Option<String> {
    if phase(pod) == "Pending" {
        return None;
    }
    let matching: Vec<&PodDisruptionBudget> = budgets.iter().filter(|budget| selects(budget, pod)).collect();
    match matching.as_slice() {
        [] => None,
        [budget] => refusal(pod, budget),
        several => {
            let names: Vec<&str> = several.iter().map(|budget| budget_name(budget)).collect();
            Some(format!("{} PodDisruptionBudgets ({}) select it, and eviction refuses more than one", several.len(), names.join(", ")))
        }
    }
}

/// Whether a budget is about a Pod: its namespace and its selector.
pub fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    selector.is_some_and(|selector| matches(selector, labels)) && budget.metadata.namespace == pod.metadata.namespace
}

fn budget_name(budget: &PodDisruptionBudget) -> &str {
    budget.metadata.name.as_deref().unwrap_or_default()
}

fn refusal(pod: &Pod, budget: &PodDisruptionBudget) -> Option<String> {
    let status = budget.status.clone().unwrap_or_default();
    if !is_pod_ready(pod) {
        let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        let has_enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        if policy == Some("AlwaysAllow") || has_enough {
            return None;
        }
    }
    let name = budget_name(budget);
    if status.observed_generation.unwrap_or_default() < budget.metadata.generation.unwrap_or_default() {
        return Some(format!("PodDisruptionBudget {name} has not been judged since its last change"));
    }
    if status.disruptions_allowed > 0 {
        return None;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let failed = conditions.iter().find(|condition| condition.type_ == "DisruptionAllowed" && condition.reason == "SyncFailed");
    Some(match failed {
        Some(condition) => format!("PodDisruptionBudget {name} allows no disruption, since it failed to sync: {}", condition.message),
        None => format!(
            "PodDisruptionBudget {name} allows no disruption ({} healthy, {} wanted)",
            status.current_healthy, status.desired_healthy
        ),
    })
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// As `policy/v1` selects: an empty selector selects every Pod, one that can't be read selects none.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let expression = |expression: &LabelSelectorRequirement| {
        let value = labels.get(&expression.key);
        let values = expression.values.as_deref().unwrap_or_default();
        let listed = value.is_some_and(|value| values.contains(value));
        match expression.operator.as_str() {
            "In" => listed,
            "NotIn" => !values.is_empty() && !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(expression)
}

/// What is left when no Pod is: volumes that are attached, an instance that doesn't end. Pods that are terminating for
/// too long are told too: Karpenter gave them up, but they may hold a volume.
fn claim_waits(claim: &NodeClaim, pods: &[Pod], now: Time) -> Vec<String> {
    let condition = |kind: &str, wanted: bool| {
        let found = claim.status.conditions.iter().find(|condition| condition.kind == kind);
        found.filter(|condition| (condition.status == "True") == wanted).map(|condition| said(claim, condition))
    };
    let mut waits: Vec<String> =
        condition("VolumesDetached", false).or_else(|| condition("InstanceTerminating", true)).into_iter().collect();
    if waits.is_empty() {
        waits.extend(condition("Drained", false));
    }
    let stuck = pods.iter().filter(|pod| is_stuck(pod, now) && !is_completed(pod));
    waits.extend(stuck.map(|pod| format!("Pod {} is {}, and Karpenter waits for it no longer", pod_name(pod), terminating_since(pod))));
    if waits.is_empty() {
        waits.push(format!("NodeClaim {} says nothing of volumes or of its instance: look at its finalizers", claim.metadata.name));
    }
    waits
}

fn said(claim: &NodeClaim, condition: &Condition) -> String {
    let since = condition.last_transition_time.map(|since| format!(" since {}", to_annotation(since))).unwrap_or_default();
    let mut words: Vec<&str> =
        [condition.reason.as_str(), condition.message.as_str()].into_iter().filter(|word| !word.is_empty()).collect();
    words.dedup();
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(": ")) };
    format!("NodeClaim {}: {} is {}{since}{words}", claim.metadata.name, condition.kind, condition.status)
}

#[cfg(test)]
mod tests;
