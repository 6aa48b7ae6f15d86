//! Every `kubectl` and `noderotation` command of the documents is typed on a control plane, as it stands there: with a
//! kustomization like the page's, the names that it leaves open, and the answer to what it asks.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use control_plane::{ControlPlane, Kubelet, Options, Pool, Pushgateway};
use serde_json::json;

use crate::{
    blocks,
    commands::{Command, RunBy, commands},
    kustomizations::monitoring_crds,
    policy::{policy, with},
    root,
};

const LIMIT: Duration = Duration::from_secs(90);
/// What the Pushgateway's Pods listen on.
const PUSHGATEWAY_PORT: u16 = 9091;

/// A person's terminal on a control plane.
struct Terminal {
    plane: ControlPlane,
    /// Where it is typed: kustomizations lie here, and a copy of the project as `noderotation`.
    folder: tempfile::TempDir,
    /// What is put in place of the names that the documents leave open.
    names: Vec<(&'static str, String)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_command_does_what_it_is_for() {
    let gateway = Pushgateway::start().await.unwrap();
    let mut terminal = Terminal::start(&gateway).await;
    let all: BTreeSet<Command> = commands(&root()).into_iter().filter(|command| command.run_by() == Some(RunBy::ControlPlane)).collect();
    let (installing, others): (Vec<Command>, Vec<Command>) = all.into_iter().partition(|command| command.text.contains(" apply "));
    assert!(installing.iter().any(|command| command.page == Path::new("README.md")));
    for command in &installing {
        terminal.install(command);
    }
    terminal.fill(&gateway).await;

    let mut typed = BTreeSet::new();
    for command in others {
        if typed.insert(command.text.clone()) {
            terminal.type_in(&command).await;
        }
    }
    assert!(typed.len() > 25, "{typed:#?}");
}

impl Terminal {
    async fn start(gateway: &Pushgateway) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = gateway.url().rsplit(':').next().unwrap().parse().unwrap();
        let kubelet = Kubelet { log: folder.path().join("pods.log"), forward: (PUSHGATEWAY_PORT, port) };
        let options = Options { pod_ready_delay: Duration::ZERO, kubelet: Some(kubelet), ..Options::default() };
        let plane = ControlPlane::start(options).await.unwrap();
        monitoring_crds(&plane).await;
        for (link, target) in [("noderotation", root()), ("policies", root().join("kustomize/policies"))] {
            symlink(target, folder.path().join(link)).unwrap();
        }
        let programs = folder.path().join("programs");
        std::fs::create_dir(&programs).unwrap();
        let kubectl = PathBuf::from(plane.kubectl().get_program());
        let noderotation = PathBuf::from(env!("CARGO_BIN_EXE_noderotation"));
        for (name, program) in [("kubectl", &kubectl), ("noderotation", &noderotation), ("kubectl-noderotation", &noderotation)] {
            symlink(program, programs.join(name)).unwrap();
        }
        Self { plane, folder, names: Vec::new() }
    }

    /// Applies the kustomization that the page shows; a page without one speaks of that of `docs/install.md`.
    fn install(&self, command: &Command) {
        let is_kustomization = |block: &String| block.contains("kind: Kustomization");
        let pages = [command.page.as_path(), Path::new("docs/install.md")];
        let mut shown = pages.iter().flat_map(|page| blocks(&root().join(page), "yaml")).filter(is_kustomization);
        std::fs::write(self.folder.path().join("kustomization.yaml"), shown.next().unwrap()).unwrap();
        let output = self.run(&command.text);
        assert!(output.status.success(), "{command:?}: {}", said(&output));
    }

    /// Brings a Node, a policy, what a pass leaves behind, and a Job of the CronJob; nothing is rotated meanwhile.
    async fn fill(&mut self, gateway: &Pushgateway) {
        let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
        self.plane.part_filled_fleet(&pool, 1).await.unwrap();
        self.plane.apply_objects(&[with(policy("web"), "suspend", json!(true))]).await.unwrap();
        let claim = self.plane.node_claims_of("web").await.unwrap().remove(0);
        let node = claim.data["status"]["nodeName"].as_str().unwrap().to_owned();
        self.names = vec![("NAME", claim.metadata.name.unwrap()), ("NODE", node), ("POOL", "web".into()), ("COMMAND", "plan".into())];

        let pass = self.run(&format!("noderotation run --log-format json --pushgateway {}", gateway.url()));
        assert!(pass.status.success(), "{}", said(&pass));
        let log =
            String::from_utf8_lossy(&pass.stderr).lines().map(|line| format!("2030-01-01T00:00:00Z stdout F {line}\n")).collect::<String>();
        assert!(log.contains("\"nodepool\":\"web\""), "{log}");
        std::fs::write(self.folder.path().join("pods.log"), log).unwrap();
        let job = self.run("kubectl -n node-rotation-system create job --from=cronjob/noderotation pass");
        assert!(job.status.success(), "{}", said(&job));
    }

    /// Types a command, until it does what it is for, and takes back what it did.
    async fn type_in(&self, command: &Command) {
        let mut output = self.run(&command.text);
        if let Some(expected) = shows(&command.text) {
            let awaited = self.plane.wait_for(&command.text, LIMIT, async || {
                output = self.run(&command.text);
                Ok(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(expected))
            });
            awaited.await.unwrap_or_else(|error| panic!("{error}\n{}", said(&output)));
        }
        // Somebody who watches ends it.
        let expected = if command.text.contains("--watch") { Some(130) } else { Some(0) };
        assert_eq!(output.status.code(), expected, "{command:?}: {}", said(&output));
        let undone =
            self.run("kubectl annotate nodepools --all noderotation.io/freeze- && kubectl uncordon --selector karpenter.sh/nodepool");
        assert!(undone.status.success(), "{}", said(&undone));
    }

    fn run(&self, text: &str) -> Output {
        let named = self.names.iter().fold(text.to_owned(), |text, (open, name)| text.replace(open, name));
        let script = self.ready_to_run(&named);
        let kubectl = self.plane.kubectl();
        let path = std::env::join_paths([self.folder.path().join("programs"), "/usr/bin".into(), "/bin".into()]).unwrap();
        let mut bash = std::process::Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &script]).current_dir(self.folder.path()).stdin(Stdio::null());
        bash.envs(kubectl.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("PATH", path);
        bash.output().unwrap()
    }

    /// With what a person does besides: says yes on the terminal, ends what would go on; and on a port that is free.
    fn ready_to_run(&self, text: &str) -> String {
        if text.starts_with("noderotation freeze") {
            return format!("echo y | script --quiet --return --command '{text}' /dev/null");
        }
        if text.contains("--watch") {
            return format!("timeout --preserve-status --signal=INT 5 {text}");
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        text.replace(&format!(" {PUSHGATEWAY_PORT} "), &format!(" {free}:{PUSHGATEWAY_PORT} "))
            .replace(&format!("localhost:{PUSHGATEWAY_PORT}"), &format!("localhost:{free}"))
    }
}

/// What a command has to show, where that takes a while to be there.
fn shows(text: &str) -> Option<&'static str> {
    if text.contains(" logs ") {
        return Some("\"nodepool\":\"web\"");
    }
    text.contains(" port-forward ").then_some("noderotation_pass_success_timestamp_seconds")
}

fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
