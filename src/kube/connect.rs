//! Finds the cluster and makes a client for it: in-cluster, else by kubeconfig; `--context`, `--kubeconfig` or a set
//! `$KUBECONFIG` mean the kubeconfig in any case, for whoever names one doesn't mean the cluster around. The client's own
//! retries are off: which request may be repeated is ours to say.

use std::{path::PathBuf, time::Duration};

use http::{HeaderValue, Uri, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::{
        legacy::{self, connect::HttpConnector},
        proxy::matcher::Matcher,
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
    config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use secrecy::ExposeSecret;
use tower::{BoxError, ServiceBuilder};

use super::{
    call::chain,
    plugin::{self, PluginError},
};
use crate::{clock::Clock, tls};

/// A connection, with TLS, has to stand after this long.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How to find the cluster.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub context: Option<String>,
    /// `--as`: the user to be.
    pub impersonate: Option<String>,
}

/// Why there is no client. The message tells the whole cause.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is neither an in-cluster configuration nor a kubeconfig.
    #[error("no cluster: not in a Pod ({}), and no kubeconfig ({})", chain(.in_cluster), chain(.kubeconfig.as_ref()))]
    NoCluster {
        /// Why not in-cluster.
        in_cluster: InClusterError,
        /// Why not by kubeconfig.
        kubeconfig: Box<KubeconfigError>,
    },
    /// The kubeconfig that was asked for can't be used.
    #[error("the kubeconfig can't be used: {}", chain(.0.as_ref()))]
    Kubeconfig(Box<KubeconfigError>),
    /// The server's address can't be used.
    #[error("the cluster's server {server:?} can't be used: {why}")]
    Server {
        /// As it stands in the kubeconfig.
        server: String,
        /// What it lacks.
        why: &'static str,
    },
    /// A credential holds what no header may hold.
    #[error("the {0} can't be sent: it holds a line break or another control character")]
    Credential(&'static str),
    /// The environment names a proxy that can't be read.
    #[error("the proxy {0:?} of the environment is no URL")]
    Proxy(String),
    /// The user's exec plugin gave no credentials.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// No client can be made of the configuration.
    #[error("no client for {server}: {}", chain(.cause.as_ref()))]
    Client {
        /// The server's URL.
        server: Uri,
        /// Why.
        cause: Box<kube::Error>,
    },
}

/// Makes a client. To be called inside a runtime; sends nothing yet, but may run the user's exec plugin.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(target: &Target) -> Result<Client, ConnectError> {
    reach(target).await.map(|(client, _)| client)
}

/// Makes a client, and tells the URL of its server: when nobody answers, that is what has to be named.
///
/// # Errors
/// [`ConnectError`].
pub async fn reach(target: &Target) -> Result<(Client, Uri), ConnectError> {
    tls::choose_provider();
    let mut config = configure(target).await?;
    judge_server(&config.cluster_url)?;
    plugin::resolve(&mut config.auth_info, Clock::local().now()).await?;
    if let Some(user) = &target.impersonate {
        config.auth_info.impersonate = Some(user.clone());
    }
    judge_credentials(&mut config.auth_info)?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_LIMIT);
    // Every request has a limit of its own; a limit on the connection would count idle time too.
    (config.read_timeout, config.write_timeout) = (None, None);
    let agent = HeaderValue::from_static(concat!("noderotation/", env!("CARGO_PKG_VERSION")));
    config.headers.push((header::USER_AGENT, agent));
    let server = config.cluster_url.clone();
    // Through a proxy it is the client library's own stack.
    let client = if config.proxy_url.is_some() { ClientBuilder::try_from(config).map(ClientBuilder::build) } else { prompt(config) };
    match client {
        Ok(client) => Ok((client, server)),
        Err(cause) => Err(ConnectError::Client { server, cause: Box::new(cause) }),
    }
}

/// A client that sends each request at once. The client library leaves Nagle's algorithm on: the first request of every
/// connection then waits until the end of the TLS handshake is acknowledged, which servers put off for 40 ms.
fn prompt(config: Config) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

async fn configure(target: &Target) -> Result<Config, ConnectError> {
    let named = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    if named || target.kubeconfig.is_some() || target.context.is_some() {
        return from_kubeconfig(target).await.map_err(|error| ConnectError::Kubeconfig(Box::new(error))).and_then(proxied);
    }
    match Config::incluster() {
        Ok(config) => proxied((config, None)),
        Err(in_cluster) => match from_kubeconfig(target).await {
            Ok(found) => proxied(found),
            Err(kubeconfig) => Err(ConnectError::NoCluster { in_cluster, kubeconfig: Box::new(kubeconfig) }),
        },
    }
}

/// The configuration, and the `proxy-url` that the kubeconfig itself names.
async fn from_kubeconfig(target: &Target) -> Result<(Config, Option<Uri>), KubeconfigError> {
    let mut kubeconfig = match &target.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)?,
        None => Kubeconfig::read()?,
    };
    let named = target.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig.contexts.iter().find(|context| Some(&context.name) == named).and_then(|context| context.context.as_ref());
    let of_user = context.and_then(|context| kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref()));
    let has_certificate = of_user
        .and_then(|user| user.auth_info.as_ref())
        .is_some_and(|user| user.client_certificate.is_some() || user.client_certificate_data.is_some());
    let named = context.map(|context| context.cluster.clone());
    for cluster in kubeconfig.clusters.iter_mut().filter(|cluster| Some(&cluster.name) == named.as_ref()) {
        if let Some(cluster) = &mut cluster.cluster {
            complete_server(cluster, has_certificate);
        }
    }
    let cluster = kubeconfig.clusters.iter().find(|cluster| Some(&cluster.name) == named.as_ref());
    let proxy = cluster.and_then(|cluster| cluster.cluster.as_ref()?.proxy_url.clone()).filter(|proxy| !proxy.is_empty());
    let proxy = proxy.map(|proxy| proxy.parse().map_err(KubeconfigError::ParseProxyUrl)).transpose()?;
    let options = KubeConfigOptions { context: target.context.clone(), ..KubeConfigOptions::default() };
    Ok((Config::from_custom_kubeconfig(kubeconfig, &options).await?, proxy))
}

