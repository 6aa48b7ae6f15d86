//! A Prometheus Pushgateway on loopback.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::error::{Attempt, Error};
use crate::loopback::{answers_ok, free_ports, get};
use crate::process::Process;

const PROGRAM: &str = "prometheus-pushgateway";
const START_ATTEMPTS: usize = 4;
const START_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const SETTLING: Duration = Duration::from_millis(500);

/// A running Pushgateway, without persistence; ends when dropped.
pub struct Pushgateway {
    port: u16,
    binary: PathBuf,
    process: Option<Process>,
    folder: TempDir,
}

impl Pushgateway {
    /// Starts one on a free port. Needs Debian's package `prometheus-pushgateway`.
    pub async fn start() -> Result<Pushgateway, Error> {
        let binary = find_in_path(PROGRAM).ok_or(Error::MissingTool { program: PROGRAM })?;
        let folder = tempfile::tempdir().attempt(|| "make a folder for the Pushgateway".into())?;
        let mut gateway = Pushgateway { port: 0, binary, process: None, folder };
        let mut attempt = 1;
        loop {
            [gateway.port] = free_ports()?;
            match gateway.restart().await {
                Err(error) if error.is_port_taken() && attempt < START_ATTEMPTS => attempt += 1,
                other => return other.map(|()| gateway),
            }
        }
    }

    /// Its address, without a path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a Prometheus that scrapes it would read.
    pub async fn metrics(&self) -> Result<String, Error> {
        let (_, body) = get(self.port, "/metrics").await.attempt(|| format!("scrape {}", self.url()))?;
        Ok(body)
    }

    /// Ends it: pushes are refused until [`Pushgateway::restart`].
    pub fn stop(&mut self) {
        drop(self.process.take());
    }

    /// Starts it again at the same address, with everything forgotten.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop();
        let folder = self.folder.path();
        // Debian's build keeps what was pushed in a file of the whole machine unless told not to.
        let arguments = [format!("--web.listen-address=127.0.0.1:{}", self.port), "--persistence.file=".into()];
        let _first_start = std::fs::remove_file(folder.join(format!("{PROGRAM}.log")));
        let mut process = Process::start(PROGRAM, &self.binary, folder, &arguments, &[])?;
        let start = Instant::now();
        while !answers_ok(self.port, "/-/ready").await {
            process.still_running()?;
            if start.elapsed() > START_LIMIT {
                return Err(Error::Timeout { what: PROGRAM.into(), after: START_LIMIT, state: process.log_tail() });
            }
            sleep(PAUSE).await;
        }
        settled(&mut process).await?;
        self.process = Some(process);
        Ok(())
    }
}

/// The answer may have been that of another test's program on the same port: ours ends soon after, for it has none.
pub(crate) async fn settled(process: &mut Process) -> Result<(), Error> {
    sleep(SETTLING).await;
    process.still_running()
}

pub(crate) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file: &PathBuf| Path::is_file(file))
}
