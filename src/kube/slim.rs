//! What the View keeps of the NodeClaims of a list. There are thousands, each of several kilobytes, and a pass uses a few
//! fields of them; what all claims of a pool have alike is kept once.

use std::{cell::RefCell, collections::BTreeMap};

use crate::api::{
    karpenter::{NodeClaim, RawResources, Requirement},
    keys,
    shared::Shared,
};

/// The conditions that matter while a claim isn't being deleted.
const CONDITIONS: [&str; 3] = ["Ready", "Registered", "Initialized"];
/// How many different values are remembered; pools have fewer.
const REMEMBERED: usize = 64;

/// Slims claims, one after the other.
#[derive(Debug, Default)]
pub struct Slimmer {
    labels: Alike<BTreeMap<String, String>>,
    /// No annotations.
    none: Shared<BTreeMap<String, String>>,
    requirements: Alike<Vec<Requirement>>,
    resources: Alike<RawResources>,
}

impl Slimmer {
    /// The claim with what is used of it.
    pub fn slim(&self, mut claim: NodeClaim) -> NodeClaim {
        let pool = claim.metadata.labels.remove_entry(keys::NODEPOOL_LABEL);
        claim.metadata.labels = pool.into_iter().collect();
        claim.metadata.annotations.retain(|key, _| key.starts_with(keys::PREFIX));
        // Why a drain doesn't end is told from all of them.
        if !claim.metadata.is_deleting() {
            claim.status.conditions.retain(|condition| CONDITIONS.contains(&condition.kind.as_str()));
        }
        claim.status.conditions.shrink_to_fit();
        self.labels.share(&mut claim.metadata.labels);
        if claim.metadata.annotations.is_empty() {
            claim.metadata.annotations = self.none.clone();
        }
        self.requirements.share(&mut claim.spec.requirements);
        self.resources.share(&mut claim.status.capacity);
        self.resources.share(&mut claim.status.allocatable);
        claim
    }
}

/// Values that have come lately, the latest first.
#[derive(Debug)]
struct Alike<T>(RefCell<Vec<Shared<T>>>);

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: PartialEq> Alike<T> {
    fn share(&self, value: &mut Shared<T>) {
        let mut known = self.0.borrow_mut();
        match known.iter().position(|known| known == value) {
            Some(at) => {
                known[..=at].rotate_right(1);
                *value = known[0].clone();
            }
            None => {
                known.truncate(REMEMBERED - 1);
                known.insert(0, value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rotation::{
        effect::{Fresh, apply},
        tests::judge::on_a_claim,
    };

    fn claim(name: &str, cpu: &str, metadata: Value) -> NodeClaim {
        let conditions = ["Launched", "Registered", "Initialized", "Ready", "Drained"];
        let conditions = conditions.map(|kind| json!({"type": kind, "status": "True", "reason": "x"}));
        let mut claim = json!({
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "web", "team": "a"}},
            "spec": {"requirements": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            "status": {
                "conditions": conditions, "capacity": {"cpu": cpu}, "allocatable": {"cpu": "7"},
            },
        });
        for (field, value) in metadata.as_object().unwrap() {
            claim["metadata"][field] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn what_a_pass_uses_is_kept_and_what_is_alike_is_kept_once() {
        let slimmer = Slimmer::default();
        let annotations = json!({"annotations": {"noderotation.io/state": "pending", "karpenter.sh/nodepool-hash": "1"}});
        let slim = [("a", "8"), ("b", "16"), ("c", "8")].map(|(name, cpu)| slimmer.slim(claim(name, cpu, annotations.clone())));
        let [a, b, c] = &slim;
        assert_eq!((a.pool(), a.metadata.labels.len()), (Some("web"), 1));
        assert_eq!(a.metadata.annotations, BTreeMap::from([("noderotation.io/state".to_owned(), "pending".to_owned())]).into());
        assert_eq!(a.status.conditions.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>(), ["Registered", "Initialized", "Ready"]);
        assert_eq!(b.status.capacity["cpu"], "16");
        assert!(a.status.capacity.is_same(&c.status.capacity) && !a.status.capacity.is_same(&b.status.capacity));
        assert!(a.spec.requirements.is_same(&b.spec.requirements) && a.metadata.labels.is_same(&b.metadata.labels));
    }

    #[test]
    fn a_claim_that_is_being_deleted_keeps_all_its_conditions() {
        let deleted = claim("a", "8", json!({"deletionTimestamp": "2026-11-30T07:00:00Z"}));
        assert_eq!(Slimmer::default().slim(deleted).status.conditions.len(), 5);
    }

    #[test]
    fn what_is_kept_is_all_that_a_write_is_judged_by() {
        let (effects, states) = on_a_claim();
        let claims = states.into_iter().filter_map(|(state, claim)| Some((state, claim?)));
        for (state, claim) in claims {
            let whole: NodeClaim = serde_json::from_value(claim).unwrap();
            let slim = Slimmer::default().slim(whole.clone());
            let [whole, slim] = [whole, slim].map(|claim| Fresh::NodeClaim(claim.into()));
            for effect in &effects {
                assert_eq!(apply(effect, Some(&slim), "p"), apply(effect, Some(&whole), "p"), "{effect} on one that is {state}");
            }
        }
    }
}
