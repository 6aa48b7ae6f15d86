//! The real cluster: [`crate::cluster::Cluster`] on a Kubernetes API server. Everything that talks to it is below this
//! module; what is to be done is decided elsewhere.
//!
//! ```text
//! connect ─► Session (call: limits, retries, the clock) ─► load / facts (preflight) ─► lease ─► execute, events, status
//! ```
//!
//! Requests are raw: objects are read into the partial structs of [`crate::api::karpenter`], so a field that we don't
//! know can neither break a pass nor be lost, and nothing is ever written but merge patches, creates and deletes.

pub mod call;
pub mod connect;
pub mod events;
mod execute;
mod facts;
mod faults;
pub mod lease;
mod list;
mod load;
pub mod operator;
mod plugin;
pub mod preflight;
mod rehearse;
mod resource;
pub mod session;
mod slim;
mod split;
pub mod stop;

pub use list::PAGE;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fuzz;
