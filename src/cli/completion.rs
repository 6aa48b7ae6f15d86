//! `completion`: shell completions that know the cluster's pools and nodes.

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::ExitCode;
use crate::api::keys::PROGRAM;

/// The variable by which the shell's function asks this program.
const VARIABLE: &str = "COMPLETE";

/// Print the completion script of a shell
///
/// For bash, in ~/.bashrc:  source <(noderotation completion bash)
/// It asks this program for what fits, so names of NodePools, NodeClaims and Nodes come from the cluster.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// Prints the script.
pub fn run(args: CompletionArgs) -> ExitCode {
    let completer: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    let mut script = Vec::new();
    match completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script) {
        Ok(()) => super::print(&String::from_utf8_lossy(&script)),
        Err(error) => {
            eprintln!("error: writing the completion script: {error}");
            ExitCode::Failed
        }
    }
}
