//! Make-before-break rotation of Karpenter nodes inside maintenance windows, as a one-shot pass.
//!
//! ```text
//! flags, kubeconfig ─► connect ─► clock ─► load ─► decide ─► lease ─► execute ─► status ─► report ─► exit code
//!                                         (View)   (Steps)           (Outcomes)
//! ```
//!
//! The core ([`api`], [`view`], [`policy`], [`schedule`], [`candidates`], [`surge`], [`rotation`]) is pure: no client, no
//! clock, no logging, no randomness. [`pass`] runs it over any [`cluster::Cluster`]; [`kube`] is the real
//! one, [`world`] one in memory.

pub mod api;
pub mod candidates;
pub mod cli;
pub mod clock;
pub mod cluster;
#[cfg(test)]
mod fixture;
pub mod kube;
pub mod pass;
pub mod policy;
pub mod report;
pub mod rotation;
pub mod schedule;
pub mod surge;
mod tls;
pub mod view;
pub mod world;
