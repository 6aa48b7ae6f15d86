//! `man`: the manual pages, generated from the help, for packages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::{Cli, ExitCode};

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct ManArgs {
    /// Where to; it has to be there
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes them.
pub fn run(args: &ManArgs) -> ExitCode {
    match clap_mangen::generate_to(Cli::command(), &args.directory) {
        Ok(()) => ExitCode::Done,
        Err(error) => {
            eprintln!("error: writing the manual pages to {}: {error}", args.directory.display());
            ExitCode::Failed
        }
    }
}
