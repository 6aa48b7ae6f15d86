//! `crd`: the CustomResourceDefinition, generated from the types.

use super::ExitCode;

/// Prints it.
pub fn run() -> ExitCode {
    ExitCode::Done
}
