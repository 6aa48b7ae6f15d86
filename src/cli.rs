//! The command line: what was typed ([`Cli`]), one file per command, and the exit codes. Doc comments on the arguments are
//! the help text.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub mod abort;
pub mod check;
pub mod complete;
pub mod completion;
pub mod connect;
pub mod consent;
pub mod crd;
pub mod exit;
pub mod freeze;
pub mod man;
pub mod only;
pub mod plan;
pub mod reach;
pub mod rotate;
pub mod run;
pub mod screen;
pub mod simulate;
pub mod span;
pub mod status;
pub mod when;

pub use exit::ExitCode;

/// Replaces Karpenter nodes before they expire, inside maintenance windows, make-before-break.
///
/// Karpenter ends a node at its NodeClaim's creation + expireAfter, at any hour and outside disruption budgets. This program
/// replaces each node earlier, inside the windows of a RotationPolicy: it reserves one node's worth of room in the same
/// NodePool, waits until that is Ready, and deletes the old NodeClaim, so that Karpenter drains it the voluntary way, where
/// PodDisruptionBudgets hold. Each run is one short pass; a CronJob starts one every minute.
#[derive(Debug, Parser)]
#[command(name = "noderotation", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  noderotation simulate                      a month of a made-up fleet, with noderotation and without
  noderotation crd | kubectl apply -f -      install the RotationPolicy CRD
  noderotation check policies/               would these policies work? Needs no cluster
  noderotation plan                          what would a pass do now, and why? Reads only
  noderotation status --watch                what is in flight, and what does it wait for?
  noderotation run --context staging         one pass, from a laptop

`noderotation run --help` tells the exit codes.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Plan(plan::PlanArgs),
    Status(status::StatusArgs),
    Freeze(freeze::FreezeArgs),
    Unfreeze(freeze::UnfreezeArgs),
    Rotate(rotate::RotateArgs),
    Abort(abort::AbortArgs),
    Check(check::CheckArgs),
    Simulate(Box<simulate::SimulateArgs>),
    /// Print the RotationPolicy CustomResourceDefinition as YAML
    Crd,
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
}

impl Cli {
    /// What was typed. Where the shell asks for completions instead, they are answered, and the process ends. As a plugin of
    /// kubectl (a file named kubectl-noderotation on the PATH), help says what is typed there.
    pub fn typed() -> Self {
        clap_complete::CompleteEnv::with_factory(Self::command).complete();
        let matches = Self::command_as(std::env::args_os().next().as_deref()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    fn command_as(program: Option<&std::ffi::OsStr>) -> clap::Command {
        let name = program.and_then(|program| std::path::Path::new(program).file_stem()?.to_str());
        let command = Self::command();
        if name.is_some_and(|name| name.starts_with("kubectl-")) { command.bin_name("kubectl noderotation") } else { command }
    }

    /// Does what was asked for.
    pub fn execute(self) -> ExitCode {
        match self.command {
            Command::Run(args) => run::run(*args),
            Command::Plan(args) => plan::run(args),
            Command::Status(args) => status::run(args),
            Command::Freeze(args) => freeze::freeze(args),
            Command::Unfreeze(args) => freeze::unfreeze(args),
            Command::Rotate(args) => rotate::run(args),
            Command::Abort(args) => abort::run(args),
            Command::Check(args) => check::run(args),
            Command::Simulate(args) => simulate::run(*args),
            Command::Crd => crd::run(),
            Command::Completion(args) => completion::run(args),
            Command::Man(args) => man::run(&args),
        }
    }
}

/// Writes a command's result to standard output. That its reader went away early is no error.
fn print(text: &str) -> ExitCode {
    use std::io::{ErrorKind, Write};

    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::Done,
        Err(error) => {
            eprintln!("error: writing to standard output: {error}");
            ExitCode::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
