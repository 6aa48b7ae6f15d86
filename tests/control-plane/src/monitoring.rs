//! A Prometheus and an Alertmanager on loopback, both of which look and send every second.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::error::{Attempt, Error};
use crate::loopback::{answers_ok, free_ports, get};
use crate::process::Process;
use crate::pushgateway::{find_in_path, settled};

const START_ATTEMPTS: usize = 4;
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A running Prometheus that scrapes one address and evaluates rules every second; ends when dropped.
pub struct Prometheus {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes `target` (`HOST:PORT`) with its own labels honoured, evaluates these rules, and sends alerts
    /// to this Alertmanager. Needs Debian's package `prometheus`.
    pub async fn start(target: &str, rules: &str, alertmanager: &Alertmanager) -> Result<Prometheus, Error> {
        let folder = folder()?;
        let configuration = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yaml]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{}']}}]}}]}}\n\
             scrape_configs: [{{job_name: pushed, honor_labels: true, static_configs: [{{targets: ['{target}']}}]}}]\n",
            alertmanager.port
        );
        write(folder.path(), "prometheus.yaml", &configuration)?;
        write(folder.path(), "rules.yaml", rules)?;
        let arguments = |port: u16| {
            vec![
                "--config.file=prometheus.yaml".into(),
                "--storage.tsdb.path=data".into(),
                "--rules.alert.resend-delay=1s".into(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ]
        };
        let (port, process) = start("prometheus", folder.path(), arguments).await?;
        Ok(Prometheus { port, _process: process, _folder: folder })
    }

    /// What an expression is now: the elements of its vector.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>, Error> {
        let encoded = expression.bytes().fold(String::new(), |mut text, byte| {
            let _always_fits = write!(text, "%{byte:02X}");
            text
        });
        let (_, body) = get(self.port, &format!("/api/v1/query?query={encoded}")).await.attempt(|| format!("ask for {expression}"))?;
        let unreadable = || Error::Unreadable { what: expression.into(), why: body.clone() };
        let answer: Value = serde_json::from_str(&body).map_err(|_| unreadable())?;
        answer["data"]["result"].as_array().cloned().ok_or_else(unreadable)
    }
}

/// A running Alertmanager that tells everything to one webhook, at once; ends when dropped.
pub struct Alertmanager {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Alertmanager {
    /// Starts one that sends to this URL. Needs Debian's package `prometheus-alertmanager`.
    pub async fn start(webhook: &str) -> Result<Alertmanager, Error> {
        let folder = folder()?;
        let configuration = format!(
            "route: {{receiver: webhook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: webhook, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]\n"
        );
        write(folder.path(), "alertmanager.yaml", &configuration)?;
        let arguments = |port: u16| {
            vec![
                "--config.file=alertmanager.yaml".into(),
                "--storage.path=data".into(),
                "--cluster.listen-address=".into(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ]
        };
        let (port, process) = start("prometheus-alertmanager", folder.path(), arguments).await?;
        Ok(Alertmanager { port, _process: process, _folder: folder })
    }
}

/// Starts a program on a free port and waits until it is ready.
async fn start(program: &'static str, folder: &Path, arguments: impl Fn(u16) -> Vec<String>) -> Result<(u16, Process), Error> {
    let binary = find_in_path(program).ok_or(Error::MissingTool { program })?;
    let mut attempt = 1;
    loop {
        let [port] = free_ports()?;
        let _first_start = std::fs::remove_file(folder.join(format!("{program}.log")));
        let mut process = Process::start(program, &binary, folder, &arguments(port), &[])?;
        match ready(program, port, &mut process).await {
            Err(error) if error.is_port_taken() && attempt < START_ATTEMPTS => attempt += 1,
            other => return other.map(|()| (port, process)),
        }
    }
}

async fn ready(program: &str, port: u16, process: &mut Process) -> Result<(), Error> {
    let start = Instant::now();
    while !answers_ok(port, "/-/ready").await {
        process.still_running()?;
        if start.elapsed() > START_LIMIT {
            return Err(Error::Timeout { what: program.into(), after: START_LIMIT, state: process.log_tail() });
        }
        sleep(PAUSE).await;
    }
    settled(process).await
}

fn folder() -> Result<TempDir, Error> {
    tempfile::tempdir().attempt(|| "make a folder".into())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    std::fs::write(folder.join(name), text).attempt(|| format!("write {name}"))
}
