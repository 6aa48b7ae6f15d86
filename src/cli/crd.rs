//! `crd`: the CustomResourceDefinition, generated from the types.

use super::ExitCode;
use crate::api::rotation_policy::crd_yaml;

/// Prints it.
pub fn run() -> ExitCode {
    match crd_yaml() {
        Ok(yaml) => super::print(&yaml),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::Failed
        }
    }
}
