//! The net is tested too: real defects, one per invariant, each caught by the seeds that the soak runs.

use noderotation::{
    api::keys,
    rotation::{
        effect::{Effect, Kind, Outcome},
        totals::Totals,
    },
    surge::claim_of,
    view::View,
    world::pool::PoolWorld,
};

use crate::soak::{Told, story};

/// A defect of the engine, planted where its View, its writes or its words go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// (1) It does not see anchors, nor keep them.
    BlindToAnchors,
    /// (2) It never removes its marks from Nodes.
    LeaveMarks,
    /// (3) It keeps the placeholder through the drain, so that Karpenter brings a third node.
    KeepPlaceholder,
    /// (3) It uncordons Nodes that somebody else cordoned.
    Uncordon,
    /// (4) It takes every hour for a window.
    IgnoreWindows,
    /// (5) It believes a placeholder to run that doesn't.
    BelieveTheSurge,
    /// (6) It counts an outcome twice.
    CountTwice,
    /// (7) It tells everything twice.
    AnnounceTwice,
    /// (8) It never releases an anchor.
    NeverRelease,
}

const DEFECTS: [(Defect, &str); 9] = [
    (Defect::BlindToAnchors, "(1)"),
    (Defect::LeaveMarks, "(2)"),
    (Defect::KeepPlaceholder, "(3)"),
    (Defect::Uncordon, "(3)"),
    (Defect::IgnoreWindows, "(4)"),
    (Defect::BelieveTheSurge, "(5)"),
    (Defect::CountTwice, "(6)"),
    (Defect::AnnounceTwice, "(7)"),
    (Defect::NeverRelease, "(8)"),
];

impl Defect {
    /// Whether a write is left out although it is told as done.
    pub fn swallows(self, effect: &Effect) -> bool {
        match self {
            Self::BlindToAnchors => matches!(effect, Effect::SweepClaim { .. }),
            Self::LeaveMarks => matches!(effect, Effect::Restore { .. }),
            Self::KeepPlaceholder => matches!(effect, Effect::DeletePlaceholder { .. }),
            Self::NeverRelease => matches!(effect, Effect::Release { .. }),
            _ => false,
        }
    }

    /// What it writes first.
    pub fn prepares(self, effect: &Effect, pool: &mut PoolWorld) {
        if let (Self::BlindToAnchors, Effect::Anchor { pool: name, .. }) = (self, effect) {
            pool.annotate(Kind::NodePool, name, keys::ACTIVE_ROTATION, None);
        }
    }

    /// What else it writes.
    pub fn spoils(self, effect: &Effect, outcome: &Outcome, pool: &mut PoolWorld) {
        if !matches!(outcome, Outcome::Landed { .. }) {
            return;
        }
        match (self, effect) {
            (Self::Uncordon, Effect::Restore { node, .. }) => pool.cordon(node, true),
            (Self::CountTwice, Effect::Release { .. }) => {
                let name = pool.name.clone();
                let mut totals = Totals::of(&pool.view.pools[&name].metadata).unwrap_or_default();
                totals.success += 1;
                pool.annotate(Kind::NodePool, &name, keys::TOTALS, Some(&totals.to_annotation()));
            }
            _ => {}
        }
    }

    /// What it sees that isn't so.
    pub fn deceives(self, view: &mut View) {
        match self {
            Self::BlindToAnchors => {
                for pool in view.pools.values_mut() {
                    pool.metadata.annotations.remove(keys::ACTIVE_ROTATION);
                }
            }
            Self::IgnoreWindows => {
                for policy in view.policies.values_mut() {
                    for window in &mut policy.settings.windows {
                        (window.start, window.end) = (0, 24 * 60);
                        window.days = every_day();
                    }
                }
            }
            Self::BelieveTheSurge => {
                let hosts: Vec<(String, String)> =
                    view.claims.values().filter_map(|claim| Some((claim.metadata.name.clone(), claim.node()?.to_owned()))).collect();
                for pod in view.placeholders.values_mut() {
                    let elsewhere = hosts.iter().find(|(claim, _)| claim_of(pod) != Some(claim));
                    let Some((_, node)) = elsewhere else { continue };
                    pod.spec.get_or_insert_default().node_name.get_or_insert_with(|| node.clone());
                    pod.status.get_or_insert_default().phase = Some("Running".into());
                }
            }
            _ => {}
        }
    }
}

fn every_day() -> Vec<chrono::Weekday> {
    use chrono::Weekday::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
    vec![Mon, Tue, Wed, Thu, Fri, Sat, Sun]
}

#[test]
fn every_planted_defect_is_caught_by_the_seeds_that_run() {
    for (defect, invariant) in DEFECTS {
        let mut seeds = 0..200;
        let caught = seeds.find_map(|seed| {
            let Told { wrong, .. } = story(seed, Some(defect));
            wrong.into_iter().find(|wrong| wrong.starts_with(invariant)).map(|wrong| (seed, wrong))
        });
        let Some((seed, wrong)) = caught else { panic!("{defect:?} was caught by none of 200 seeds") };
        println!("{defect:?}: caught by seed {seed}: {wrong}");
    }
}
