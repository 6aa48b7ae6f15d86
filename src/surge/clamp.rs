//! The clamp (§6): Karpenter plans with one remembered allocatable per instance type, while a kubelet may report more. A
//! node can so be fuller than Karpenter believes possible, and a placeholder of that size would never get a node.

use std::fmt;

use crate::api::quantity::{Quantity, Resources};

/// A request, clamped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SurgeRequest {
    /// What the placeholder asks for.
    pub request: Resources,
    /// What was lowered: the Event `SurgeClamped`.
    pub clamped: Vec<Limited>,
    /// What could not be lowered, since DaemonSets leave nothing: the Event `SurgeClampRefused`.
    pub refused: Vec<Limited>,
}

/// A resource of which more was wanted than Karpenter plans with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The resource.
    pub resource: String,
    /// What the Pods need.
    pub wanted: Quantity,
    /// What such a node offers beside its DaemonSets, by Karpenter's plan; may be negative.
    pub limit: Quantity,
}

impl Limited {
    /// How much is missing.
    pub fn shortfall(&self) -> Quantity {
        self.wanted.saturating_sub(self.limit)
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |quantity: Quantity| quantity.canonical(&self.resource);
        let (wanted, limit, missing) = (text(self.wanted), text(self.limit), text(self.shortfall()));
        write!(formatter, "{}: {wanted} wanted, {limit} planned beside the DaemonSets, {missing} missing", self.resource)
    }
}

/// Lowers each resource to `allocatable - daemonsets`. A limit of 0 or less lowers nothing: that would make an empty
/// placeholder. A resource that `allocatable` doesn't have isn't clamped: Karpenter knows nothing of it.
pub fn clamp(wanted: Resources, allocatable: &Resources, daemonsets: &Resources) -> SurgeRequest {
    let mut clamp = SurgeRequest::default();
    let limits = allocatable.saturating_sub(daemonsets);
    for (resource, quantity) in wanted.0 {
        let over = limits.0.get(&resource).filter(|limit| quantity.is_positive() && quantity > **limit);
        let request = match over.copied() {
            None => quantity,
            Some(limit) => {
                let limited = Limited { resource: resource.clone(), wanted: quantity, limit };
                let list = if limit.is_positive() { &mut clamp.clamped } else { &mut clamp.refused };
                list.push(limited);
                if limit.is_positive() { limit } else { quantity }
            }
        };
        clamp.request.0.insert(resource, request);
    }
    clamp
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(list: &[(&str, &str)]) -> Resources {
        Resources(list.iter().map(|(resource, text)| ((*resource).into(), Quantity::parse(text).unwrap())).collect())
    }

    fn limited(resource: &str, wanted: &str, limit: &str) -> Limited {
        Limited { resource: resource.into(), wanted: Quantity::parse(wanted).unwrap(), limit: Quantity::parse(limit).unwrap() }
    }

    /// Case C09.
    #[test]
    fn more_than_karpenter_plans_with_is_lowered_to_its_plan() {
        let wanted = resources(&[("cpu", "1500m"), ("memory", "2950Mi"), ("example.com/gpu", "2"), ("hugepages-2Mi", "64Mi")]);
        let allocatable = resources(&[("cpu", "1930m"), ("memory", "3033Mi"), ("example.com/gpu", "2")]);
        let clamp = clamp(wanted, &allocatable, &resources(&[("cpu", "100m"), ("memory", "100Mi")]));
        let expected = SurgeRequest {
            request: resources(&[("cpu", "1500m"), ("memory", "2933Mi"), ("example.com/gpu", "2"), ("hugepages-2Mi", "64Mi")]),
            clamped: vec![limited("memory", "2950Mi", "2933Mi")],
            refused: vec![],
        };
        assert_eq!(clamp, expected);
        assert_eq!(clamp.clamped[0].to_string(), "memory: 2950Mi wanted, 2933Mi planned beside the DaemonSets, 17Mi missing");
    }

    #[test]
    fn a_limit_of_nothing_leaves_the_request_whole() {
        let wanted = resources(&[("cpu", "1"), ("memory", "1Gi"), ("example.com/gpu", "0")]);
        let allocatable = resources(&[("cpu", "2"), ("memory", "512Mi"), ("example.com/gpu", "0")]);
        let daemonsets = resources(&[("cpu", "2"), ("memory", "600Mi"), ("example.com/gpu", "1")]);
        let clamp = clamp(wanted.clone(), &allocatable, &daemonsets);
        let refused = vec![limited("cpu", "1", "0"), limited("memory", "1Gi", "-88Mi")];
        assert_eq!(clamp, SurgeRequest { request: wanted, clamped: vec![], refused });
    }

    #[test]
    fn no_allocatable_clamps_nothing() {
        let wanted = resources(&[("cpu", "1")]);
        assert_eq!(
            clamp(wanted.clone(), &Resources::default(), &resources(&[("cpu", "2")])),
            SurgeRequest { request: wanted, clamped: vec![], refused: vec![] }
        );
    }
}
