//! Whole passes over a cluster in memory: every story of a rotation, and the same story with a fault at each of its writes.

pub(crate) mod broken;
mod memory;
mod stories;
