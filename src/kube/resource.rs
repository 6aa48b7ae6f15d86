//! Where things are on the API server.

use crate::rotation::effect::{Kind, Target};

/// `karpenter.sh/v1` NodePools.
pub const NODEPOOLS: &str = "/apis/karpenter.sh/v1/nodepools";
/// `karpenter.sh/v1` NodeClaims.
pub const NODECLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
/// Our policies.
pub const POLICIES: &str = "/apis/noderotation.io/v1alpha1/rotationpolicies";
/// Nodes.
pub const NODES: &str = "/api/v1/nodes";
/// Pods of all namespaces.
pub const PODS: &str = "/api/v1/pods";

/// Pods of a namespace.
pub fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Leases of a namespace.
pub fn leases(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

/// PodDisruptionBudgets of a namespace.
pub fn budgets(namespace: &str) -> String {
    format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
}

/// Events of a namespace.
pub fn events(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

/// The collection that an effect's object is in.
pub fn collection(target: &Target) -> String {
    match target.kind {
        Kind::NodePool => NODEPOOLS.into(),
        Kind::NodeClaim => NODECLAIMS.into(),
        Kind::Node => NODES.into(),
        Kind::Pod => pods(&target.namespace),
    }
}

/// An effect's object, for people.
pub fn words(target: &Target) -> String {
    match target.kind {
        Kind::NodePool => format!("NodePool {}", target.name),
        Kind::NodeClaim => format!("NodeClaim {}", target.name),
        Kind::Node => format!("Node {}", target.name),
        Kind::Pod => format!("Pod {}/{}", target.namespace, target.name),
    }
}
