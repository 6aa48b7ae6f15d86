//! The programs and files that `tests/tools/build` makes, built when they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::{Attempt, Error};

/// Where the built programs and their files are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    root: PathBuf,
}

impl Programs {
    /// Builds what is missing (minutes on a machine that never did, else some milliseconds) and says where it is.
    pub(crate) fn built() -> Result<Programs, Error> {
        static DONE: Mutex<bool> = Mutex::new(false);
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = workspace();
        if !*done {
            build(&workspace.join("tests/tools/build"))?;
            *done = true;
        }
        Ok(Programs { root: workspace.join("target/control-plane") })
    }

    /// A program by its name.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// A file or folder that came with a program.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join("files").join(name)
    }

    /// Where each run has a folder of its own.
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }
}

fn workspace() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).unwrap_or(crate_folder).to_path_buf()
}

fn build(script: &Path) -> Result<(), Error> {
    let command = script.display().to_string();
    let mut run = Command::new(script);
    let status = run.stdin(Stdio::null()).status().attempt(|| format!("run {command}"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command { command, status, output: "see its output above".into() })
}
