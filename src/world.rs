//! The embedded world: a cluster in memory with a virtual clock, driven by a seed. Small models stand for Karpenter, the
//! scheduler, kubelets and workloads; the engine is the real one, over the typed door ([`door`]) or, with its client, over
//! the HTTP door ([`http`]).
//!
//! Each NodePool is a world of its own ([`pool::PoolWorld`]): pools share the policies and the clock, and nothing else
//! but a limit on rotations in flight ([`run::together`]).

pub mod door;
pub mod fleet;
pub mod history;
mod host;
pub mod http;
mod karpenter;
mod limits;
pub mod operator;
mod pods;
pub mod pool;
mod protection;
mod quota;
pub mod run;
pub mod scenario;
mod scheduler;
pub mod size;
mod volumes;

#[cfg(test)]
mod tests;