/// What is sent in a header. White space around a token is none of it: files and plugins end with a newline. The client
/// library panics on anything else that a header can't hold.
fn judge_credentials(user: &mut AuthInfo) -> Result<(), ConnectError> {
    if let Some(text) = user.token_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
        // Where the file is clean the client library reads it, again and again: it may be renewed.
        if text.trim_end_matches('\n') != text.trim() && user.token.is_none() {
            (user.token, user.token_file) = (Some(text.into()), None);
        }
    }
    if let Some(token) = &user.token {
        let token = token.expose_secret().trim().to_owned();
        HeaderValue::from_str(&token).map_err(|_| ConnectError::Credential("token"))?;
        user.token = Some(token.into());
    }
    for name in user.impersonate.iter().chain(user.impersonate_groups.iter().flatten()) {
        HeaderValue::from_str(name).map_err(|_| ConnectError::Credential("name of the user or group to be (--as, or the kubeconfig's)"))?;
    }
    Ok(())
}

/// A server without a scheme, as in `127.0.0.1:8080`, gets the one that kubectl takes: https where anything speaks of TLS.
fn complete_server(cluster: &mut kube::config::Cluster, has_certificate: bool) {
    let tls = has_certificate
        || cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true);
    if let Some(server) = cluster.server.as_mut().filter(|server| !server.contains("://") && !server.is_empty()) {
        *server = format!("{}://{server}", if tls { "https" } else { "http" });
    }
}

/// The client joins its paths to the server's URL, and panics where that has no scheme or host.
fn judge_server(server: &Uri) -> Result<(), ConnectError> {
    let why = match server.scheme_str() {
        Some("http" | "https") if server.host().is_some_and(|host| !host.is_empty()) => return Ok(()),
        Some("http" | "https") => "it names no host",
        _ => "it has to begin with https:// or http://",
    };
    Err(ConnectError::Server { server: server.to_string(), why })
}

/// The kubeconfig's `proxy-url` wins; else the environment's, of which `NO_PROXY` exempts the *server* (kube compares it
/// with the proxy's own host).
fn proxied((mut config, named): (Config, Option<Uri>)) -> Result<Config, ConnectError> {
    config.proxy_url = match named {
        Some(proxy) => Some(proxy),
        None => env_proxy(&config.cluster_url, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?,
    };
    Ok(config)
}

/// The environment's proxy for a server; none for this very host, as everywhere.
fn env_proxy(server: &Uri, env: impl Fn(&str) -> Option<String>) -> Result<Option<Uri>, ConnectError> {
    let either = |upper: &str| env(upper).or_else(|| env(&upper.to_lowercase()));
    let of_scheme = if server.scheme_str() == Some("http") { "HTTP_PROXY" } else { "HTTPS_PROXY" };
    let Some(proxy) = either(of_scheme).or_else(|| either("ALL_PROXY")) else { return Ok(None) };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback()) {
        return Ok(None);
    }
    if Matcher::builder().all("http://proxy").no(either("NO_PROXY").unwrap_or_default()).build().intercept(server).is_none() {
        return Ok(None);
    }
    let url = if proxy.contains("://") { proxy.clone() } else { format!("http://{proxy}") };
    url.parse().map(Some).map_err(|_| ConnectError::Proxy(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_exempts_the_server_and_this_host_needs_none() {
        let env = |name: &str| match name {
            "HTTPS_PROXY" => Some("proxy.example:3128".to_owned()),
            "no_proxy" => Some(".internal,10.0.0.0/8".to_owned()),
            _ => None,
        };
        let proxy = |server: &'static str| env_proxy(&Uri::from_static(server), env).unwrap().map(|proxy| proxy.to_string());
        assert_eq!(proxy("https://api.example:6443"), Some("http://proxy.example:3128/".into()));
        assert_eq!(proxy("https://api.internal:6443"), None);
        assert_eq!(proxy("https://10.1.2.3:6443"), None);
        assert_eq!(proxy("https://127.0.0.1:6443"), None);
        assert_eq!(proxy("https://localhost:6443"), None);
        assert_eq!(proxy("https://[::1]:6443"), None);
        assert_eq!(proxy("http://api.example:8080"), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn no_request_waits_for_the_acknowledgement_of_another() {
        use std::{
            net::{TcpListener, TcpStream},
            os::fd::OwnedFd,
        };

        use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

        tls::choose_provider();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = prompt(Config::new(format!("http://{server}").parse().unwrap())).unwrap();
        // Nobody answers: the connection stays.
        let asked = tokio::spawn(async move { client.apiserver_version().await });
        let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let stream = || {
            let numbers = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            let files = numbers.filter_map(|number| pidfd_getfd(&this, number, PidfdGetfdFlags::empty()).ok());
            files.map(|file: OwnedFd| TcpStream::from(file)).find(|stream| stream.peer_addr().is_ok_and(|peer| peer == server))
        };
        let mut nodelay = false;
        for _ in 0..500 {
            nodelay = stream().is_some_and(|stream| stream.nodelay().unwrap());
            if nodelay {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        asked.abort();
        assert!(nodelay, "TCP_NODELAY is not set");
    }
}
