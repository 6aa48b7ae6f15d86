//! When a rotation may start, and from which age on it must: windows (§3), the derivation (§4) and its findings.

pub mod blackout;
pub mod derive;
pub mod findings;
pub mod settle;
pub mod window;
