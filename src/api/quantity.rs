//! Kubernetes quantities, exact: whole nano-units in an `i128`, saturating, never a float.

use std::fmt;

/// An exact quantity of a resource, in nano-units (1 cpu = 10^9, 1 byte = 10^9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Quantity(pub i128);

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}n", self.0)
    }
}
