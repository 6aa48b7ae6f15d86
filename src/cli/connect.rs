//! The flags of every command that connects to a cluster.

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::Args;

use super::span;

/// Which cluster to connect to, and as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectOptions {
    /// The kubeconfig to use instead of $KUBECONFIG or ~/.kube/config
    ///
    /// In a Pod, without this flag and without a kubeconfig, the Pod's own ServiceAccount is used.
    #[arg(long, value_name = "FILE", env = "NODEROTATION_KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of its current one
    #[arg(long, value_name = "NAME", env = "NODEROTATION_CONTEXT", hide_env_values = true)]
    pub context: Option<String>,

    /// The user to impersonate, such as system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "as", value_name = "USER", env = "NODEROTATION_AS", hide_env_values = true)]
    pub impersonate: Option<String>,

    /// How long one request to the API server may take [default: 15s to read, 10s to write]
    #[arg(long, value_name = "DURATION", value_parser = span::positive, env = "NODEROTATION_REQUEST_TIMEOUT", hide_env_values = true)]
    pub request_timeout: Option<TimeDelta>,
}
