//! How each program is started, and how we know that it works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use crate::credentials::{ADMINS, Tokens, server_certificate, signing_key, write_kubeconfig};
use crate::error::{Attempt, Error};
use crate::loopback::{answers_ok, free_ports};
use crate::options::Options;
use crate::process::Process;
use crate::programs::Programs;

/// How long one program may take to start, on a machine that does other things too.
const START_LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(100);

const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [create, update, patch, delete], resources: [{group: karpenter.sh, resources: [nodeclaims]}]}
- {level: Metadata}
";

/// The ports of one run, all on loopback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) api: u16,
    pub(crate) etcd: u16,
    etcd_peer: u16,
    karpenter_metrics: u16,
    karpenter_health: u16,
    kubelet: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Ports, Error> {
        let [api, etcd, etcd_peer, karpenter_metrics, karpenter_health, kubelet] = free_ports()?;
        Ok(Ports { api, etcd, etcd_peer, karpenter_metrics, karpenter_health, kubelet })
    }
}

/// The API server's certificate, with its authority's.
pub(crate) fn certificate(folder: &Path) -> PathBuf {
    folder.join("certificates/apiserver.crt")
}

/// Starts etcd and the API server, which waits for etcd by itself, and writes the kubeconfigs.
pub(crate) fn start_api(programs: &Programs, folder: &Path, ports: &Ports) -> Result<[Process; 2], Error> {
    let tokens = Tokens::new()?;
    write(&folder.join("tokens.csv"), &tokens.file())?;
    let (private, public) = signing_key()?;
    write(&folder.join("signing.key"), &private)?;
    write(&folder.join("signing.pub"), &public)?;
    write(&folder.join("audit-policy.yaml"), AUDIT_POLICY)?;
    let etcd = start_etcd(programs, folder, ports)?;
    let (chain, key) = server_certificate()?;
    let certificate = certificate(folder);
    let certificates = folder.join("certificates");
    std::fs::create_dir_all(&certificates).attempt(|| format!("make {}", certificates.display()))?;
    write(&certificate, &chain)?;
    write(&certificate.with_extension("key"), &key)?;
    let api = start_api_server(programs, folder, ports)?;
    for user in ADMINS {
        write_kubeconfig(&kubeconfig(folder, user), ports.api, &certificate, user, &tokens.of(user))?;
    }
    Ok([etcd, api])
}

fn start_etcd(programs: &Programs, folder: &Path, ports: &Ports) -> Result<Process, Error> {
    let (client, peer) = (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.etcd_peer));
    let arguments = [
        "--name=local".into(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=local={peer}"),
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ];
    Process::start("etcd", &programs.binary("etcd"), folder, &arguments, &[])
}

fn start_api_server(programs: &Programs, folder: &Path, ports: &Ports) -> Result<Process, Error> {
    let file = |name: &str| folder.join(name).display().to_string();
    let arguments = [
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.api),
        format!("--cert-dir={}", file("certificates")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".into(),
        format!("--service-account-key-file={}", file("signing.pub")),
        format!("--service-account-signing-key-file={}", file("signing.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        "--endpoint-reconciler-type=none".into(),
        "--kubelet-preferred-address-types=InternalIP".into(), // no name of a Node leads anywhere
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
    ];
    Process::start("kube-apiserver", &programs.binary("kube-apiserver"), folder, &arguments, &[])
}

/// Starts the controller manager and the scheduler.
pub(crate) fn start_controllers(programs: &Programs, folder: &Path) -> Result<[Process; 2], Error> {
    let start = |program: &'static str, more: &[String]| {
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig(folder, &format!("system:{program}")).display()),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
        ];
        arguments.extend_from_slice(more);
        Process::start(program, &programs.binary(program), folder, &arguments, &[])
    };
    let for_accounts = [
        format!("--service-account-private-key-file={}", folder.join("signing.key").display()),
        format!("--root-ca-file={}", certificate(folder).display()),
        "--use-service-account-credentials=false".into(),
    ];
    let scheduler = folder.join("scheduler.yaml");
    write(&scheduler, &scheduler_configuration(&kubeconfig(folder, "system:kube-scheduler")))?;
    let configuration = [format!("--config={}", scheduler.display())];
    Ok([start("kube-controller-manager", &for_accounts)?, start("kube-scheduler", &configuration)?])
}

