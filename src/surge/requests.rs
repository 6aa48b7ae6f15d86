//! How much room the Pods of a node need somewhere else (§6): the sum of what the scheduler counts for each.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};

use super::pods::{is_completed, is_daemonset, is_mirror, is_placeholder, pod_name};
use crate::api::{
    keys,
    pod::{Container, ContainerStatus, Pod},
    quantity::{NotAQuantity, Quantity, Resources, UnreadableResource},
};

/// A quantity that can't be read, in one object. It is never taken for 0: a placeholder that asks for less than the
/// Pods need reserves nothing, and the node would be deleted all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path}: {text} is no quantity")]
pub struct UnreadableQuantity {
    /// Kind and name.
    pub object: String,
    /// The field.
    pub path: String,
    /// What stands there.
    pub text: String,
}

impl UnreadableQuantity {
    /// A resource of a list at `path` of an object.
    pub(super) fn at(object: impl Into<String>, path: &str, unreadable: UnreadableResource) -> Self {
        let UnreadableResource { resource, why } = unreadable;
        let path = if resource.contains(['/', '.']) { format!("{path}['{resource}']") } else { format!("{path}.{resource}") };
        Self { object: object.into(), path, text: why.0 }
    }
}

/// Sum of what the Pods of a node need on another node: without DaemonSet, mirror and completed Pods, without Pods pinned
/// to this very node, and without our placeholders (§6).
///
/// A placeholder found on the node is what a rotation of ours left there; it goes away by itself and must not swell the
/// next one. Pods that are terminating count: a StatefulSet's will be back. `node` is the Node's name and `hostname` its
/// label `kubernetes.io/hostname`, which need not be the same.
///
/// # Errors
/// The first quantity that can't be read, with Pod and path.
pub fn requests(pods: &[Pod], node: &str, hostname: Option<&str>) -> Result<Resources, UnreadableQuantity> {
    let moves =
        |pod: &&Pod| !is_daemonset(pod) && !is_mirror(pod) && !is_completed(pod) && !is_placeholder(pod) && !is_pinned(pod, node, hostname);
    sum(pods.iter().filter(moves))
}

/// Sum of what the DaemonSet Pods of a node need. From the Pods as they run, not from their templates: a LimitRange may
/// have made them larger (case C09).
///
/// # Errors
/// The first quantity that can't be read, with Pod and path.
pub fn daemonset_requests(pods: &[Pod]) -> Result<Resources, UnreadableQuantity> {
    sum(pods.iter().filter(|pod| is_daemonset(pod) && !is_completed(pod)))
}

fn sum<'a>(pods: impl Iterator<Item = &'a Pod>) -> Result<Resources, UnreadableQuantity> {
    let mut sum = Resources::default();
    for pod in pods {
        sum.add(&effective_requests(pod)?);
    }
    Ok(sum)
}

/// What the scheduler counts for one Pod: containers and sidecars together, or the highest peak of its init containers
/// (each with the sidecars that were started before it); the Pod's own `resources` instead, where set; plus overhead.
///
/// # Errors
/// The first quantity that can't be read, with Pod and path.
pub fn effective_requests(pod: &Pod) -> Result<Resources, UnreadableQuantity> {
    let reader = Reader { pod };
    let Some(spec) = &pod.spec else { return Ok(Resources::default()) };
    let mut running = Resources::default();
    for (index, container) in spec.containers.iter().enumerate() {
        running.add(&reader.container("spec.containers", index, container, true)?);
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let restarts = container.restart_policy.as_deref() == Some("Always");
        let own = reader.container("spec.initContainers", index, container, restarts)?;
        let during = Resources::sum([&sidecars, &own]);
        if restarts {
            running.add(&own);
            sidecars.add(&own);
        }
        peak.raise_to(&during);
    }
    running.raise_to(&peak);
    if let Some(resources) = &spec.resources {
        let whole = reader.list(format_args!("spec.resources.requests"), resources.requests.as_ref())?;
        running.0.extend(whole.0.into_iter().filter(|(resource, _)| counts_for_whole_pod(resource)));
    }
    running.add(&reader.list(format_args!("spec.overhead"), spec.overhead.as_ref())?);
    Ok(running)
}

