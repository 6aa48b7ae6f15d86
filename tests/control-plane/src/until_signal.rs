//! How programs that start a control plane are ended.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when somebody asks this process to end: Ctrl-C, or SIGTERM.
pub async fn asked_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        return std::future::pending().await; // no handler: the signals end this process, and the kernel its children
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
