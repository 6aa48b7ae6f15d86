//! What a pass tells the outside: metrics from the durable totals and what was seen, the push that carries them, and
//! log lines. Nothing here decides anything, and none of it can fail a pass.

pub mod grouping;
pub mod log;
pub mod metrics;
pub mod push;
