//! Headroom (§6): whether `spec.limits` leaves room for what the placeholder asks for. Karpenter charges the whole
//! instance, so this is only what is certain not to work.

use std::fmt;

use super::{SurgeError, requests::UnreadableQuantity};
use crate::api::{
    karpenter::NodePool,
    quantity::{Quantity, Resources},
};

/// The resource by which a pool limits its number of nodes.
const NODES: &str = "nodes";

/// A limited resource of which too little remains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// The resource.
    pub resource: String,
    /// What the surge asks for.
    pub requested: Quantity,
    /// What remains; negative where more is used than the limit allows.
    pub remaining: Quantity,
    /// The limit.
    pub limit: Quantity,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |quantity: Quantity| quantity.canonical(&self.resource);
        let (requested, remaining, limit) = (text(self.requested), text(self.remaining), text(self.limit));
        write!(formatter, "{}: {requested} requested, {remaining} remaining of limit {limit}", self.resource)
    }
}

/// What the surge lacks under the pool's limits; empty where it fits. `claims` is the number of the pool's NodeClaims,
/// which counts as its used nodes where the status doesn't say.
///
/// A resource that is over its limit already lacks room even for nothing: Karpenter then provisions nothing at all.
///
/// # Errors
/// A limit, or what is used of it, that can't be read: neither is ever taken for 0 (case C23).
pub fn headroom(pool: &NodePool, request: &Resources, claims: usize) -> Result<Vec<Shortfall>, SurgeError> {
    let Some(limits) = &pool.spec.limits else { return Ok(Vec::new()) };
    let name = &pool.metadata.name;
    let unreadable = |path, why| SurgeError::new(name, UnreadableQuantity::at(format!("NodePool {name}"), path, why));
    let limits = Resources::from_raw(limits).map_err(|why| unreadable("spec.limits", why))?;
    // Only what is limited matters; the rest of the status may say what it likes.
    let used = pool.status.resources.iter().filter(|(resource, _)| limits.0.contains_key(*resource));
    let used = used.map(|(resource, value)| (resource.clone(), value.clone())).collect();
    let mut used = Resources::from_raw(&used).map_err(|why| unreadable("status.resources", why))?;
    used.0.entry(NODES.into()).or_insert_with(|| Quantity::units(i64::try_from(claims).unwrap_or(i64::MAX)));

    let shortfall = |(resource, limit): (String, Quantity)| {
        let requested = if resource == NODES { Quantity::units(1) } else { request.get(&resource) };
        let remaining = limit.saturating_sub(used.get(&resource));
        (requested > remaining).then_some(Shortfall { resource, requested, remaining, limit })
    };
    Ok(limits.0.into_iter().filter_map(shortfall).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(limits: serde_json::Value, used: serde_json::Value) -> NodePool {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"limits": limits}, "status": {"resources": used}})).unwrap()
    }

    fn request(cpu: &str) -> Resources {
        Resources([("cpu".into(), Quantity::parse(cpu).unwrap())].into())
    }

    fn lacks(limits: serde_json::Value, used: serde_json::Value, cpu: &str) -> Vec<String> {
        headroom(&pool(limits, used), &request(cpu), 3).unwrap().iter().map(ToString::to_string).collect()
    }

    /// Case C04: a request that fits is let through; whether an instance does is Karpenter's to say.
    #[test]
    fn a_request_within_what_remains_fits() {
        let (limits, used) = (json!({"cpu": "48", "memory": "192Gi"}), json!({"cpu": "45", "memory": "90Gi", "nodes": "12"}));
        assert_eq!(lacks(limits.clone(), used.clone(), "3"), Vec::<String>::new());
        assert_eq!(lacks(limits, used, "3001m"), ["cpu: 3001m requested, 3 remaining of limit 48"]);
    }

    #[test]
    fn a_pool_without_limits_has_room() {
        let mut pool = pool(json!({}), json!({"cpu": "1 Gi"}));
        assert_eq!(headroom(&pool, &request("1"), 3), Ok(vec![]));
        pool.spec.limits = None;
        assert_eq!(headroom(&pool, &request("1"), 3), Ok(vec![]));
    }

    /// Case C23.
    #[test]
    fn a_pool_closed_by_nodes_has_no_room_whatever_its_status_says() {
        let nodes =
            Shortfall { resource: "nodes".into(), requested: Quantity::units(1), remaining: Quantity::units(-3), limit: Quantity::ZERO };
        assert_eq!(headroom(&pool(json!({"cpu": 1000, "nodes": 0}), json!({})), &request("2"), 3), Ok(vec![nodes]));
        assert_eq!(lacks(json!({"nodes": 6}), json!({"nodes": "5"}), "2"), Vec::<String>::new());
        assert_eq!(lacks(json!({"nodes": "6"}), json!({"nodes": 6}), "2"), ["nodes: 1 requested, 0 remaining of limit 6"]);
        assert_eq!(lacks(json!({"nodes": 3}), json!({}), "2"), ["nodes: 1 requested, 0 remaining of limit 3"]);
    }

    #[test]
    fn a_limit_lowered_under_use_stops_even_what_asks_for_nothing_of_it() {
        let used = json!({"memory": "2Gi", "nodes": 1});
        assert_eq!(lacks(json!({"memory": "1Gi"}), used, "2"), ["memory: 0 requested, -1Gi remaining of limit 1Gi"]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_0() {
        let error = |limits, used| headroom(&pool(limits, used), &request("1"), 3).unwrap_err().to_string();
        assert_eq!(error(json!({"cpu": "1 k"}), json!({})), r#"pool web: NodePool web: spec.limits.cpu: "1 k" is no quantity"#);
        assert_eq!(error(json!({"cpu": null}), json!({})), "pool web: NodePool web: spec.limits.cpu: null is no quantity");
        assert_eq!(
            error(json!({"example.com/gpu": 1}), json!({"example.com/gpu": "x"})),
            r#"pool web: NodePool web: status.resources['example.com/gpu']: "x" is no quantity"#
        );
    }
}
