//! `completion`: shell completions that know the cluster's pools, policies and nodes.

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::ExitCode;
use crate::api::keys::PROGRAM;

/// The variable by which the shell's function asks this program.
const VARIABLE: &str = "COMPLETE";

/// How `kubectl` asks a plugin: by this program on the `PATH`, with the words after the plugin's name. It takes what cobra
/// programs print: a line for each word, and a number for what else the shell should do (4: offer no files).
const FOR_KUBECTL: &str = r#"#!/bin/sh
COMPLETE=fish kubectl-noderotation -- kubectl-noderotation "$@" && echo :4
"#;

const EXAMPLES: &str = "\
Examples:
  source <(noderotation completion bash)         in ~/.bashrc
  noderotation completion kubectl >~/bin/kubectl_complete-noderotation && chmod +x ~/bin/kubectl_complete-noderotation
                                                 for `kubectl noderotation`, in any folder of the PATH";

/// Print the completion script of a shell, or that of kubectl for its plugin
///
/// It asks this program for what fits, so names of NodePools, RotationPolicies, NodeClaims and Nodes come from the cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArgs {
    /// Who asks
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    /// kubectl's own completion, which needs the script as a program named kubectl_complete-noderotation
    Kubectl,
    Powershell,
    Zsh,
}

/// Prints the script.
pub fn run(args: CompletionArgs) -> ExitCode {
    let completer: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Kubectl => return super::print(FOR_KUBECTL),
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
