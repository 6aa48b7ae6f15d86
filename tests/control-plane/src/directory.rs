//! The folder of one run.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::error::{Attempt, Error};

/// How long the folder of a run that failed or was killed is kept.
const KEPT: Duration = Duration::from_secs(6 * 60 * 60);

/// A folder that goes with its run, except when a test panics.
pub(crate) struct RunDirectory {
    folder: TempDir,
}

impl RunDirectory {
    /// A new folder in `runs`; removes those that nobody will look at any more.
    pub(crate) fn new(runs: &Path) -> Result<RunDirectory, Error> {
        std::fs::create_dir_all(runs).attempt(|| format!("make {}", runs.display()))?;
        remove_old(runs);
        let prefix = format!("{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(runs);
        Ok(RunDirectory { folder: folder.attempt(|| format!("make a folder in {}", runs.display()))? })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("the control plane's logs are kept in {}", self.folder.path().display());
        }
    }
}

/// Names start with the id of the process that made the folder: one whose process is gone belongs to nobody.
fn remove_old(runs: &Path) {
    for entry in std::fs::read_dir(runs).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.split('-').next().unwrap_or_default().to_owned();
        let running = Path::new("/proc").join(process).exists();
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if !running && age.is_some_and(|age| age > KEPT) {
            let _another_run_removed_it = std::fs::remove_dir_all(entry.path());
        }
    }
}
