//! `status`: what is in flight, since when, and what it waits for; what came of earlier rotations; who is at work.

use std::time::Duration;

use clap::Args;

use super::{
    ExitCode, complete,
    only::OnlyArgs,
    reach::{self, Ended, Look, ReachArgs, Reached, fail},
    screen::{Format, OutputArgs, Screen, structured},
    when::Reader,
};
use crate::{kube::stop::Stop, rotation::decide::decide};

pub mod model;
mod table;

use model::Status;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Show the rotations in flight and what they wait for
///
/// Each with its claim, Node, state, since when, the attempt, and what it waits for in the words of the scheduler, Karpenter or
/// the budgets that block it; then nodes whose attempts failed, what came of earlier rotations, and whether a pass is at work.
/// Everything told is read from the cluster; nothing is written.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this NodePool
    #[arg(value_name = "POOL", add = complete::pools())]
    pool: Option<String>,

    #[command(flatten)]
    only: OnlyArgs,

    /// Look again every two seconds, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Prints it, once or again and again.
pub fn run(args: StatusArgs) -> ExitCode {
    reach::run(async |stop| status(args, stop).await)
}

async fn status(args: StatusArgs, stop: &Stop) -> Result<ExitCode, Ended> {
    let reached = args.reach.client().await?;
    let mut shown = false;
    loop {
        let status = match look(&args, &reached, stop).await {
            Ok(status) => status,
            // It has said why; whoever watches wants to see when it is over.
            Err(_) if shown && args.watch && stop.requested().is_none() => {
                pause(stop).await;
                continue;
            }
            Err(ended) => return Err(ended),
        };
        // The terminal may have another size by now.
        let screen = Screen::stdout(!args.output.no_headers);
        let text = render(&status, args.output.output, screen, Reader::Here).map_err(|why| fail(ExitCode::Failed, &why))?;
        // Home, and clear what is below: no flicker.
        let text = if args.watch && screen.width.is_some() { format!("\u{1b}[H\u{1b}[J{}", screen.cut(&text)) } else { text };
        let printed = super::print(&text);
        shown = true;
        if !args.watch || printed != ExitCode::Done || pause(stop).await {
            return Ok(printed);
        }
    }
}

/// Until the next look; `true` where a signal has come.
async fn pause(stop: &Stop) -> bool {
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => false,
        _ = stop.wait() => true,
    }
}

async fn look(args: &StatusArgs, reached: &Reached, stop: &Stop) -> Result<Status, Ended> {
    let config = args.reach.config();
    let Look { view, lease, now } = args.reach.look(reached, stop, &config).await?;
    let only = args.only.and(args.pool.as_deref());
    if let Some(missing) = only.missing(&view) {
        return Err(fail(ExitCode::Failed, &missing));
    }
    let lease = lease.map_err(|failure| failure.to_string());
    Ok(Status::of(&view, &decide(&view, now, &config), lease, now, &config, only))
}

/// The status as asked for.
pub fn render(status: &Status, format: Format, screen: Screen, reader: Reader) -> Result<String, String> {
    Ok(match format {
        Format::Json => structured(status, false)?,
        Format::Yaml => structured(status, true)?,
        Format::Name => status.in_flight.iter().map(|flight| format!("nodeclaim.karpenter.sh/{}\n", flight.claim)).collect(),
        Format::Table => table::text(status, false, screen, reader),
        Format::Wide => table::text(status, true, screen, reader),
    })
}

#[cfg(test)]
mod tests;
