//! The `noderotation` program: parses the command line, does what it says, and maps the result to an exit code.

use noderotation::cli::Cli;

/// Objects come and go by the thousand: the allocators of the C libraries take longer for it, musl's several times.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    Cli::typed().execute().into()
}
