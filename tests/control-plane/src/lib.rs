//! Starts a real Kubernetes control plane with Karpenter's KWOK provider on loopback, for tests and demos.

mod components;
mod control_plane;
mod credentials;
mod directory;
mod error;
mod kubectl;
mod loopback;
mod options;
mod process;
mod programs;
mod stages;
mod wait;

pub use control_plane::ControlPlane;
pub use error::Error;
pub use options::Options;
pub use stages::{NEVER_READY_LABEL, RELEASE_ANNOTATION};
