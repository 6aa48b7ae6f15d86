//! How a pass on a real API server begins: it sees the Lease free, reads and decides, and takes the Lease as it was seen. So
//! nothing is written before the reading has proved that a pass can begin, and nobody else has written since.

use std::time::Duration;

use tokio::time::Instant;

use super::{Look, look};
use crate::{
    cluster::Failure,
    kube::{call::chain, lease::Held, session::Session},
    rotation::scene::Config,
};

/// How often the cluster is read at most while others take the Lease meanwhile.
const TRIES: u32 = 5;

/// Why a pass doesn't begin.
#[derive(Debug)]
pub enum Unready {
    /// The API server can't be reached, or lacks something, in these words.
    Preflight(String),
    /// Another holds the Lease.
    Held(Held),
    /// It can't be read or written.
    Lease(Failure),
}

/// Gets a pass ready to write, waiting for as long as `patience` while another holds the Lease. Where the cluster can't be read
/// the Lease is taken all the same: that the pass failed is told on it.
///
/// # Errors
/// [`Unready`].
pub async fn ready(session: &mut Session, config: &Config, mut patience: Duration) -> Result<Result<Look, Failure>, Unready> {
    for _ in 0..TRIES {
        let begun = Instant::now();
        let free = match session.look_for_lease(patience).await {
            Ok(seen) => seen.map_err(Unready::Held)?,
            Err(failure) => return Err(unseen(session, failure).await),
        };
        patience = patience.saturating_sub(begun.elapsed());
        let look = match look(session, config).await {
            Err(Failure::Preflight(words)) => return Err(Unready::Preflight(words)),
            look => look,
        };
        session.clock().warn_if_local();
        match session.take_seen_lease(free).await {
            Ok(true) => return Ok(look),
            Ok(false) => {}
            // No write is sent any more, and the pass ends as one that has seen what it saw.
            Err(Failure::Interrupted(_) | Failure::Deadline(_)) => return Ok(look),
            Err(_) if look.is_err() => return Ok(look),
            Err(failure) => return Err(Unready::Lease(failure)),
        }
    }
    let why = format!("others wrote it while the cluster was read, {TRIES} times");
    Err(Unready::Lease(Failure::Call { attempted: "take the Lease".into(), why }))
}

/// The Lease is the first that is asked for: where it can't be read, the reason may be a larger one.
async fn unseen(session: &Session, failure: Failure) -> Unready {
    if !matches!(failure, Failure::Call { .. }) {
        return Unready::Lease(failure);
    }
    if !session.clock().is_of_server() {
        return Unready::Preflight(failure.to_string());
    }
    match session.preflight().await {
        Ok(()) => Unready::Lease(failure),
        Err(error) => Unready::Preflight(chain(&error)),
    }
}
