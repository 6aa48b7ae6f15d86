//! `completion`: shell completions.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, ExitCode};
use crate::api::keys::PROGRAM;

/// Print the completion script of a shell
///
/// For bash, in ~/.bashrc:  source <(noderotation completion bash)
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), PROGRAM, &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