/// A Pod that did not fit is tried again after a second at most, not after ten: it is bound as soon as its Node is there.
fn scheduler_configuration(kubeconfig: &Path) -> String {
    let configuration = serde_json::json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "leaderElection": {"leaderElect": false},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
    });
    format!("{configuration:#}\n")
}

/// Starts kwok, which plays the kubelet of every Node that Karpenter makes.
pub(crate) fn start_kwok(programs: &Programs, folder: &Path, ports: &Ports, options: &Options) -> Result<Process, Error> {
    let mut arguments = vec![
        format!("--kubeconfig={}", kubeconfig(folder, "kwok").display()),
        format!("--config={}", folder.join("stages.yaml").display()),
        "--manage-all-nodes=false".into(),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".into(),
        "--node-lease-duration-seconds=40".into(),
    ];
    if options.kubelet.is_some() {
        arguments.extend([
            "--node-ip=127.0.0.1".into(),
            format!("--node-port={}", ports.kubelet),
            format!("--server-address=127.0.0.1:{}", ports.kubelet),
            // The API server asks for no particular one.
            format!("--tls-cert-file={}", certificate(folder).display()),
            format!("--tls-private-key-file={}", certificate(folder).with_extension("key").display()),
        ]);
    }
    Process::start("kwok", &programs.binary("kwok"), folder, &arguments, &[])
}

/// Starts Karpenter with its KWOK provider.
pub(crate) fn start_karpenter(programs: &Programs, folder: &Path, ports: &Ports, options: &Options) -> Result<Process, Error> {
    let mut environment = vec![
        ("KUBECONFIG", kubeconfig(folder, "karpenter").display().to_string()),
        ("SYSTEM_NAMESPACE", "kube-system".into()),
        ("KUBERNETES_MIN_VERSION", "1.19.0-0".into()),
        ("DISABLE_LEADER_ELECTION", "true".into()),
        ("METRICS_PORT", ports.karpenter_metrics.to_string()),
        ("HEALTH_PROBE_PORT", ports.karpenter_health.to_string()),
        ("FEATURE_GATES", "StaticCapacity=true".into()),
        ("BATCH_IDLE_DURATION", format!("{}ms", options.batch_idle.as_millis())),
    ];
    if let Some(file) = &options.instance_types {
        environment.push(("INSTANCE_TYPES_FILE_PATH", file.display().to_string()));
    }
    Process::start("karpenter", &programs.binary("karpenter"), folder, &[], &environment)
}

/// Waits until the API server says that it is ready.
pub(crate) async fn api_ready(client: &Client, port: u16, processes: &mut [Process]) -> Result<(), Error> {
    let ask = http::Request::get("/readyz").body(Vec::new());
    let ask = ask.map_err(std::io::Error::other).attempt(|| "ask whether the API server is ready".into())?;
    until(
        &format!("the API server on port {port} is ready"),
        || processes.iter_mut().try_for_each(Process::still_running),
        async || client.request_text(ask.clone()).await.is_ok(),
    )
    .await
}

/// Waits until Pods can be made in the namespace `default`: that needs its ServiceAccount.
pub(crate) async fn default_account_ready(client: &Client, alive: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    until("the ServiceAccount default/default", alive, async || accounts.get("default").await.is_ok()).await
}

/// Waits until Karpenter has synced its caches.
pub(crate) async fn karpenter_ready(ports: &Ports, alive: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    until("Karpenter is ready", alive, async || answers_ok(ports.karpenter_health, "/readyz").await).await
}

async fn until(what: &str, mut alive: impl FnMut() -> Result<(), Error>, mut check: impl AsyncFnMut() -> bool) -> Result<(), Error> {
    let start = Instant::now();
    while !check().await {
        alive()?;
        if start.elapsed() > START_LIMIT {
            return Err(Error::Timeout { what: what.into(), after: START_LIMIT, state: String::new() });
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

fn kubeconfig(folder: &Path, user: &str) -> PathBuf {
    folder.join(format!("{}.kubeconfig", user.replace(':', "-")))
}

fn write(path: &Path, content: &str) -> Result<(), Error> {
    std::fs::write(path, content).attempt(|| format!("write {}", path.display()))
}
