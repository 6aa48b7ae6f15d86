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
    /// What was lowered by more than the old Node's kubelet reports above Karpenter's plan: the Event
    /// `SurgeClampBandExceeded`.
    pub beyond_band: Vec<BeyondBand>,
}

/// A clamp that the known difference between plan and kubelet doesn't explain: the replacement may be too small for the
/// Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeyondBand {
    /// What was lowered.
    pub limited: Limited,
    /// The Node's allocatable less that of its NodeClaim; may be negative.
    pub band: Quantity,
}

/// Resources of a node that is reserved whole.
const WHOLE: [&str; 2] = ["cpu", "memory"];

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

impl SurgeRequest {
    /// Judges what was lowered against the band between the Node's allocatable and its NodeClaim's. A resource that the
    /// Node doesn't report has no band to judge by.
    pub fn judge_band(mut self, node: &Resources, allocatable: &Resources) -> Self {
        let judged = self.clamped.iter().filter_map(|limited| {
            let band = node.0.get(&limited.resource)?.saturating_sub(allocatable.get(&limited.resource));
            (limited.shortfall() > band).then(|| BeyondBand { limited: limited.clone(), band })
        });
        self.beyond_band = judged.collect();
        self
    }

    /// Raises cpu and memory to the whole clamp limit, so that no part-filled node can take the placeholder. Where nothing
    /// is planned, or DaemonSets leave nothing, the request stays that of the Pods.
    pub fn reserve_whole_node(mut self, allocatable: &Resources, daemonsets: &Resources) -> Self {
        let limits = allocatable.saturating_sub(daemonsets);
        for resource in WHOLE {
            if let Some(limit) = limits.0.get(resource).filter(|limit| limit.is_positive()) {
                self.request.0.insert(resource.into(), *limit);
            }
        }
        self
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
            ..SurgeRequest::default()
        };
        assert_eq!(clamp, expected);
        assert_eq!(clamp.clamped[0].to_string(), "memory: 2950Mi wanted, 2933Mi planned beside the DaemonSets, 17Mi missing");
    }

    #[test]
    fn a_clamp_that_the_kubelet_does_not_explain_is_told() {
        let wanted = resources(&[("memory", "2950Mi"), ("cpu", "2"), ("example.com/gpu", "3")]);
        let allocatable = resources(&[("cpu", "1930m"), ("memory", "3033Mi"), ("example.com/gpu", "2")]);
        let daemonsets = resources(&[("memory", "100Mi")]);
        let judged = |memory| {
            let node = resources(&[("memory", memory), ("cpu", "2")]);
            clamp(wanted.clone(), &allocatable, &daemonsets).judge_band(&node, &allocatable).beyond_band
        };
        // 17Mi are missing: of 17Mi all is explained, of 16Mi not; the Node says nothing of the GPU.
        assert_eq!(judged("3050Mi"), []);
        let band = |text| Quantity::parse(text).unwrap();
        assert_eq!(judged("3049Mi"), [BeyondBand { limited: limited("memory", "2950Mi", "2933Mi"), band: band("16Mi") }]);
        assert_eq!(judged("3000Mi"), [BeyondBand { limited: limited("memory", "2950Mi", "2933Mi"), band: band("-33Mi") }]);
    }

    #[test]
    fn a_whole_node_is_all_that_karpenter_plans_with_beside_the_daemonsets() {
        let (allocatable, daemonsets) =
            (resources(&[("cpu", "1930m"), ("memory", "3033Mi")]), resources(&[("cpu", "100m"), ("memory", "100Mi")]));
        let whole = |wanted: &[(&str, &str)], daemonsets: &Resources| {
            let clamp = clamp(resources(wanted), &allocatable, daemonsets);
            clamp.reserve_whole_node(&allocatable, daemonsets).request.to_string()
        };
        assert_eq!(whole(&[("cpu", "1"), ("example.com/gpu", "1")], &daemonsets), "cpu 1830m, example.com/gpu 1, memory 2933Mi");
        assert_eq!(whole(&[("cpu", "5"), ("memory", "5Gi")], &daemonsets), "cpu 1830m, memory 2933Mi");
        // DaemonSets that leave no cpu leave the request as it is.
        assert_eq!(whole(&[("cpu", "1")], &resources(&[("cpu", "2")])), "cpu 1, memory 3033Mi");
        let unknown = SurgeRequest { request: resources(&[("cpu", "1")]), ..SurgeRequest::default() };
        assert_eq!(unknown.clone().reserve_whole_node(&Resources::default(), &daemonsets), unknown);
    }

    #[test]
    fn a_limit_of_nothing_leaves_the_request_whole() {
        let wanted = resources(&[("cpu", "1"), ("memory", "1Gi"), ("example.com/gpu", "0")]);
        let allocatable = resources(&[("cpu", "2"), ("memory", "512Mi"), ("example.com/gpu", "0")]);
        let daemonsets = resources(&[("cpu", "2"), ("memory", "600Mi"), ("example.com/gpu", "1")]);
        let clamp = clamp(wanted.clone(), &allocatable, &daemonsets);
        let refused = vec![limited("cpu", "1", "0"), limited("memory", "1Gi", "-88Mi")];
        assert_eq!(clamp, SurgeRequest { request: wanted, refused, ..SurgeRequest::default() });
    }

    #[test]
    fn no_allocatable_clamps_nothing() {
        let wanted = resources(&[("cpu", "1")]);
        assert_eq!(
            clamp(wanted.clone(), &Resources::default(), &resources(&[("cpu", "2")])),
            SurgeRequest { request: wanted, ..SurgeRequest::default() }
        );
    }
}