/// Resources that can be set for a Pod as a whole.
fn counts_for_whole_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

struct Reader<'a> {
    pod: &'a Pod,
}

impl Reader<'_> {
    fn list(&self, path: fmt::Arguments<'_>, list: Option<&BTreeMap<String, ApiQuantity>>) -> Result<Resources, UnreadableQuantity> {
        let Some(list) = list else { return Ok(Resources::default()) };
        let at = |unreadable| UnreadableQuantity::at(format!("Pod {}", pod_name(self.pod)), &path.to_string(), unreadable);
        let resources = Resources::from_api(list).map_err(at)?;
        // One below 0 would take room away that other Pods need.
        match resources.0.iter().find(|(_, quantity)| **quantity < Quantity::ZERO) {
            None => Ok(resources),
            Some((resource, quantity)) => {
                let why = NotAQuantity(format!("{} (below 0)", quantity.canonical(resource)));
                Err(at(UnreadableResource { resource: resource.clone(), why }))
            }
        }
    }

    /// A container's requests; of one that runs on (`resizable`), the largest of what it asks for, what it was allotted
    /// and what it has, as after a resize in place. A resize that the node can't do asks for nothing more.
    fn container(&self, path: &str, index: usize, container: &Container, resizable: bool) -> Result<Resources, UnreadableQuantity> {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let asked = self.list(format_args!("{path}[{index}].resources.requests"), requests)?;
        let Some((path, status)) = self.status_of(&container.name).filter(|_| resizable) else { return Ok(asked) };
        let Some(resources) = &status.resources else { return Ok(asked) };
        let mut counted = if self.resize_is_infeasible() { Resources::default() } else { asked };
        counted.raise_to(&self.list(format_args!("{path}.resources.requests"), resources.requests.as_ref())?);
        counted.raise_to(&self.list(format_args!("{path}.allocatedResources"), status.allocated_resources.as_ref())?);
        Ok(counted)
    }

    fn status_of(&self, container: &str) -> Option<(String, &ContainerStatus)> {
        let status = self.pod.status.as_ref()?;
        let within = |path: &str, statuses: Option<&'_ Vec<ContainerStatus>>| {
            let index = statuses?.iter().position(|status| status.name == container)?;
            Some((format!("status.{path}[{index}]"), index))
        };
        if let Some((path, index)) = within("containerStatuses", status.container_statuses.as_ref()) {
            return Some((path, status.container_statuses.as_ref()?.get(index)?));
        }
        let (path, index) = within("initContainerStatuses", status.init_container_statuses.as_ref())?;
        Some((path, status.init_container_statuses.as_ref()?.get(index)?))
    }

    fn resize_is_infeasible(&self) -> bool {
        let conditions = self.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible"))
    }
}

/// Whether a Pod can run on this node only, so that no replacement helps it (case C06): a node selector on the hostname,
/// or a required affinity each of whose terms names this node and no other.
fn is_pinned(pod: &Pod, node: &str, hostname: Option<&str>) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let selected = spec.node_selector.iter().flatten().any(|(key, value)| key == keys::HOSTNAME_LABEL && Some(value.as_str()) == hostname);
    let required = (|| {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        Some(&affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms)
    })();
    // A term without any requirement matches no node at all.
    let mut terms = required.into_iter().flatten().filter(|term| !is_empty(term)).peekable();
    selected || (terms.peek().is_some() && terms.all(|term| term_pins(term, node, hostname)))
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.iter().flatten().next().is_none() && term.match_fields.iter().flatten().next().is_none()
}

fn term_pins(term: &NodeSelectorTerm, node: &str, hostname: Option<&str>) -> bool {
    let only = |requirement: &NodeSelectorRequirement, key: &str, value: &str| {
        let mut values = requirement.values.iter().flatten().peekable();
        requirement.key == key && requirement.operator == "In" && values.peek().is_some() && values.all(|other| other == value)
    };
    term.match_fields.iter().flatten().any(|requirement| only(requirement, "metadata.name", node))
        || hostname
            .is_some_and(|host| term.match_expressions.iter().flatten().any(|requirement| only(requirement, keys::HOSTNAME_LABEL, host)))
}

#[cfg(test)]
mod tests;
