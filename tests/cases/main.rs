//! Cases from the field, by their ids: inputs that have hurt somebody, and what is right.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod c15;
mod c17;
mod c19;
mod c21;
mod program;
mod server;
