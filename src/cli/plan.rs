//! `plan`: what the next pass would do, and why. The same View, needs and decision as a pass's; nothing that writes is built.

use std::num::NonZeroUsize;

use clap::Args;

use super::{
    ExitCode, complete,
    only::OnlyArgs,
    reach::{self, Ended, Look, ReachArgs, Reached, fail},
    screen::{Format, OutputArgs, Screen, structured},
    when::Reader,
};
use crate::{
    kube::stop::Stop,
    rotation::{decide::decide, scene::Config},
};

mod deep;
mod forecast;
pub mod model;
mod table;

use model::Plan;

/// Show what the next pass would do with each NodePool, and why
///
/// A table of the pools: policy, window, age threshold A, guaranteed chances K, starts per window C, what is in flight and due.
/// With POOL: the derivation with its numbers, the gates, the candidates in order, the writes of the next step with their
/// preconditions, and what the next windows will rotate. Reads only, and needs no Lease.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// A NodePool to look at in depth
    #[arg(value_name = "POOL", add = complete::pools())]
    pool: Option<String>,

    #[command(flatten)]
    only: OnlyArgs,

    /// Try the writes of a start by server-side dry run, too; needs the rights of a pass
    #[arg(long)]
    rehearse: bool,

    /// How many rotations passes let be in flight in the cluster [default: no limit]
    #[arg(long, value_name = "N", env = "NODEROTATION_MAX_IN_FLIGHT", hide_env_values = true)]
    max_in_flight: Option<NonZeroUsize>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

const EXAMPLES: &str = "\
Examples:
  noderotation plan
  noderotation plan web
  noderotation plan --policy nights -o wide
  noderotation plan -o json | jq '.pools[] | select(.due > 0) | .name'";

/// Prints it.
pub fn run(args: PlanArgs) -> ExitCode {
    reach::run(async |stop| plan(args, stop).await)
}

async fn plan(args: PlanArgs, stop: &Stop) -> Result<ExitCode, Ended> {
    let reached = args.reach.client().await?;
    let plan = look(&args, &reached, stop).await?;
    let screen = Screen::stdout(!args.output.no_headers);
    let text = render(&plan, args.pool.is_some(), args.output.output, screen, Reader::Here).map_err(|why| fail(ExitCode::Failed, &why))?;
    let unjudged = plan.errors.is_empty() && plan.pools.iter().all(|pool| pool.step.error.is_none());
    Ok(match super::print(&text) {
        ExitCode::Done if !unjudged => ExitCode::Failed,
        code => code,
    })
}

async fn look(args: &PlanArgs, reached: &Reached, stop: &Stop) -> Result<Plan, Ended> {
    let max_in_flight = args.max_in_flight.map(NonZeroUsize::get);
    let config = Config { rehearse: args.rehearse, max_in_flight, ..args.reach.config() };
    let Look { view, lease, now } = args.reach.look(reached, stop, &config).await?;
    let only = args.only.and(args.pool.as_deref());
    if let Some(missing) = only.missing(&view) {
        return Err(fail(ExitCode::Failed, &missing));
    }
    let mut plan = Plan::of(&view, &decide(&view, now, &config), now, &config, only);
    // Who may not read Leases still gets the plan.
    plan.lease_holder = lease.ok().flatten().and_then(|record| record.held(now)).map(|held| held.to_string());
    Ok(plan)
}

/// The plan as asked for.
pub fn render(plan: &Plan, deep: bool, format: Format, screen: Screen, reader: Reader) -> Result<String, String> {
    Ok(match format {
        Format::Json => structured(plan, false)?,
        Format::Yaml => structured(plan, true)?,
        Format::Name => plan.pools.iter().map(|pool| format!("nodepool.karpenter.sh/{}\n", pool.name)).collect(),
        Format::Table | Format::Wide if deep => deep::text(plan, screen, reader),
        Format::Table => table::text(plan, false, screen, reader),
        Format::Wide => table::text(plan, true, screen, reader),
    })
}

#[cfg(test)]
mod tests;
