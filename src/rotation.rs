//! The state machine (§5.2, §5.3, §7): one non-blocking step per NodePool, as data.

pub mod effect;
pub mod notice;
pub mod state;
pub mod step;
pub mod totals;
