//! What every attempt asserts, at its start and in each later pass: the claim `pending`, its Node frozen and cordoned, its
//! placeholder there.

use std::{collections::BTreeSet, ops::Deref};

use super::{
    effect::Effect,
    notice::{Notice, Regarding},
    scene::Scene,
    start::{RELEASE, give_up},
    state::State,
    step::{OnRefused, Planned},
};
use crate::{
    api::{
        events::Reason,
        karpenter::{Node, NodeClaim},
        pod::Pod,
        shared::Shared,
    },
    policy::Policy,
    surge::{self, BeyondBand, Doubt, Dropped, Limited, Reservation, SurgeError, SurgeRequest, placeholder_name},
    view::{Missing, Need},
};

/// The surge that an attempt needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Surge {
    /// The placeholder.
    pub pod: Shared<Pod>,
    /// What `spec.limits` lacks for it; `None` where it fits.
    pub shortfall: Option<String>,
    /// What the clamp did.
    pub notices: Vec<Notice>,
}

/// Works out the surge for a claim; the inner error names what can't be read.
pub fn surge(scene: &Scene<'_>, policy: &Policy, claim: &NodeClaim) -> Result<Result<Surge, String>, Missing> {
    let Some(name) = claim.node() else { return Ok(Err(format!("NodeClaim {} has no Node", claim.metadata.name))) };
    let (node, pods, nodes) = (scene.view.node(name), scene.view.pods_on(name), scene.view.nodes_of_pool(scene.name()));
    let (node, pods, nodes) = match (node, pods, nodes) {
        (Ok(node), Ok(pods), Ok(nodes)) => (node, pods, nodes),
        (node, pods, nodes) => return Err(merge([node.err(), pods.err(), nodes.err()])),
    };
    let Some(node) = node else { return Ok(Err(format!("Node {name} of NodeClaim {} is gone", claim.metadata.name))) };
    let triggered = scene.census.iter().flat_map(|census| &census.triggered);
    let due: Vec<&Node> = triggered.filter_map(|name| nodes.get(scene.claim(name)?.node()?).map(Deref::deref)).collect();
    Ok(fit(scene, policy, claim, node, pods, &due).map_err(|error| error.to_string()))
}

fn fit(scene: &Scene<'_>, policy: &Policy, claim: &NodeClaim, node: &Node, pods: &[Pod], due: &[&Node]) -> Result<Surge, SurgeError> {
    let reservation = if policy.settings.whole_node_reservation { Reservation::WholeNode } else { Reservation::Pods };
    let clamp = surge::request_for(reservation, scene.pool, claim, node, pods)?;
    // Without limits nobody asks for them.
    let claims = if scene.pool.spec.limits.is_some() { scene.claims() } else { &[] };
    let shortfall: Vec<String> = surge::headroom(scene.pool, &clamp.request, claims.len())?.iter().map(ToString::to_string).collect();
    let settings = &policy.settings;
    let affinity = surge::affinity(scene.pool, claim, node, &settings.required, &settings.preferred, due.iter().copied());
    let pod = surge::placeholder(&scene.config.placeholder, scene.pool, &claim.metadata.name, &clamp.request, affinity.node_affinity);
    let mut notices = clamp_notices(scene, claim, &clamp);
    notices.extend(affinity.dropped.iter().map(|dropped| requirement_dropped(scene, claim, dropped)));
    if shortfall.is_empty() {
        let doubts = surge::doubts(scene.pool, &clamp.request, claims)?;
        notices.extend(headroom_doubtful(scene, &doubts));
    }
    Ok(Surge { pod: pod.into(), shortfall: (!shortfall.is_empty()).then(|| shortfall.join("; ")), notices })
}

fn requirement_dropped(scene: &Scene<'_>, claim: &NodeClaim, dropped: &Dropped) -> Notice {
    let message = format!(
        "{dropped}. Pods of NodeClaim {} that need it may find no node: let the pool allow it, or take it out of matchNodeRequirements.",
        claim.metadata.name
    );
    Notice::new(Reason::RequirementDropped, scene.regarding(), scene.name(), message).on(dropped.key.clone())
}

