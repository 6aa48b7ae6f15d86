//! Which pools a command that looks is asked about.

use clap::Args;

use super::complete;
use crate::{
    policy::resolve::{Governance, governance},
    view::View,
};

/// So many names are told where one is wrong.
const NAMED: usize = 20;

/// All pools, unless a policy is given.
#[derive(Debug, Clone, Default, Args)]
pub struct OnlyArgs {
    /// Only the NodePools that this RotationPolicy governs, or is in conflict on
    #[arg(long, value_name = "NAME", conflicts_with = "pool", add = complete::policies())]
    pub policy: Option<String>,
}

/// What is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Only<'a> {
    /// Everything.
    #[default]
    All,
    /// One pool.
    Pool(&'a str),
    /// The pools of one policy.
    Policy(&'a str),
}

impl OnlyArgs {
    /// With the pool that was named.
    pub fn and<'a>(&'a self, pool: Option<&'a str>) -> Only<'a> {
        match (pool, self.policy.as_deref()) {
            (Some(pool), _) => Only::Pool(pool),
            (None, Some(policy)) => Only::Policy(policy),
            (None, None) => Only::All,
        }
    }
}

impl Only<'_> {
    /// Whether this pool is meant. One that can't be read may be of any policy.
    pub fn takes(self, view: &View, pool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Pool(name) => name == pool,
            Self::Policy(name) => view.pools.get(pool).is_none_or(|pool| match governance(&view.policies, &pool.metadata.labels) {
                Governance::Ungoverned => false,
                Governance::Policy(policy) => policy.name == name,
                Governance::Conflict(tied) => tied.iter().any(|policy| policy.name == name),
            }),
        }
    }

    /// What is asked about and not there, as a sentence.
    pub fn missing(self, view: &View) -> Option<String> {
        let unreadable = |kind: &str, name: &str| view.unreadable.iter().any(|broken| broken.kind == kind && broken.name == name);
        match self {
            Self::Pool(pool) if !view.pools.contains_key(pool) && !unreadable("NodePool", pool) => {
                Some(format!("there is no NodePool {pool}; {}", known(view.pools.keys())))
            }
            Self::Policy(policy) if !view.policies.contains_key(policy) && !unreadable("RotationPolicy", policy) => {
                Some(format!("there is no RotationPolicy {policy}; {}", known(view.policies.keys())))
            }
            Self::All | Self::Pool(_) | Self::Policy(_) => None,
        }
    }
}

/// The names to choose from.
fn known<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let (number, more) = (names.len(), names.len().saturating_sub(NAMED));
    let told = names.take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match (number, more) {
        (0, _) => "there is none at all".into(),
        (1, _) => format!("there is only {told}"),
        (_, 0) => format!("there are {told}"),
        (_, more) => format!("there are {told} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_policy_means_the_pools_that_it_governs_or_is_in_conflict_on() {
        let view = fixture::view();
        let taken = |only: Only<'_>| view.pools.keys().filter(|pool| only.takes(&view, pool)).cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(taken(Only::All), "alone api batch tied web");
        assert_eq!(taken(Only::Policy("nights")), "batch web");
        assert_eq!(taken(Only::Policy("a")), "tied");
        assert_eq!(taken(Only::Policy("none")), "");
        assert_eq!(taken(Only::Pool("web")), "web");
        assert!(Only::Policy("x").takes(&view, "a pool that can't be read"));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let view = fixture::view();
        assert_eq!(Only::Pool("web").missing(&view), None);
        assert_eq!(Only::Pool("wbe").missing(&view).unwrap(), "there is no NodePool wbe; there are alone, api, batch, tied, web");
        assert_eq!(Only::Policy("night").missing(&view).unwrap(), "there is no RotationPolicy night; there are a, b, nights, weekdays");
        assert_eq!(Only::Policy("night").missing(&View::default()).unwrap(), "there is no RotationPolicy night; there is none at all");
    }
}
