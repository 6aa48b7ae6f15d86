//! Which pools a selector matches, and how specific it is (§5.4). The meaning is that of Kubernetes' label selectors.

use std::collections::BTreeMap;

use super::{Expression, Operator, Selector};

impl Selector {
    /// Whether an object with these labels is selected. Without any constraint, every object is.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|expression| expression.matches(labels))
    }

    /// The number of its constraints: the more, the more specific.
    pub fn specificity(&self) -> usize {
        self.match_labels.len() + self.match_expressions.len()
    }
}

impl Expression {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}
