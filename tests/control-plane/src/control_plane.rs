//! One control plane: started on free ports in a folder of its own, gone when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::components::{self, Ports};
use crate::credentials;
use crate::directory::RunDirectory;
use crate::error::{Attempt, Error};
use crate::loopback;
use crate::options::Options;
use crate::process::Process;
use crate::programs::Programs;
use crate::stages;

/// How often a start is tried whose ports were taken by somebody else in between.
const START_ATTEMPTS: usize = 4;

/// How many of the Kubernetes processes are etcd and the API server; they are started first.
const API: usize = 2;

/// A running etcd, API server, controller manager, scheduler, kwok and (by [`Options`]) Karpenter with its KWOK provider.
///
/// Everything is on ports of its own, on loopback; several control planes side by side know nothing of each other.
/// All processes end when this is dropped, and also when the process that holds it is killed. The folder of the run
/// (logs, kubeconfigs, audit log) goes with it, except when a test panics: then it stays, and its path is printed.
pub struct ControlPlane {
    client: Client,
    ports: Ports,
    options: Options,
    programs: Programs,
    processes: Mutex<Processes>,
    directory: RunDirectory, // last: removed after the processes have ended
}

#[derive(Default)]
struct Processes {
    kwok: Option<Process>,
    karpenter: Option<Process>,
    /// etcd, the API server, the controller manager and the scheduler.
    kubernetes: Vec<Process>,
}

impl Drop for Processes {
    /// All at once, so that none sees the others go; each is awaited when it is dropped itself.
    fn drop(&mut self) {
        for process in self.all_mut() {
            process.kill();
        }
    }
}

impl Processes {
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.kwok.iter_mut().chain(&mut self.karpenter).chain(&mut self.kubernetes)
    }
}

