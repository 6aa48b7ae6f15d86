//! `crd`: the CustomResourceDefinition of RotationPolicy.

use super::ExitCode;
use crate::api::CRD;

/// Prints it.
pub fn run() -> ExitCode {
    super::print(CRD)
}
