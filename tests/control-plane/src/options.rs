//! What a control plane is started with.

use std::path::PathBuf;
use std::time::Duration;

/// What to start, and how slow its Pods are.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether Karpenter runs and its CRDs are there (default). Without it the API server, its controllers, the
    /// scheduler and kwok remain.
    pub karpenter: bool,
    /// How long a Pod takes from being bound to a Node until it is Ready, the placeholder too (default 10 s; zero: at
    /// once). Many faults of a rotation are invisible with Pods that are Ready at once. Whole seconds; a Pod takes up to
    /// a second longer, since Kubernetes' timestamps have no fractions.
    pub pod_ready_delay: Duration,
    /// How long a Pod takes to end once it is deleted (default zero). Whole seconds, as above.
    pub pod_stop_delay: Duration,
    /// Karpenter's KWOK provider reads its instance types from this file instead of its built-in 144. A file without a
    /// type that fits a NodePool is capacity that never comes, for the whole run. The provider reads it once and takes
    /// every offering in it as available, whatever its `Available` says.
    pub instance_types: Option<PathBuf>,
    /// How long Karpenter waits for more Pods before it launches for those that wait (default: 300 ms; its own default is 1 s).
    pub batch_idle: Duration,
    /// What the Nodes' kubelets answer to `kubectl logs` and `kubectl port-forward` (default: nothing, they have no port).
    pub kubelet: Option<Kubelet>,
}

/// The part of a kubelet that answers requests. No container runs, so what it answers comes from here.
#[derive(Clone, Debug)]
pub struct Kubelet {
    /// The log of every container, in the CRI's format: `2030-01-01T00:00:00Z stdout F what was logged`.
    pub log: PathBuf,
    /// A port that every Pod has, and the port on loopback that answers for it.
    pub forward: (u16, u16),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            karpenter: true,
            pod_ready_delay: Duration::from_secs(10),
            pod_stop_delay: Duration::ZERO,
            instance_types: None,
            batch_idle: Duration::from_millis(300),
            kubelet: None,
        }
    }
}
