//! The state machine (§5.2, §5.3, §7): one non-blocking step per NodePool, as data.

pub mod abort;
pub mod advance;
pub mod announce;
pub mod assess;
pub mod attempt;
pub mod broken;
pub mod complete;
pub mod decide;
pub mod effect;
pub mod fallback;
pub mod gates;
pub mod governance;
pub mod memory;
pub mod notice;
mod rehearsal;
pub mod scene;
pub mod start;
pub mod state;
pub mod step;
pub mod sweep;
pub mod totals;

#[cfg(test)]
pub(crate) mod tests;
mod windows;
