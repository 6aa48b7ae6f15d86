//! The `noderotation` program.

fn main() {}
