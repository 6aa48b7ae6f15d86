//! A child process that cannot outlive us: it is killed when its `Process` is dropped, and by the kernel when this
//! process ends in any other way (`setpriv --pdeathsig`, since the system call itself needs unsafe code).

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{Attempt, Error};

/// How much of a log is shown when something fails.
const LOG_TAIL_BYTES: usize = 4_000;

/// A running program of the control plane.
#[derive(Debug)]
pub(crate) struct Process {
    program: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` with `arguments` and `environment` only, its output going to `folder/PROGRAM.log`.
    pub(crate) fn start(
        program: &'static str,
        binary: &Path,
        folder: &Path,
        arguments: &[String],
        environment: &[(&str, String)],
    ) -> Result<Process, Error> {
        let log = folder.join(format!("{program}.log"));
        let output = File::options().create(true).append(true).open(&log);
        let output = output.attempt(|| format!("write {}", log.display()))?;
        let errors = output.try_clone().attempt(|| format!("write {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(binary)
            .args(arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0); // so that a Ctrl-C at the terminal reaches us alone, and we end the others in order
        let child = spawn(command).attempt(|| format!("start {program}"))?;
        Ok(Process { program, child, log })
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of the log when the process is no longer running.
    pub(crate) fn still_running(&mut self) -> Result<(), Error> {
        match self.child.try_wait().attempt(|| format!("wait for {}", self.program))? {
            Some(status) => Err(self.ended(status)),
            None => Ok(()),
        }
    }

    /// Sends SIGKILL without waiting for the end. The API server ignores gentler signals while etcd is gone.
    pub(crate) fn kill(&mut self) {
        let _already_gone = self.child.kill();
    }

    /// The end of the log.
    pub(crate) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let start = log.len().saturating_sub(LOG_TAIL_BYTES);
        String::from_utf8_lossy(&log[start..]).into_owned()
    }

    fn ended(&self, status: ExitStatus) -> Error {
        Error::Ended { program: self.program, status, log: self.log_tail() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _already_gone = self.child.wait();
    }
}

type Order = (Command, Sender<io::Result<Child>>);

/// Spawns on a thread that lives as long as this process: the kernel's death signal comes when the *thread* that
/// spawned the child ends, and a runtime's worker threads end before the process does.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders): (Sender<Order>, Receiver<Order>) = channel();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _caller_gave_up = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = channel();
    let gone = |_| io::Error::other("the spawning thread is gone");
    spawner
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, answer))
        .map_err(|_| io::Error::other("the spawning thread is gone"))?;
    child.recv().map_err(gone)?
}
