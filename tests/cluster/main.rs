//! The program on a real control plane: etcd, the API server, Karpenter with its KWOK provider. Each pass is a process of
//! its own, under the ServiceAccount and with the rights that `kustomize/without-cronjob` gives it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod audit;
mod chronicle;
mod commands;
mod crashes;
mod drains;
mod expiry;
mod failures;
mod faulty_proxy;
mod field;
mod gates;
mod governance;
mod hard_places;
mod kill;
mod lease;
mod metrics;
mod passes;
mod policy;
mod pools;
mod refusals;
mod rotation;
mod scenes;
mod storm;
mod trouble;
mod wishes;
