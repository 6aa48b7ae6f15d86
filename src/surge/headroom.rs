//! Headroom (§6): whether `spec.limits` leaves room for what the placeholder asks for. Karpenter charges the whole
//! instance, so this is only what is certain not to work.

use std::fmt;

use super::{SurgeError, requests::UnreadableQuantity};
use crate::api::{
    karpenter::{NodeClaim, NodePool},
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

/// A limited resource of which no node of the pool that would hold the request is known to fit (case C04).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What is asked for, remains and is allowed.
    pub room: Shortfall,
    /// The NodeClaim with the smallest capacity that would hold the request.
    pub claim: String,
    /// What its instance has, which is what Karpenter charges.
    pub capacity: Quantity,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.capacity.canonical(&self.room.resource);
        write!(formatter, "{}, but the pool's smallest node that would hold it has {capacity} (NodeClaim {})", self.room, self.claim)
    }
}

/// A limit, and what remains of it.
struct Remainder {
    resource: String,
    remaining: Quantity,
    limit: Quantity,
}

/// What the surge lacks under the pool's limits; empty where it fits. `claims` is the number of the pool's NodeClaims,
/// which counts as its used nodes where the status doesn't say.
///
/// A resource that is over its limit already lacks room even for nothing: Karpenter then provisions nothing at all.
///
/// # Errors
/// A limit, or what is used of it, that can't be read: neither is ever taken for 0 (case C23).
pub fn headroom(pool: &NodePool, request: &Resources, claims: usize) -> Result<Vec<Shortfall>, SurgeError> {
    let shortfall = |Remainder { resource, remaining, limit }: Remainder| {
        let requested = if resource == NODES { Quantity::units(1) } else { request.get(&resource) };
        (requested > remaining).then_some(Shortfall { resource, requested, remaining, limit })
    };
    Ok(remainders(pool, claims)?.into_iter().filter_map(shortfall).collect())
}

/// What makes it doubtful that Karpenter brings a node for a request that [`headroom`] lets through: it charges the whole
/// instance, and no known capacity of the pool's claims that would hold the request fits what remains. Told of the smallest
/// (by cpu, then memory). The pool may know a smaller instance, or have room on a node: hence no more than a doubt.
///
/// A capacity that can't be read, or isn't known yet, says nothing.
///
/// # Errors
/// As [`headroom`].
pub fn doubts<'a>(pool: &NodePool, request: &Resources, claims: &[&'a NodeClaim]) -> Result<Vec<Doubt>, SurgeError> {
    let remainders = remainders(pool, claims.len())?;
    if remainders.is_empty() {
        return Ok(Vec::new());
    }
    let capacity = |claim: &&'a NodeClaim| Some((Resources::from_raw(&claim.status.capacity).ok()?, &claim.metadata.name));
    let mut holders: Vec<(Resources, &String)> =
        claims.iter().filter_map(capacity).filter(|(capacity, _)| !capacity.0.is_empty() && request.fits(capacity)).collect();
    holders.sort_by_key(|(capacity, name)| (capacity.get("cpu"), capacity.get("memory"), *name));
    let over = |capacity: &Resources| remainders.iter().any(|room| capacity.get(&room.resource) > room.remaining);
    let Some((smallest, claim)) = holders.first().filter(|_| holders.iter().all(|(capacity, _)| over(capacity))) else {
        return Ok(Vec::new());
    };
    let doubt = |Remainder { resource, remaining, limit }: &Remainder| {
        let (capacity, requested) = (smallest.get(resource), request.get(resource));
        let room = Shortfall { resource: resource.clone(), requested, remaining: *remaining, limit: *limit };
        (capacity > *remaining).then(|| Doubt { room, claim: (*claim).clone(), capacity })
    };
    Ok(remainders.iter().filter_map(doubt).collect())
}

/// What remains of each limit.
fn remainders(pool: &NodePool, claims: usize) -> Result<Vec<Remainder>, SurgeError> {
    let Some(limits) = &pool.spec.limits else { return Ok(Vec::new()) };
    let name = &pool.metadata.name;
    let unreadable = |path, why| SurgeError::new(name, UnreadableQuantity::at(format!("NodePool {name}"), path, why));
    let limits = Resources::from_raw(limits).map_err(|why| unreadable("spec.limits", why))?;
    // Only what is limited matters; the rest of the status may say what it likes.
    let used = pool.status.resources.iter().filter(|(resource, _)| limits.0.contains_key(*resource));
    let used = used.map(|(resource, value)| (resource.clone(), value.clone())).collect();
    let mut used = Resources::from_raw(&used).map_err(|why| unreadable("status.resources", why))?;
    used.0.entry(NODES.into()).or_insert_with(|| Quantity::units(i64::try_from(claims).unwrap_or(i64::MAX)));
    let remainder = |(resource, limit): (String, Quantity)| {
        let remaining = limit.saturating_sub(used.get(&resource));
        Remainder { resource, remaining, limit }
    };
    Ok(limits.0.into_iter().map(remainder).collect())
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

    /// What is doubted of a request of 2 cpu, by the capacities of the pool's claims.
    fn doubted(limits: serde_json::Value, used: serde_json::Value, capacities: &[serde_json::Value]) -> Vec<String> {
        let claim = |(index, capacity)| -> NodeClaim {
            serde_json::from_value(json!({"metadata": {"name": format!("web-{index}")}, "status": {"capacity": capacity}})).unwrap()
        };
        let claims: Vec<NodeClaim> = capacities.iter().enumerate().map(claim).collect();
        doubts(&pool(limits, used), &request("2"), &claims.iter().collect::<Vec<_>>()).unwrap().iter().map(ToString::to_string).collect()
    }

    /// Case C04.
    #[test]
    fn a_whole_instance_above_what_remains_is_a_doubt() {
        let (limits, used) = (json!({"cpu": "48", "memory": "192Gi"}), json!({"cpu": "45", "memory": "90Gi", "nodes": "12"}));
        let doubt = |capacities: &[serde_json::Value]| doubted(limits.clone(), used.clone(), capacities);
        let told = "cpu: 2 requested, 3 remaining of limit 48, but the pool's smallest node that would hold it has 4 (NodeClaim web-1)";
        let (four, eight) = (json!({"cpu": "4", "memory": "16Gi"}), json!({"cpu": "8", "memory": "32Gi"}));
        // One that would not hold the request, that can't be read or isn't known yet, says nothing.
        assert_eq!(doubt(&[eight, four.clone(), json!({"cpu": "1"}), json!({"cpu": "3 x"}), json!({})]), [told]);
        assert_eq!(doubt(&[four, json!({"cpu": 3})]), Vec::<String>::new());
        assert_eq!(doubt(&[]), Vec::<String>::new());
        assert_eq!(doubted(json!({"memory": "91Gi"}), used.clone(), &[json!({"cpu": 4, "memory": "1Gi"})]), Vec::<String>::new());
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
