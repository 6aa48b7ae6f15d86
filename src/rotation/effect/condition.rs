//! What must hold for an effect to be written, in words. The judgement itself is [`super::apply`]'s.

use super::Effect;
use crate::rotation::state::State;

impl Effect {
    /// The precondition, for people.
    pub fn condition(&self) -> String {
        match self {
            Self::Anchor { .. } | Self::StartFallback { .. } => "no rotation is anchored, and the pool is not being deleted".into(),
            Self::MirrorDraining { claim, .. } | Self::Release { claim, .. } => format!("the anchor names {claim}"),
            Self::SettleWindows { .. } => "no rotation is anchored, and the note is the one that was judged".into(),
            Self::DropOrphans { .. } | Self::ForgetPoolWriter { .. } => "no rotation is anchored".into(),
            Self::BeginAttempt { from, .. } => format!("its state is {}, and it is not being deleted", states(from)),
            Self::NoteSurgeClaim { .. } | Self::MarkFailed { .. } => "its state is pending".into(),
            Self::MarkDraining { from, .. } => format!("its state is {}", states(from)),
            Self::MarkExpired { from, .. } => format!("its state is {}, and it is being deleted", states(from)),
            Self::ClearClaim { .. } => "it neither drains nor is expired".into(),
            Self::SweepClaim { .. } => "its state is pending or draining, and it is not being deleted".into(),
            Self::DeleteClaim { .. } => "its state is draining, and it is the same object".into(),
            Self::ReapClaim { .. } => "it is the same object".into(),
            Self::Freeze { claim, .. } | Self::Hold { claim, .. } => format!("it belongs to no rotation but that of {claim}"),
            Self::Restore { .. } => "its marks are this rotation's".into(),
            Self::CreatePlaceholder { .. } => "there is no Pod of this name".into(),
            Self::DeletePlaceholder { claim, .. } => format!("it is the placeholder of {claim}"),
        }
    }
}

fn states(from: &[State]) -> String {
    let name = |state: &State| if *state == State::None { "none" } else { state.as_str() };
    from.iter().map(name).collect::<Vec<_>>().join(" or ")
}
