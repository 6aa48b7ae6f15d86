//! `rotate`: asks for one node, whatever its age.

use std::{collections::BTreeMap, ops::Deref};

use clap::Args;

use super::{
    ExitCode, complete,
    consent::ConsentArgs,
    reach::{self, Ended, ReachArgs, fail, failed},
    when::Reader,
};
use crate::{
    api::{
        karpenter::NodeClaim,
        keys,
        time::{Time, to_annotation},
    },
    cluster::Cluster,
    kube::{operator::Written, session::Session, stop::Stop},
    pass,
    rotation::{
        decide::{Decision, decide},
        effect::{Kind, Target},
    },
    view::View,
};

/// Ask for a node to be rotated next, whatever its age
///
/// It is rotated as any other: inside a window, make-before-break, one node of the pool at a time, ahead of those that are due by
/// age. This only writes the wish on the NodeClaim; the next passes fulfil it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  noderotation rotate ip-10-0-1-17.eu-central-1.compute.internal\n  noderotation rotate web-7xk2p --yes"
)]
pub struct RotateArgs {
    /// A Node, or its NodeClaim
    #[arg(value_name = "NODE|CLAIM", add = complete::claims())]
    name: String,

    #[command(flatten)]
    consent: ConsentArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Asks for it.
pub fn run(args: RotateArgs) -> ExitCode {
    reach::run(async |stop| rotate(&args, stop).await)
}

async fn rotate(args: &RotateArgs, stop: &Stop) -> Result<ExitCode, Ended> {
    let reached = args.reach.client().await?;
    let session = args.reach.session(&reached, stop).await?;
    let config = args.reach.config();
    let view = pass::view(&session, &config).await.map_err(|failure| failed(&failure))?;
    let now = session.now();
    let claim = find(&view, &args.name)
        .ok_or_else(|| fail(ExitCode::Failed, &format!("there is no NodeClaim and no Node of one named {}", args.name)))?;
    let change = told(&decide(&view, now, &config), claim, now, Reader::Here).map_err(|why| fail(ExitCode::Failed, &why))?;
    args.consent.ask(&change)?;
    let session = args.reach.session(&reached, stop).await?;
    ask(&session, claim, now).await
}

async fn ask(session: &Session, claim: &NodeClaim, now: Time) -> Result<ExitCode, Ended> {
    let name = &claim.metadata.name;
    let target = Target { kind: Kind::NodeClaim, namespace: String::new(), name: name.clone() };
    let annotations = BTreeMap::from([(keys::ROTATE_REQUESTED, Some(to_annotation(now)))]);
    let mut seen = claim.metadata.clone();
    for _ in 0..5 {
        match session.annotate(&target, &seen, &annotations).await.map_err(|failure| failed(&failure))? {
            Written::Landed => {
                println!("NodeClaim {name} is asked for; `noderotation plan` shows its turn.");
                return Ok(ExitCode::Done);
            }
            Written::Gone => return Err(fail(ExitCode::Failed, &format!("NodeClaim {name} is gone; nothing was changed"))),
            // Karpenter writes claims all the time: only another object of the name, or one that is going, is another matter.
            Written::Changed => {
                let view = session.load().await.map_err(|failure| failed(&failure))?;
                let fresh = view.claims.get(name).filter(|fresh| fresh.metadata.uid == seen.uid && !fresh.metadata.is_deleting());
                let Some(fresh) = fresh else { break };
                seen = fresh.metadata.clone();
            }
        }
    }
    Err(fail(ExitCode::Failed, &format!("NodeClaim {name} has changed since it was shown; nothing was changed: look again")))
}

fn find<'a>(view: &'a View, name: &str) -> Option<&'a NodeClaim> {
    view.claims.get(name).or_else(|| view.claims.values().find(|claim| claim.node() == Some(name))).map(Deref::deref)
}

/// What the wish would come to; the error says why it would come to nothing.
fn told(decision: &Decision, claim: &NodeClaim, now: Time, reader: Reader) -> Result<String, String> {
    let name = &claim.metadata.name;
    if claim.metadata.is_deleting() {
        return Err(format!("NodeClaim {name} is being deleted already; nothing was changed"));
    }
    let pool = claim.pool().unwrap_or_default();
    let Some(step) = decision.steps.get(pool) else {
        return Err(format!("NodeClaim {name} belongs to no NodePool that can be judged; nothing was changed"));
    };
    let seen = &step.assessment;
    let Some(policy) = &seen.policy else {
        return Err(format!("no RotationPolicy governs NodePool {pool}: NodeClaim {name} would never be rotated; nothing was changed"));
    };
    if seen.in_flight.as_ref().is_some_and(|flight| flight.claim == *name) {
        return Err(format!("NodeClaim {name} is being rotated already; nothing was changed"));
    }
    let node = claim.node().map(|node| format!(" (Node {node})")).unwrap_or_default();
    let mut text = format!(
        "NodeClaim {name}{node} of NodePool {pool} is asked for under policy {policy}: it is rotated before those that are due by age."
    );
    match (seen.window, seen.next_window) {
        (Some(window), _) => text.push_str(&format!("\nThe window is open until {}.", reader.here(window.end, now))),
        (None, Some(next)) => text.push_str(&format!("\nThe next window opens {}.", reader.here(next, now))),
        (None, None) => text.push_str("\nNo window ever opens: nothing will start."),
    }
    for gate in seen.gates.iter().filter(|gate| gate.code != "window-closed") {
        text.push_str(&format!("\nNothing starts yet: {}.", gate.detail));
    }
    if let Some(flight) = &seen.in_flight {
        text.push_str(&format!("\nFirst the rotation of NodeClaim {} has to end.", flight.claim));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::zone::Zone,
        fixture::{NOW, at, config, view},
    };

    #[test]
    fn what_a_wish_comes_to_is_told_or_why_it_comes_to_nothing() {
        let view = view();
        let decision = decide(&view, at(NOW), &config());
        let reader = Reader::In(Zone::UTC);
        let told = |name: &str| told(&decision, find(&view, name).unwrap(), at(NOW), reader);
        assert_eq!(
            told("node-web-4").unwrap(),
            "NodeClaim web-4 (Node node-web-4) of NodePool web is asked for under policy nights: it is rotated before those that are due by age.\n\
             The window is open until Sat 05:00 (in 3h)."
        );
        assert!(told("api-1").unwrap().contains("The next window opens Mon 01:00 (in 1d23h)."));
        assert_eq!(told("batch-1").unwrap_err(), "NodeClaim batch-1 is being rotated already; nothing was changed");
        assert!(told("alone-1").unwrap_err().starts_with("no RotationPolicy governs NodePool alone"));
        assert!(find(&view, "nobody").is_none());
    }
}
