//! Nothing is changed unseen: what will change is shown, and on a terminal asked about.

use std::io::{IsTerminal, Write};

use clap::Args;

use super::{
    ExitCode,
    reach::{Ended, fail},
};

/// The flag that stands for the answer.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConsentArgs {
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
}

impl ConsentArgs {
    /// Shows what will change, and asks.
    ///
    /// # Errors
    /// Ends where the answer is no, or nobody can be asked.
    pub fn ask(self, change: &str) -> Result<(), Ended> {
        eprintln!("{change}");
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(fail(ExitCode::Usage, "nothing was changed: there is no terminal to ask on; give --yes to do it without asking"));
        }
        eprint!("Go on? [y/N] ");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        if read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
            return Ok(());
        }
        eprintln!("Nothing was changed.");
        Err(Ended(ExitCode::Failed))
    }
}
