//! Writes on a placeholder Pod.

use super::{Verdict, misdirected};
use crate::{
    api::{karpenter::pod_meta, keys, pod::Pod},
    rotation::effect::Effect,
};

pub(super) fn judge(effect: &Effect, pod: &Pod) -> Verdict {
    let meta = pod_meta(pod);
    // The annotation holds the full name and decides; a Pod without our label is never ours.
    let of = meta.label(keys::SURGE_FOR).map(|label| meta.annotation(keys::SURGE_FOR).unwrap_or(label));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match effect {
        Effect::CreatePlaceholder { claim, .. } | Effect::DeletePlaceholder { claim, .. } if of != Some(claim.as_str()) => {
            Verdict::NotMine(format!("the Pod {} is not the placeholder of {claim}", meta.name))
        }
        Effect::CreatePlaceholder { .. } if meta.is_deleting() => Verdict::NotMine("the earlier placeholder is still terminating".into()),
        Effect::CreatePlaceholder { .. } if matches!(phase, "Failed" | "Succeeded") => {
            Verdict::NotMine(format!("the earlier placeholder has ended ({phase}) and is not deleted yet"))
        }
        Effect::CreatePlaceholder { .. } | Effect::DeletePlaceholder { .. } if meta.is_deleting() => Verdict::Already,
        Effect::CreatePlaceholder { .. } => Verdict::Already,
        Effect::DeletePlaceholder { .. } => Verdict::Delete { uid: meta.uid },
        _ => misdirected(effect, "Pod"),
    }
}