impl ControlPlane {
    /// Starts everything and waits until it works. The first start on a machine builds the programs, which takes minutes;
    /// later ones take some seconds.
    pub async fn start(options: Options) -> Result<ControlPlane, Error> {
        let programs = tokio::task::spawn_blocking(Programs::built)
            .await
            .map_err(std::io::Error::other)
            .attempt(|| "build the programs of the control plane".into())??;
        let mut attempt = 1;
        loop {
            match ControlPlane::start_once(&options, &programs).await {
                Err(error) if error.is_port_taken() && attempt < START_ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    async fn start_once(options: &Options, programs: &Programs) -> Result<ControlPlane, Error> {
        // kube leaves this choice to us as soon as two providers are compiled into one test
        let _already_chosen = rustls::crypto::ring::default_provider().install_default();
        let directory = RunDirectory::new(&programs.runs())?;
        let ports = Ports::free()?;
        let mut processes = Processes::default();
        processes.kubernetes.extend(components::start_api(programs, directory.path(), &ports)?);
        let client = client(&directory.path().join("admin.kubeconfig")).await?;
        components::api_ready(&client, ports.api, &mut processes.kubernetes).await?;

        processes.kubernetes.extend(components::start_controllers(programs, directory.path())?);
        stages::write(&directory.path().join("stages.yaml"), programs, options, false)?;
        processes.kwok = Some(components::start_kwok(programs, directory.path(), &ports, options)?);
        let plane = ControlPlane {
            client,
            ports,
            options: options.clone(),
            programs: programs.clone(),
            processes: Mutex::new(processes),
            directory,
        };
        if options.karpenter {
            plane.install_crds().await?;
            plane.start_karpenter()?;
        }
        plane.all_ready().await?;
        Ok(plane)
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("admin.kubeconfig")
    }

    /// The folder of this run: a log for each process, kubeconfigs, the audit log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The API server's audit log: one JSON `audit.k8s.io/v1` Event a line for each finished request, at level Metadata; writes
    /// of NodeClaims at level Request, for only a delete's body says whether it is a dry run.
    /// The users are `admin` (this harness), `karpenter`, `kwok`, `system:kube-scheduler`,
    /// `system:kube-controller-manager` and the ServiceAccounts.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    /// What it was started with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api)
    }

    /// The id of each process that runs for this control plane.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes().all_mut().map(|process| process.id()).collect()
    }

    /// `kubectl` as an administrator; only the arguments are missing.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.programs.binary("kubectl"));
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.directory.path().join("kubectl-cache"))
            .env("HOME", self.directory.path());
        command
    }

    /// A kubeconfig with nothing but a fresh token of this ServiceAccount, valid for an hour.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf, Error> {
        use k8s_openapi::api::authentication::v1::TokenRequest;
        use k8s_openapi::api::core::v1::ServiceAccount;
        let accounts: kube::Api<ServiceAccount> = kube::Api::namespaced(self.client(), namespace);
        let attempt = || format!("ask for a token of the ServiceAccount {namespace}/{service_account}");
        let request = TokenRequest::default();
        let granted = accounts.create_token_request(service_account, &Default::default(), &request).await.attempt(attempt)?;
        let token = granted.status.map(|status| status.token).unwrap_or_default();
        let path = self.directory.path().join(format!("{namespace}.{service_account}.kubeconfig"));
        let certificate = components::certificate(self.directory.path());
        credentials::write_kubeconfig(&path, self.ports.api, &certificate, service_account, &token)
    }

    /// Makes etcd forget every version of every object but the present one, as it does by itself in minutes: a continuation of
    /// a list that began before is too old some seconds later.
    pub async fn forget_old_versions(&self) -> Result<(), Error> {
        let attempt = || "make etcd forget old versions".to_owned();
        let key = STANDARD.encode("compact_rev_key");
        let put = async |value: &str| {
            let pair = serde_json::json!({"key": key, "value": STANDARD.encode(value)}).to_string();
            loopback::post(self.ports.etcd, "/v3/kv/put", &pair).await.attempt(attempt)
        };
        // A version of its own, so that all before it are old.
        let (_, answer) = put("0").await?;
        let answer: serde_json::Value = serde_json::from_str(&answer).map_err(std::io::Error::other).attempt(attempt)?;
        let revision = answer["header"]["revision"].as_str().unwrap_or_default();
        // Where the API server looks up, within seconds, which versions its own memory may forget.
        put(revision).await?;
        let compaction = serde_json::json!({"revision": revision, "physical": true}).to_string();
        match loopback::post(self.ports.etcd, "/v3/kv/compaction", &compaction).await.attempt(attempt)? {
            (200, _) => Ok(()),
            (code, why) => Err(std::io::Error::other(format!("{code}: {why}"))).attempt(attempt),
        }
    }

    /// From now on new Nodes register and don't become Ready, until [`ControlPlane::release_new_nodes`] or, one by one,
    /// until they get the annotation [`crate::RELEASE_ANNOTATION`]. Nodes that are Ready stay so.
    pub fn hold_new_nodes(&self) -> Result<(), Error> {
        self.restart_kwok(true)
    }

    /// Lets new Nodes become Ready again, those held too.
    pub fn release_new_nodes(&self) -> Result<(), Error> {
        self.restart_kwok(false)
    }

    fn restart_kwok(&self, nodes_held: bool) -> Result<(), Error> {
        let mut processes = self.processes();
        drop(processes.kwok.take());
        stages::write(&self.directory.path().join("stages.yaml"), &self.programs, &self.options, nodes_held)?;
        processes.kwok = Some(components::start_kwok(&self.programs, self.directory.path(), &self.ports, &self.options)?);
        Ok(())
    }

    /// Ends Karpenter: NodeClaims are neither launched nor drained nor expired until [`ControlPlane::start_karpenter`].
    pub fn stop_karpenter(&self) {
        drop(self.processes().karpenter.take());
    }

    /// Ends everything that acts on objects by itself: Karpenter, kwok, the controller manager and the scheduler. etcd and the
    /// API server go on, over a cluster that stands still.
    pub fn stop_controllers(&self) {
        let mut processes = self.processes();
        drop((processes.karpenter.take(), processes.kwok.take()));
        processes.kubernetes.truncate(API);
    }

    /// Starts Karpenter (again), with nothing remembered.
    pub fn start_karpenter(&self) -> Result<(), Error> {
        let mut processes = self.processes();
        drop(processes.karpenter.take());
        processes.karpenter = Some(components::start_karpenter(&self.programs, self.directory.path(), &self.ports, &self.options)?);
        Ok(())
    }

    async fn install_crds(&self) -> Result<(), Error> {
        let folder = self.programs.file("crds");
        self.run_kubectl(&["apply", "--server-side", "-f", &folder.display().to_string()], "").await?;
        self.run_kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await?;
        Ok(())
    }

    async fn all_ready(&self) -> Result<(), Error> {
        components::default_account_ready(&self.client, || self.still_running()).await?;
        if self.options.karpenter {
            components::karpenter_ready(&self.ports, || self.still_running()).await?;
        }
        Ok(())
    }

    fn still_running(&self) -> Result<(), Error> {
        self.processes().all_mut().try_for_each(Process::still_running)
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn client(kubeconfig: &Path) -> Result<Client, Error> {
    let unreadable =
        |error: kube::config::KubeconfigError| Error::Unreadable { what: kubeconfig.display().to_string(), why: error.to_string() };
    let read = Kubeconfig::read_from(kubeconfig).map_err(unreadable)?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(unreadable)?;
    Client::try_from(config).attempt(|| "make a client".into())
}
