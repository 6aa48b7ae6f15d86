//! Findings on the claims of a pool, rather than on its policy and template.

use std::collections::BTreeSet;

use chrono::TimeDelta;

use super::{Code, Finding};
use crate::{
    api::{
        karpenter::NodePool,
        keys,
        time::{Time, later, to_annotation},
    },
    schedule::{
        derive::{Derivation, subtract},
        window::Schedule,
    },
};

/// As many claims as a message names.
const NAMED: usize = 10;

/// `AllOptedOut`: every one of the `due` claims is opted out.
pub fn all_opted_out(pool: &NodePool, due: usize, opted_out: &BTreeSet<String>) -> Option<Finding> {
    if due == 0 || opted_out.len() < due {
        return None;
    }
    let (key, in_template) = (keys::DO_NOT_DISRUPT, &pool.spec.template.metadata.annotations);
    let where_from = if in_template.get(key).map(String::as_str) == Some("true") {
        "it stands in the NodePool's template, from where it reaches every Node: remove it there and from the Nodes"
    } else {
        "remove it from those that may be replaced"
    };
    let names = named(opted_out.iter().cloned());
    let message = format!(
        "every NodeClaim that is due ({due}) has a Node with {key}: \"true\", so none is rotated and each expires with it: {names}; {where_from}"
    );
    Some(Finding { code: Code::AllOptedOut, message })
}

/// `BlackoutCutsChances`: claims that a blackout leaves fewer than `k` chances from now on. `claims` are their names with
/// their latest start (deadline - `t_rot`); those without a deadline have none.
pub fn blackout_cuts_chances<'a>(
    schedule: &Schedule,
    k: i64,
    now: Time,
    cadence: TimeDelta,
    claims: impl IntoIterator<Item = (&'a str, Time)>,
) -> Option<Finding> {
    if schedule.blackouts.is_empty() {
        return None;
    }
    let mut cut: Vec<(Time, &str, i64, i64)> = Vec::new();
    for (claim, latest) in claims {
        let Some(left) = schedule.chances(now, latest, cadence) else { continue };
        let regular = schedule.regular_chances(now, latest, cadence);
        // Chances that went by are no blackout's doing.
        if left < k && left < regular {
            cut.push((latest, claim, left, regular));
        }
    }
    cut.sort_unstable();
    let number = cut.len();
    let names = named(cut.into_iter().map(|(latest, claim, left, regular)| {
        format!("{claim} has {left} of {regular} windows until its latest start at {}", to_annotation(latest))
    }));
    (number > 0).then(|| Finding {
        code: Code::BlackoutCutsChances,
        message: format!(
            "blackouts leave {number} NodeClaims fewer than K = {k} chances: {names}; open a window before the blackout, or shorten it"
        ),
    })
}

/// `BlackoutCutsChances` where no claims are known: whether a node that is created at the worst moment from now on would have
/// fewer than `k` chances in its whole life.
pub fn blackout_cuts_lives(schedule: &Schedule, k: i64, now: Time, cadence: TimeDelta, derivation: &Derivation) -> Option<Finding> {
    let life = subtract(derivation.expire_after?, derivation.t_rot);
    if schedule.blackouts.is_empty() || life <= TimeDelta::zero() {
        return None;
    }
    let chances = |created: Time| {
        let latest = later(created, life);
        let left = schedule.chances(created, latest, cadence)?;
        let regular = schedule.regular_chances(created, latest, cadence);
        (left < k && left < regular).then_some((left, created, latest, regular))
    };
    let (left, created, latest, regular) = schedule.unlucky_births(now).filter_map(chances).min()?;
    let [created, latest] = [created, latest].map(to_annotation);
    let advice = "end the blackout sooner, leave out a day that has a window, or let nodes live longer";
    let message = format!(
        "a blackout leaves nodes fewer than K = {k} chances: one that is created at {created} has {left} of {regular} windows until its latest start at {latest}; {advice}"
    );
    Some(Finding { code: Code::BlackoutCutsChances, message })
}

