mod agreement;
mod conversation;
mod fleet;
mod gate;
mod interleaved;
mod invariants;
mod lease;
mod troubles;
