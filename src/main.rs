//! The `noderotation` program: parses the command line, does what it says, and maps the result to an exit code.

use noderotation::cli::Cli;

/// Of the static program: musl's own allocator takes several times as long, most of all with several threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    Cli::typed().execute().into()
}