fn headroom_doubtful(scene: &Scene<'_>, doubts: &[Doubt]) -> Option<Notice> {
    let doubts: Vec<String> = doubts.iter().map(ToString::to_string).collect();
    let message = format!(
        "{}. Karpenter charges whole instances, so it may bring none; tried all the same, since the pool may know a smaller one or have \
         room. Raise the limits of NodePool {} by at least one node.",
        doubts.join("; "),
        scene.name()
    );
    (!doubts.is_empty()).then(|| Notice::new(Reason::HeadroomDoubtful, scene.regarding(), scene.name(), message))
}

fn clamp_notices(scene: &Scene<'_>, claim: &NodeClaim, clamp: &SurgeRequest) -> Vec<Notice> {
    let notice = |reason, limited: &Limited, consequence: &str| {
        let (wanted, limit) = (limited.wanted.canonical(&limited.resource), limited.limit.canonical(&limited.resource));
        let message =
            format!("{}: the Pods request {wanted}, Karpenter plans with {limit} beside the DaemonSets: {consequence}", limited.resource);
        Notice::new(reason, Regarding::claim(&claim.metadata), scene.name(), message).on(limited.resource.clone())
    };
    let clamped = clamp.clamped.iter().map(|limited| notice(Reason::SurgeClamped, limited, "the placeholder requests that much"));
    let refused = clamp.refused.iter().map(|limited| {
        notice(
            Reason::SurgeClampRefused,
            limited,
            "the placeholder requests all of it and will find no Node; lower the DaemonSets' requests",
        )
    });
    let beyond = clamp.beyond_band.iter().map(|BeyondBand { limited, band }| {
        let (missing, band) = (limited.shortfall().canonical(&limited.resource), band.canonical(&limited.resource));
        let consequence = format!(
            "{missing} are missing, more than the {band} that the Node reports above Karpenter's plan; the replacement may be too small \
             for these Pods"
        );
        notice(Reason::SurgeClampBandExceeded, limited, &consequence)
    });
    clamped.chain(refused).chain(beyond).collect()
}

fn merge(missing: [Option<Missing>; 3]) -> Missing {
    let needs: BTreeSet<Need> = missing.into_iter().flatten().flat_map(|Missing(needs)| needs).collect();
    Missing(needs)
}

/// The writes of an attempt, each with what undoes what stands by then where it is refused.
pub struct Attempt<'s> {
    scene: &'s Scene<'s>,
    claim: &'s NodeClaim,
    undo: Shared<Vec<Planned>>,
    /// How many of these undo what only the placeholder's creation does.
    of_placeholder: usize,
}

impl<'s> Attempt<'s> {
    /// On this claim.
    pub fn new(scene: &'s Scene<'s>, claim: &'s NodeClaim) -> Self {
        let name = &claim.metadata.name;
        let placeholder = placeholder_name(name);
        let created = (!scene.view.placeholders.contains_key(&placeholder)).then(|| scene.delete_placeholder(&placeholder, name));
        let of_placeholder = usize::from(created.is_some());
        let undo: Vec<Planned> = created.into_iter().chain(give_up(scene, claim)).collect();
        Self { scene, claim, undo: undo.into(), of_placeholder }
    }

    /// Begins or re-asserts the attempt. Refused: nothing has been touched yet, so only the anchor goes.
    pub fn begin(&self, from: &'static [State]) -> Planned {
        let begin = Effect::BeginAttempt { claim: self.claim.metadata.name.clone(), from, at: self.scene.now };
        Planned::new(begin).refused(OnRefused { tell: None, undo: self.undo.clone(), from: self.undo.len() - RELEASE })
    }

    /// Freezes and cordons the claim's Node. A Node that is gone has nothing to hold.
    pub fn hold_node(&self) -> Option<Planned> {
        let hold = Effect::Hold { node: self.claim.node()?.to_owned(), claim: self.claim.metadata.name.clone() };
        Some(Planned::new(hold).gone_is_fine().refused(self.refused(self.of_placeholder)))
    }

    /// Creates the placeholder.
    pub fn create_placeholder(&self, surge: &Surge) -> Planned {
        let effect = Effect::CreatePlaceholder { pod: surge.pod.clone(), claim: self.claim.metadata.name.clone() };
        Planned::new(effect).refused(self.refused(0))
    }

    fn refused(&self, from: usize) -> Shared<OnRefused> {
        let message = format!("The surge for NodeClaim {} is refused", self.claim.metadata.name);
        let notice = Notice::new(Reason::SurgeRefused, self.scene.regarding(), self.scene.name(), message);
        OnRefused { tell: Some(notice), undo: self.undo.clone(), from }.into()
    }
}
