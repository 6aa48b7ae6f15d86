//! What the program reads and writes, as types: the RotationPolicy, the parts of Karpenter's objects that are
//! used, every key of ours, time and quantities. Nothing here talks to anything.

pub mod events;
pub mod json;
pub mod karpenter;
pub mod keys;
pub mod meta;
pub mod pod;
pub mod quantity;
#[cfg(test)]
mod rotation_policy;
pub mod shared;
pub mod time;
pub mod zone;

/// The CustomResourceDefinition of RotationPolicy, as YAML. A test generates it from types, and keeps it what they say.
pub const CRD: &str = include_str!("../crds/noderotation.io_rotationpolicies.yaml");
