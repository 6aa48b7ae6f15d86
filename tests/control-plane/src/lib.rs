//! Starts a real Kubernetes control plane with Karpenter's KWOK provider on loopback, for tests and demos.

mod components;
mod control_plane;
mod credentials;
mod directory;
mod error;
mod fill;
mod fleet;
mod kubectl;
mod loopback;
mod observer;
mod options;
mod process;
mod programs;
mod pushgateway;
mod stages;
mod wait;

pub use control_plane::ControlPlane;
pub use error::Error;
pub use fill::{has_condition, is_ready};
pub use fleet::{INSTANCE_TYPE, PODS_PER_FULL_NODE, PODS_PER_PART_FILLED_NODE, Pool, Workload};
pub use observer::{Observed, Observer};
pub use options::Options;
pub use pushgateway::Pushgateway;
pub use stages::{NEVER_READY_LABEL, RELEASE_ANNOTATION};
