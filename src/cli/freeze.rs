//! `freeze` and `unfreeze`: the annotation by which the operator holds a pool.

use std::{collections::BTreeMap, ops::Deref};

use chrono::{DateTime, TimeDelta};
use clap::Args;

use super::{
    ExitCode, complete,
    consent::ConsentArgs,
    only::Only,
    reach::{self, Ended, ReachArgs, fail, failed},
    span,
    when::Reader,
};
use crate::{
    api::{
        karpenter::NodePool,
        keys,
        time::{Time, later, parse_annotation, to_annotation},
    },
    cluster::Cluster,
    kube::{operator::Written, session::Session, stop::Stop},
    rotation::effect::{Kind, Target},
    view::View,
};

/// Let no rotation start on a NodePool for a while
///
/// A rotation that waits for its replacement is held, too, and rolled back at its readyTimeout; one that drains goes on to its
/// end. Without --until or --for the pool stays frozen until `unfreeze`: its nodes then expire unless that comes first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  noderotation freeze web --for 2h\n  noderotation freeze web --until 2030-01-07T06:00:00Z --yes")]
pub struct FreezeArgs {
    /// The NodePool
    #[arg(value_name = "POOL", add = complete::pools())]
    pool: String,

    /// Until this instant, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = instant, conflicts_with = "span")]
    until: Option<Time>,

    /// For so long from now on
    #[arg(long = "for", id = "span", value_name = "DURATION", value_parser = span::positive)]
    span: Option<TimeDelta>,

    #[command(flatten)]
    consent: ConsentArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Let rotations start on a NodePool again
#[derive(Debug, Args)]
pub struct UnfreezeArgs {
    /// The NodePool
    #[arg(value_name = "POOL", add = complete::pools())]
    pool: String,

    #[command(flatten)]
    consent: ConsentArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

fn instant(text: &str) -> Result<Time, &'static str> {
    parse_annotation(text).ok_or("write an instant such as 2030-01-07T06:00:00Z")
}

/// The end of a freeze that has none.
fn without_end() -> Time {
    DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(Time::MAX_UTC)
}

/// Freezes.
pub fn freeze(args: FreezeArgs) -> ExitCode {
    reach::run(async |stop| {
        let session = open(&args.reach, stop).await?;
        let (view, now) = (session.load().await.map_err(|failure| failed(&failure))?, session.now());
        let pool = find(&view, &args.pool)?;
        let until = args.until.or_else(|| args.span.map(|span| later(now, span))).unwrap_or_else(without_end);
        if until <= now {
            return Err(fail(ExitCode::Usage, &format!("{} has passed: nothing would be frozen", to_annotation(until))));
        }
        args.consent.ask(&told(pool, until, now, Reader::Here))?;
        change(&args.reach, stop, pool, Some(to_annotation(until))).await
    })
}

/// Unfreezes.
pub fn unfreeze(args: UnfreezeArgs) -> ExitCode {
    reach::run(async |stop| {
        let session = open(&args.reach, stop).await?;
        let view = session.load().await.map_err(|failure| failed(&failure))?;
        let pool = find(&view, &args.pool)?;
        let Some(frozen) = pool.metadata.annotation(keys::FREEZE) else {
            println!("NodePool {} is not frozen; nothing was changed.", args.pool);
            return Ok(ExitCode::Done);
        };
        args.consent.ask(&format!("NodePool {}: the freeze ({frozen}) is removed; rotations may start again.", args.pool))?;
        change(&args.reach, stop, pool, None).await
    })
}

/// What a freeze means for the pool as it is.
fn told(pool: &NodePool, until: Time, now: Time, reader: Reader) -> String {
    let name = &pool.metadata.name;
    let end = if until == without_end() { "until you unfreeze it".to_owned() } else { format!("until {}", reader.here(until, now)) };
    let before = pool.metadata.annotation(keys::FREEZE).map(|before| format!(" (it was frozen until {before})")).unwrap_or_default();
    let draining = pool.metadata.annotation(keys::ACTIVE_ROTATION_STATE) == Some("draining");
    let flight = match pool.metadata.annotation(keys::ACTIVE_ROTATION) {
        None => String::new(),
        Some(claim) if draining => format!("\nThe rotation of NodeClaim {claim} is draining, and goes on to its end."),
        Some(claim) => format!("\nThe rotation of NodeClaim {claim} is held, and rolled back at its readyTimeout."),
    };
    format!("NodePool {name}: no rotation starts {end}{before}.{flight}")
}

async fn open(reach: &ReachArgs, stop: &Stop) -> Result<Session, Ended> {
    reach.session(&reach.client().await?, stop).await
}

fn find<'a>(view: &'a View, name: &str) -> Result<&'a NodePool, Ended> {
    let missing =
        || Only::Pool(name).missing(view).unwrap_or_else(|| format!("NodePool {name} can't be read; `noderotation plan` says why"));
    view.pools.get(name).map(Deref::deref).ok_or_else(|| fail(ExitCode::Failed, &missing()))
}

