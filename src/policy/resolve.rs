//! Which policy governs a pool (§5.4): the most specific one that matches; a tie governs nothing.
//!
//! An Invalid policy takes part as long as its selector can be read: what is wrong elsewhere in it must not hand its
//! pools to a less specific policy. A selector that can't be read selects nothing, since nobody knows what it meant.

use std::collections::BTreeMap;

use super::Policy;

/// Who governs a pool.
#[derive(Debug, Clone, PartialEq)]
pub enum Governance<'a> {
    /// No policy matches.
    Ungoverned,
    /// This one.
    Policy(&'a Policy),
    /// Several with equal specificity, by name.
    Conflict(Vec<&'a Policy>),
}

/// Resolves the policy of a pool with these labels.
pub fn governance<'a>(policies: &'a BTreeMap<String, Policy>, labels: &BTreeMap<String, String>) -> Governance<'a> {
    let mut best: Vec<&Policy> = Vec::new();
    let mut highest = 0;
    for policy in policies.values() {
        let Some(selector) = policy.selector.as_ref().filter(|selector| selector.matches(labels)) else { continue };
        let specificity = selector.specificity();
        if specificity > highest {
            best.clear();
            highest = specificity;
        }
        if specificity == highest {
            best.push(policy);
        }
    }
    match best.as_slice() {
        [] => Governance::Ungoverned,
        [policy] => Governance::Policy(policy),
        _ => Governance::Conflict(best),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::policy::read;

    fn policies(selectors: &[(&str, Value)]) -> BTreeMap<String, Policy> {
        let policy = |name: &str, selector: &Value| {
            let window = json!({"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"});
            read::policy(&json!({
                "metadata": {"name": name},
                "spec": {"nodePoolSelector": selector, "maintenanceWindows": [window]},
            }))
        };
        selectors.iter().map(|(name, selector)| ((*name).to_owned(), policy(name, selector))).collect()
    }

    /// The names of those who govern: none, one, or those that tie.
    fn governing(selectors: &[(&str, Value)], labels: Value) -> Vec<String> {
        match governance(&policies(selectors), &serde_json::from_value(labels).unwrap()) {
            Governance::Ungoverned => Vec::new(),
            Governance::Policy(policy) => vec![policy.name.clone()],
            Governance::Conflict(tied) => {
                assert!(tied.len() > 1);
                tied.iter().map(|policy| policy.name.clone()).collect()
            }
        }
    }

    #[test]
    fn more_constraints_win_over_fewer_and_over_none() {
        let selectors = [
            ("all", json!({})),
            ("api", json!({"matchLabels": {"workload": "api"}})),
            (
                "api-eu",
                json!({"matchLabels": {"workload": "api"}, "matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]}),
            ),
        ];
        assert_eq!(governing(&selectors, json!({})), ["all"]);
        assert_eq!(governing(&selectors, json!({"workload": "api"})), ["api"]);
        assert_eq!(governing(&selectors, json!({"workload": "api", "region": "eu"})), ["api-eu"]);
        assert_eq!(governing(&selectors[1..], json!({"workload": "web"})), [""; 0]);
    }

    #[test]
    fn equal_specificity_is_a_conflict_named_in_order() {
        let selectors = [
            ("z", json!({"matchLabels": {"workload": "api"}})),
            ("all", json!({})),
            ("a", json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
        ];
        assert_eq!(governing(&selectors, json!({"workload": "api", "tier": "1"})), ["a", "z"]);
        assert_eq!(governing(&[("b", json!({})), ("a", json!({}))], json!({})), ["a", "b"]);
    }

    #[test]
    fn every_operator_means_what_kubernetes_says() {
        let expression =
            |operator: &str, values: Value| [("p", json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}))];
        for (operator, values, absent, a, b) in [
            ("In", json!(["a"]), false, true, false),
            ("NotIn", json!(["a"]), true, false, true),
            ("Exists", json!([]), false, true, true),
            ("DoesNotExist", json!([]), true, false, false),
        ] {
            let selectors = expression(operator, values);
            for (labels, expected) in [(json!({}), absent), (json!({"k": "a"}), a), (json!({"k": "b"}), b)] {
                assert_eq!(governing(&selectors, labels.clone()).len(), usize::from(expected), "{operator} {labels}");
            }
        }
    }

    #[test]
    fn an_unreadable_selector_selects_nothing_and_an_invalid_policy_still_governs() {
        let unreadable = json!({"matchExpressions": [{"key": "k", "operator": "Near", "values": ["a"]}]});
        assert_eq!(governing(&[("all", json!({})), ("broken", unreadable)], json!({"k": "a"})), ["all"]);
        let mut policies = policies(&[("all", json!({})), ("api", json!({"matchLabels": {"workload": "api"}}))]);
        let invalid = read::policy(&json!({
            "metadata": {"name": "api"},
            "spec": {"nodePoolSelector": {"matchLabels": {"workload": "api"}}, "maintenanceWindows": []},
        }));
        assert!(!invalid.is_valid());
        policies.insert("api".into(), invalid.clone());
        let labels = BTreeMap::from([("workload".to_owned(), "api".to_owned())]);
        assert_eq!(governance(&policies, &labels), Governance::Policy(&invalid));
    }
}
