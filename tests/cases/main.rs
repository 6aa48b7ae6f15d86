//! Situations that hurt somebody elsewhere, each with its inputs and what is right here; by their ids. They go through the
//! crate's public API, most of them through a whole `decide`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic anywhere")]

mod blackout;
mod c01;
mod c04;
mod c06;
mod c09;
mod c12;
mod c13;
mod c23;
mod fleet;