/// Writes to the version that was shown; the time for thinking is not the first session's.
async fn change(reach: &ReachArgs, stop: &Stop, pool: &NodePool, value: Option<String>) -> Result<ExitCode, Ended> {
    let name = &pool.metadata.name;
    let target = Target { kind: Kind::NodePool, namespace: String::new(), name: name.clone() };
    let session = open(reach, stop).await?;
    let words = value.as_ref().map_or("is no longer frozen".to_owned(), |until| format!("is frozen until {until}"));
    let annotations = BTreeMap::from([(keys::FREEZE, value)]);
    match session.annotate(&target, &pool.metadata, &annotations).await.map_err(|failure| failed(&failure))? {
        Written::Landed => {
            println!("NodePool {name} {words}.");
            Ok(ExitCode::Done)
        }
        Written::Changed => retry(&session, &target, pool, annotations, &words).await,
        Written::Gone => Err(fail(ExitCode::Failed, &format!("NodePool {name} is gone; nothing was changed"))),
    }
}

/// Passes write NodePools all the time; only if somebody else changed the freeze itself is it no longer what was shown.
async fn retry(
    session: &Session,
    target: &Target,
    shown: &NodePool,
    annotations: BTreeMap<&str, Option<String>>,
    words: &str,
) -> Result<ExitCode, Ended> {
    let name = &target.name;
    for _ in 0..5 {
        let view = session.load().await.map_err(|failure| failed(&failure))?;
        let fresh = find(&view, name)?;
        if fresh.metadata.uid != shown.metadata.uid || fresh.metadata.annotation(keys::FREEZE) != shown.metadata.annotation(keys::FREEZE) {
            break;
        }
        if session.annotate(target, &fresh.metadata, &annotations).await.map_err(|failure| failed(&failure))? == Written::Landed {
            println!("NodePool {name} {words}.");
            return Ok(ExitCode::Done);
        }
    }
    Err(fail(ExitCode::Failed, &format!("NodePool {name} has changed since it was shown; nothing was changed: look again")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::zone::Zone,
        fixture::{NOW, at, view},
    };

    #[test]
    fn what_a_freeze_means_is_told_for_the_pool_as_it_is() {
        let view = view();
        let reader = Reader::In(Zone::UTC);
        let told = |pool: &str, until: Time| told(&view.pools[pool], until, at(NOW), reader);
        assert_eq!(told("web", without_end()), "NodePool web: no rotation starts until you unfreeze it.");
        assert_eq!(
            told("batch", at("2026-12-05T04:00:00Z")),
            "NodePool batch: no rotation starts until Sat 04:00 (in 2h).\nThe rotation of NodeClaim batch-1 is held, and rolled back at its readyTimeout."
        );
    }
}
