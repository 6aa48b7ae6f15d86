//! `abort`: ends a rotation that has not begun to drain, as its timeout would.

use std::time::Duration;

use clap::Args;

use super::{
    ExitCode, complete,
    consent::ConsentArgs,
    reach::{self, Ended, ReachArgs, fail, failed},
};
use crate::{
    cluster::Cluster,
    kube::{session::Session, stop::Stop},
    pass::{self, perform},
    rotation::{abort::abort, decide::ROUNDS, scene::Config, step::Step},
    view::Missing,
};

/// A pass at work is waited for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// End the rotation in flight on a NodePool before it drains, and undo it
///
/// The rollback that a rotation's timeout would make: the node that came for it is removed where it is empty, the placeholder
/// deleted, the old node uncordoned and unprotected, and the attempt counted as failed, with its pause and backoff. Once the old
/// node drains it is refused: its deletion can't be taken back. Waits for a pass that is at work.
#[derive(Debug, Args)]
#[command(
    after_help = "To keep it from starting again after its pause, freeze the pool first:\n  noderotation freeze web --for 2h && noderotation abort web"
)]
pub struct AbortArgs {
    /// The NodePool
    #[arg(value_name = "POOL", add = complete::pools())]
    pool: String,

    #[command(flatten)]
    consent: ConsentArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Aborts.
pub fn run(args: AbortArgs) -> ExitCode {
    reach::run(async |stop| end(&args, stop).await)
}

async fn end(args: &AbortArgs, stop: &Stop) -> Result<ExitCode, Ended> {
    let reached = args.reach.client().await?;
    let config = args.reach.config();
    let session = args.reach.session(&reached, stop).await?;
    let shown = decide(&session, &config, &args.pool).await?;
    args.consent.ask(&told(&args.pool, &shown))?;
    // The time for thinking is not the writing session's.
    let mut session = args.reach.session(&reached, stop).await?;
    if let Some(held) = session.take_lease(PATIENCE).await.map_err(|failure| failed(&failure))? {
        return Err(fail(ExitCode::Failed, &format!("nothing was changed: {held}")));
    }
    let ended = write(&session, &config, &args.pool, &shown).await;
    session.close().await;
    ended
}

/// Decides again under the Lease. Passes go on while it is shown, and change what there is left to undo; only another rotation is
/// not what was shown.
async fn write(session: &Session, config: &Config, pool: &str, shown: &Step) -> Result<ExitCode, Ended> {
    let step = decide(session, config, pool).await?;
    if rotated(&step) != rotated(shown) {
        let why = format!("another rotation is in flight on NodePool {pool} than was shown; nothing was changed: look again");
        return Err(fail(ExitCode::Failed, &why));
    }
    if lines(&step) != lines(shown) {
        eprintln!("It has gone on meanwhile:\n{}", told(pool, &step));
    }
    let performed = perform(session, &step.effects).await;
    session.tell(&performed.conditions).await;
    if let Some(failure) = &performed.aborted {
        return Err(failed(failure));
    }
    if !performed.errors.is_empty() {
        let why = performed.errors.join("; ");
        return Err(fail(ExitCode::Failed, &format!("the rollback did not get to its end, and the next pass goes on with it: {why}")));
    }
    if performed.anchored != Some(None) {
        let why = "the rollback did not get to its end, since something else changed meanwhile; the next pass goes on from there";
        return Err(fail(ExitCode::Failed, why));
    }
    println!("The rotation on NodePool {pool} is ended and undone.");
    Ok(ExitCode::Done)
}

async fn decide(session: &Session, config: &Config, pool: &str) -> Result<Step, Ended> {
    let mut view = pass::view(session, config).await.map_err(|failure| failed(&failure))?;
    let now = session.now();
    for _ in 0..ROUNDS {
        match abort(&view, now, config, pool) {
            Ok(Ok(step)) => return Ok(step),
            Ok(Err(why)) => return Err(fail(ExitCode::Failed, &format!("nothing was changed: {why}"))),
            Err(Missing(needs)) => {
                if let Some((need, why)) = needs.iter().find_map(|need| view.facts.failed.get_key_value(need)) {
                    return Err(fail(ExitCode::Failed, &format!("nothing was changed: {need} can't be read: {why}")));
                }
                session.read(&mut view, &needs).await;
            }
        }
    }
    Err(fail(ExitCode::Failed, "nothing was changed: the cluster did not tell all that the rollback has to know"))
}

fn rotated(step: &Step) -> Option<&str> {
    step.assessment.in_flight.as_ref().map(|rotation| rotation.claim.as_str())
}

fn lines(step: &Step) -> Vec<String> {
    step.effects.iter().map(|planned| planned.effect.to_string()).collect()
}

fn told(pool: &str, step: &Step) -> String {
    let mut text = format!("NodePool {pool}: {}", step.action.detail);
    for (number, line) in lines(step).iter().enumerate() {
        text.push_str(&format!("\n{:>3}. {line}", number + 1));
    }
    text
}
