//! Which policy governs a pool (§5.4): the most specific one that matches; a tie governs nothing.
//!
//! An Invalid policy takes part as long as its selector can be read: what is wrong elsewhere in it must not hand its
//! pools to a less specific policy. A selector that can't be read selects nothing, since nobody knows what it meant.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Operator, Policy, Selector};

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
    let mut best = Best::default();
    for policy in policies.values() {
        best.consider(policy, labels);
    }
    best.governance()
}

/// Policies, sorted for the question which of them governs a pool: with many of both, most need not be looked at.
#[derive(Debug, Default)]
pub struct Resolver<'a> {
    /// By a label that a pool must have, to the policies that it is worth to look at.
    by_label: BTreeMap<Label<'a>, Vec<&'a Policy>>,
    /// Those that ask for no label, the most specific first.
    others: Vec<&'a Policy>,
}

/// Key and value; any value, where there is none.
type Label<'a> = (&'a str, Option<&'a str>);

impl<'a> Resolver<'a> {
    /// Of these policies.
    pub fn of(policies: &'a BTreeMap<String, Policy>) -> Self {
        let asked: Vec<(&Policy, Vec<Vec<Label<'_>>>)> =
            policies.values().filter_map(|policy| Some((policy, asked_for(policy.selector.as_ref()?)))).collect();
        let mut often: BTreeMap<Label<'_>, usize> = BTreeMap::new();
        for label in asked.iter().flat_map(|(_, asked)| asked).flatten() {
            *often.entry(*label).or_default() += 1;
        }
        let mut resolver = Self::default();
        for (policy, asked) in asked {
            // What many policies ask for tells them apart badly.
            let crowd = |labels: &Vec<Label<'_>>| labels.iter().map(|label| often[label]).sum::<usize>();
            match asked.into_iter().min_by_key(crowd) {
                Some(labels) => labels.into_iter().for_each(|label| resolver.by_label.entry(label).or_default().push(policy)),
                None => resolver.others.push(policy),
            }
        }
        resolver.others.sort_by_key(|policy| Reverse(specificity(policy)));
        resolver
    }

    /// Resolves the policy of a pool with these labels.
    pub fn governance(&self, labels: &BTreeMap<String, String>) -> Governance<'a> {
        let mut best = Best::default();
        for (key, value) in labels {
            for label in [(key.as_str(), Some(value.as_str())), (key.as_str(), None)] {
                for policy in self.by_label.get(&label).into_iter().flatten() {
                    best.consider(policy, labels);
                }
            }
        }
        for policy in &self.others {
            if specificity(policy) < best.specificity {
                break;
            }
            best.consider(policy, labels);
        }
        best.policies.sort_by(|one, other| one.name.cmp(&other.name));
        best.governance()
    }
}

/// Labels of which a pool needs one, for each part of the selector that names some.
fn asked_for(selector: &Selector) -> Vec<Vec<Label<'_>>> {
    let labels = selector.match_labels.iter().map(|(key, value)| vec![(key.as_str(), Some(value.as_str()))]);
    let expressions = selector.match_expressions.iter().filter_map(|expression| {
        let key = expression.key.as_str();
        match expression.operator {
            Operator::In => {
                let values: BTreeSet<&str> = expression.values.iter().map(String::as_str).collect();
                Some(values.into_iter().map(|value| (key, Some(value))).collect())
            }
            Operator::Exists => Some(vec![(key, None)]),
            Operator::NotIn | Operator::DoesNotExist => None,
        }
    });
    labels.chain(expressions).collect()
}

fn specificity(policy: &Policy) -> usize {
    policy.selector.as_ref().map_or(0, Selector::specificity)
}

/// The most specific so far.
#[derive(Default)]
struct Best<'a> {
    specificity: usize,
    policies: Vec<&'a Policy>,
}

impl<'a> Best<'a> {
    fn consider(&mut self, policy: &'a Policy, labels: &BTreeMap<String, String>) {
        let specificity = specificity(policy);
        if specificity < self.specificity || !policy.selector.as_ref().is_some_and(|selector| selector.matches(labels)) {
            return;
        }
        if specificity > self.specificity {
            self.policies.clear();
            self.specificity = specificity;
        }
        self.policies.push(policy);
    }

    fn governance(self) -> Governance<'a> {
        match self.policies.as_slice() {
            [] => Governance::Ungoverned,
            [policy] => Governance::Policy(policy),
            _ => Governance::Conflict(self.policies),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    #[test]
    fn among_many_policies_a_pool_is_compared_with_few() {
        let names: Vec<String> = (0..100).map(|number| format!("team-{number}")).collect();
        let selector = |name: &String| {
            let zones = json!({"key": "zone", "operator": "In", "values": ["a", "b"]});
            json!({"matchLabels": {"env": "prod", "team": name}, "matchExpressions": [zones]})
        };
        let named: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), selector(name))).collect();
        let policies = policies(&named);
        let resolver = Resolver::of(&policies);
        assert!(resolver.by_label.len() == 100 && resolver.by_label.values().all(|policies| policies.len() == 1));
        let labels = [("env", "prod"), ("team", "team-7"), ("zone", "b")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(resolver.governance(&labels.into()), Governance::Policy(&policies["team-7"]));
    }

    #[test]
    fn a_key_alone_tells_policies_apart_too() {
        let policies = policies(&[
            ("api", json!({"matchExpressions": [{"key": "api", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"}]})),
            ("web", json!({"matchExpressions": [{"key": "web", "operator": "Exists"}]})),
        ]);
        let resolver = Resolver::of(&policies);
        assert!(resolver.others.is_empty() && resolver.by_label.values().all(|policies| policies.len() == 1));
        let governance = |key: &str| resolver.governance(&BTreeMap::from([(key.to_owned(), "any".to_owned())]));
        assert_eq!(governance("web"), Governance::Policy(&policies["web"]));
        assert_eq!(governance("old"), Governance::Ungoverned);
    }

    fn any_selector() -> impl Strategy<Value = Value> {
        let expression = ("[ab]", prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]), prop::collection::vec("[xy]", 1..3));
        let expression = expression.prop_map(|(key, operator, values)| {
            let values = if operator.ends_with("In") { json!(values) } else { json!([]) };
            json!({"key": key, "operator": operator, "values": values})
        });
        let labels = prop::collection::btree_map("[ab]", "[xy]", 0..3);
        (labels, prop::collection::vec(expression, 0..3))
            .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}))
    }

    proptest! {
        #[test]
        fn the_resolver_says_what_looking_at_all_policies_says(
            selectors in prop::collection::vec(any_selector(), 0..6),
            labels in prop::collection::btree_map("[abc]", "[xyz]", 0..3),
        ) {
            let names: Vec<String> = (0..selectors.len()).map(|number| format!("policy-{number}")).collect();
            let named: Vec<(&str, Value)> = names.iter().map(String::as_str).zip(selectors).collect();
            let policies = policies(&named);
            prop_assert_eq!(Resolver::of(&policies).governance(&labels), governance(&policies, &labels));
        }
    }
}