/// The first few, and how many more.
fn named(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let names = items.take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { names } else { format!("{names}, and {more} more") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::time::parse_annotation, policy::read, schedule::derive::Lifetime};

    fn at(text: &str) -> Time {
        parse_annotation(text).unwrap()
    }

    /// Wed and Sat 02:00-06:00 UTC, closed over the holidays.
    fn schedule(now: Time) -> Schedule {
        let settings = read::policy(&json!({"spec": {
            "nodePoolSelector": {},
            "maintenanceWindows": [{"timezone": "UTC", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"}],
            "blackouts": [{"timezone": "UTC", "from": "2026-12-19", "to": "2027-01-04"}],
        }}))
        .settings;
        Schedule::of(&settings.windows, now).without(&settings.blackouts, now)
    }

    fn cut(now: &str, claims: &[(&str, &str)]) -> Option<String> {
        let claims = claims.iter().map(|(claim, latest)| (*claim, at(latest)));
        blackout_cuts_chances(&schedule(at(now)), 2, at(now), TimeDelta::minutes(1), claims).map(|finding| finding.message)
    }

    #[test]
    fn claims_without_k_chances_are_named_the_most_urgent_first() {
        let claims = [("late", "2027-01-09T00:00:00Z"), ("early", "2026-12-20T00:00:00Z"), ("fine", "2027-01-13T03:00:00Z")];
        assert_eq!(
            cut("2026-12-17T00:00:00Z", &claims).unwrap(),
            "blackouts leave 2 NodeClaims fewer than K = 2 chances: early has 0 of 1 windows until its latest start at 2026-12-20T00:00:00Z, \
             late has 1 of 6 windows until its latest start at 2027-01-09T00:00:00Z; open a window before the blackout, or shorten it"
        );
        // Two weeks earlier there are chances enough.
        assert_eq!(cut("2026-12-03T00:00:00Z", &claims), None);
    }

    #[test]
    fn chances_that_went_by_are_not_the_blackouts_doing() {
        assert_eq!(cut("2026-12-17T00:00:00Z", &[("gone", "2026-12-18T00:00:00Z"), ("overdue", "2026-12-01T00:00:00Z")]), None);
    }

    #[test]
    fn a_life_too_short_for_the_blackout_is_told_by_the_worst_birth() {
        let told = |now: &str, days| {
            let (schedule, settings) = (schedule(at(now)), read::policy(&json!({})).settings);
            let lifetime = Lifetime { expire_after: Some(TimeDelta::days(days)), grace: Some(TimeDelta::hours(1)) };
            let derivation = Derivation::of(&settings, &schedule, lifetime, TimeDelta::minutes(1));
            blackout_cuts_lives(&schedule, 2, at(now), TimeDelta::minutes(1), &derivation).map(|finding| finding.message)
        };
        assert_eq!(
            told("2026-10-01T00:00:00Z", 14).unwrap(),
            "a blackout leaves nodes fewer than K = 2 chances: one that is created at 2026-12-16T06:00:00Z has 0 of 4 windows until its latest \
             start at 2026-12-30T04:41:00Z; end the blackout sooner, leave out a day that has a window, or let nodes live longer"
        );
        // Of Dec 12 one needs the windows of Dec 16 and Jan 6, which is 24 days and 20 hours later.
        assert!(told("2026-10-01T00:00:00Z", 24).unwrap().contains("one that is created at 2026-12-12T06:00:00Z has 1 of 6 windows"));
        assert_eq!(told("2026-10-01T00:00:00Z", 25), None);
        // What comes after it has all its windows.
        assert_eq!(told("2027-01-05T00:00:00Z", 14), None);
        // Nobody's last window has closed yet: a node of today is the worst off.
        assert!(told("2026-12-17T00:00:00Z", 14).unwrap().contains("one that is created at 2026-12-17T00:00:00Z has 0 of 4 windows"));
    }

    #[test]
    fn only_ten_are_named() {
        let names: Vec<String> = (10..22).map(|number| format!("c{number}")).collect();
        let message = all_opted_out(&NodePool::default(), 12, &names.into_iter().collect()).unwrap().message;
        assert_eq!(
            message,
            "every NodeClaim that is due (12) has a Node with karpenter.sh/do-not-disrupt: \"true\", so none is rotated and each expires with \
             it: c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, and 2 more; remove it from those that may be replaced"
        );
    }

    #[test]
    fn all_opted_out_means_all_that_are_due() {
        let template = json!({"spec": {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}}});
        let pool: NodePool = serde_json::from_value(template).unwrap();
        let one = BTreeSet::from(["c1".to_owned()]);
        let message = all_opted_out(&pool, 1, &one).unwrap().message;
        assert!(
            message.ends_with("it stands in the NodePool's template, from where it reaches every Node: remove it there and from the Nodes")
        );
        assert_eq!((all_opted_out(&pool, 2, &one), all_opted_out(&pool, 0, &BTreeSet::new())), (None, None));
    }
}
