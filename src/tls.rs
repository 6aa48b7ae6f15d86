//! The one TLS provider of the process, for the API server and the Pushgateway alike.

/// Chooses it. Without a choice rustls panics on its first connection; one that is made already stays.
pub fn choose_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
