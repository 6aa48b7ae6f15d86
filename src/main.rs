//! The `noderotation` program: parses the command line, does what it says, and maps the result to an exit code.

use noderotation::cli::Cli;

fn main() -> std::process::ExitCode {
    Cli::typed().execute().into()
}
