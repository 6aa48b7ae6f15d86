//! The engine over the embedded world: months in seconds, with every fault there is. A failing seed prints the command that
//! repeats it.

mod crashes;
mod defects;
mod door;
mod ledger;
mod scenario;
mod soak;
