//! Which policy governs a pool (§5.4): the most specific one that matches; a tie governs nothing.

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
pub fn governance<'a>(_policies: &'a BTreeMap<String, Policy>, _labels: &BTreeMap<String, String>) -> Governance<'a> {
    todo!()
}
