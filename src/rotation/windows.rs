//! Settles closed windows (§3): which of them closed with something due and nothing rotated, counted once each.

use super::{
    effect::Effect,
    notice::Notice,
    scene::Scene,
    step::{Assessment, Planned, Say},
};
use crate::{
    api::{
        events::Reason,
        keys,
        meta::Stamp,
        time::{Time, to_annotation},
    },
    policy::{Policy, resolve::Governance},
    schedule::{
        findings::Level,
        settle::{Held, Pool, Settlement, settle},
        window::Occurrence,
    },
};

/// The write that notes up to when windows have been judged, where one is due. A schedule that never closes has none.
pub fn settlement(scene: &Scene<'_>, policy: &Policy, assessment: &Assessment) -> Option<Planned> {
    if scene.schedule.always_open {
        return None;
    }
    let meta = &scene.pool.metadata;
    let stamp = meta.annotation(keys::WINDOW_SETTLED_AT);
    let settlement = settle(&Pool {
        now: scene.now,
        schedule: scene.schedule,
        uid: &policy.uid,
        generation: policy.generation,
        stamp,
        anchored: scene.anchor().is_some(),
        held: held(scene, policy, assessment),
        frozen_until: match meta.stamp(keys::FREEZE) {
            Stamp::Absent => None,
            Stamp::At(until) => Some(until),
            Stamp::Unreadable => Some(Time::MAX_UTC),
        },
        last_rotation_at: meta.stamp(keys::LAST_ROTATION_AT).time(),
        outstanding: &assessment.outstanding,
    });
    let note = |to: String, missed: usize| {
        let missed = u64::try_from(missed).unwrap_or(u64::MAX);
        Planned::new(Effect::SettleWindows { pool: scene.name().into(), from: stamp.map(str::to_owned), to, missed }).gone_is_fine()
    };
    match settlement {
        Settlement::Deferred | Settlement::Unchanged => None,
        Settlement::Stamp(settled) => Some(note(settled.to_string(), 0)),
        Settlement::Missed { stamp: settled, occurrences } => {
            let say = Say::Notice(missed(scene, assessment, &occurrences));
            Some(note(settled.to_string(), occurrences.len()).say(say))
        }
    }
}

fn held(scene: &Scene<'_>, policy: &Policy, assessment: &Assessment) -> Held {
    Held {
        suspended: policy.settings.suspend,
        is_static: scene.pool.spec.replicas.is_some(),
        conflict: matches!(scene.governance, Governance::Conflict(_)),
        fatal: !policy.is_valid() || assessment.findings.iter().any(|finding| finding.code.level() == Level::Fatal),
    }
}

fn missed(scene: &Scene<'_>, assessment: &Assessment, occurrences: &[Occurrence]) -> Notice {
    let last = occurrences.last().map(|last| format!("{} to {}", to_annotation(last.start), to_annotation(last.end)));
    let message = format!(
        "{} maintenance windows closed with something due and nothing rotated, the last from {}; {} NodeClaims are due. Do passes run in the windows, and what do they say?",
        occurrences.len(),
        last.unwrap_or_default(),
        assessment.outstanding.len(),
    );
    Notice::new(Reason::WindowMissed, scene.regarding(), scene.name(), message)
}
