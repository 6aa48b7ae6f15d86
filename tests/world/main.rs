//! The engine over the embedded world: months in seconds, with every fault there is. A failing seed prints the command that
//! repeats it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends where something is not as it should be")]

mod crashes;
mod defects;
mod door;
mod ledger;
mod scenario;
mod soak;
mod together;
