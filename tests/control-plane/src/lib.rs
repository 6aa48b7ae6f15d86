//! Starts a real Kubernetes control plane with Karpenter's KWOK provider on loopback, for tests and demos.
//!
//! ```no_run
//! # async fn example() -> Result<(), control_plane::Error> {
//! use control_plane::{ControlPlane, Options, Pool};
//!
//! let plane = ControlPlane::start(Options::default()).await?;
//! let workload = plane.part_filled_fleet(&Pool::new("web").expire_after("720h"), 3).await?;
//! let observer = plane.observe(&workload).await?;
//! // ... what is tested ...
//! assert!(observer.observed().claims_max <= 3 + 1);
//! # Ok(())
//! # }
//! ```
//!
//! Starting takes about 5 s on 2 cores, and about 750 MB of memory; the programs are built once by `tests/tools/build`
//! (some 5 minutes with nothing cached). Karpenter launches a NodeClaim 0.7 s after a Pod asks for it, and its Node is
//! Initialized a second later. [`ControlPlane::part_filled_fleet`] takes 16 s with Pods of 10 s, and a drain under a
//! budget of one Pod a little more than the Pods' ready delay for each Pod.
//!
//! # What differs from a production cluster
//! - Karpenter batches Pods for a second at most, not ten; the scheduler tries a Pod again after a second at most.
//! - Karpenter's KWOK provider makes the Node object itself, and kwok plays its kubelet: no container ever runs. What
//!   `kubectl logs` and `kubectl port-forward` lead to is [`Options::kubelet`].
//! - A Node's and its NodeClaim's `capacity`, which `spec.limits` are measured by, is what the Pods asked for that it was
//!   launched for, not what the instance has; `allocatable` is the instance's.
//! - All programs are administrators, each under its own name. A program under test gets the rights of its ServiceAccount
//!   only: [`ControlPlane::kubeconfig_for`].
//! - Karpenter's ports for metrics and health are on every address, since it takes no other; all others are on loopback.
//!
//! # Capacity that does not come
//! | what a pool sees | how |
//! |---|---|
//! | no NodeClaim | [`Pool::limits`], or [`Pool::requirement`] that no type meets, or [`Options::instance_types`] |
//! | a NodeClaim that never registers | [`Pool::registration_delay`], at any time |
//! | a Node that registers and never becomes Ready | [`Pool::never_ready`], or from now on [`ControlPlane::hold_new_nodes`] |
//! | nothing moves at all | [`ControlPlane::stop_karpenter`] |
//!
//! A launch that the provider itself refuses for lack of capacity, so that Karpenter deletes the NodeClaim and tries again,
//! can't be made: the provider takes every offering as available.

mod components;
mod control_plane;
pub mod conversation;
mod credentials;
mod directory;
mod error;
mod fill;
mod fleet;
mod kubectl;
mod loopback;
mod monitoring;
mod observer;
mod options;
mod process;
mod programs;
mod pushgateway;
mod stages;
mod until_signal;
mod wait;

pub use control_plane::ControlPlane;
pub use error::Error;
pub use fill::{has_condition, is_ready};
pub use fleet::{INSTANCE_TYPE, PODS_PER_FULL_NODE, PODS_PER_PART_FILLED_NODE, Pool, Workload};
pub use monitoring::{Alertmanager, Prometheus};
pub use observer::{Observed, Observer};
pub use options::{Kubelet, Options};
pub use pushgateway::Pushgateway;
pub use stages::{NEVER_READY_LABEL, RELEASE_ANNOTATION};
pub use until_signal::asked_to_end;
