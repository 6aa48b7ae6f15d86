//! The command line: what was typed ([`Cli`]), one file per command, and the exit codes. Doc comments on the arguments are
//! the help text.

use clap::{Parser, Subcommand};

pub mod check;
pub mod completion;
pub mod connect;
pub mod crd;
pub mod exit;
pub mod run;
pub mod span;

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
  noderotation crd | kubectl apply -f -      install the RotationPolicy CRD
  noderotation run --dry-run                 what would a pass do now? Reads only
  noderotation run --context staging         one pass, from a laptop

`noderotation run --help` tells the exit codes.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Check(check::CheckArgs),
    /// Print the RotationPolicy CustomResourceDefinition as YAML
    Crd,
    Completion(completion::CompletionArgs),
}

impl Cli {
    /// Does what was asked for.
    pub fn execute(self) -> ExitCode {
        match self.command {
            Command::Run(args) => run::run(*args),
            Command::Check(args) => check::run(args),
            Command::Crd => crd::run(),
            Command::Completion(args) => completion::run(args),
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
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
