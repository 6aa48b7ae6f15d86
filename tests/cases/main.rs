//! Situations that hurt somebody elsewhere, each with its inputs and what is right here; by their ids. They go through the
//! crate's public API, most of them through a whole `decide`, or through the program with real sockets and processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod blackout;
mod bodies;
mod c01;
mod c04;
mod c06;
mod c08;
mod c09;
mod c12;
mod c13;
mod c15;
mod c17;
mod c19;
mod c21;
mod c23;
mod fleet;
mod idle;
mod program;
mod server;
mod t_program;
mod t_surge;
mod t_time;
