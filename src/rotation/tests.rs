//! The state machine, row by row: each test builds the smallest cluster that shows one rule, and compares the whole step.

pub mod check;
pub mod fleet;

mod broken;
mod census;
mod draining;
mod expired;
mod failed;
mod fallback;
mod gates;
mod governance;
pub mod judge;
mod nodes;
mod pending;
mod properties;
mod rehearsal;
mod rollback;
mod start;
mod sweep;
mod wishes;
