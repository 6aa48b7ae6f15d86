//! `crd`: the CustomResourceDefinition, generated from the types.

use super::{ExitCode, print};
use crate::api::rotation_policy::crd_yaml;

/// Prints it.
pub fn run() -> ExitCode {
    match crd_yaml() {
        Ok(yaml) => print(&yaml),
        Err(error) => {
            eprintln!("error: the CRD can't be written as YAML: {error}");
            ExitCode::Failed
        }
    }
}
