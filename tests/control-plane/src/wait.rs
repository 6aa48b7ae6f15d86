//! Waiting for the cluster to come to where a test wants it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::control_plane::ControlPlane;
use crate::error::Error;

const PAUSE: Duration = Duration::from_millis(250);

impl ControlPlane {
    /// Asks `check` four times a second until it says yes. An error of the API is asked again too; once `timeout` has
    /// passed it is part of the answer, with the state of the cluster.
    pub async fn wait_for(&self, what: &str, timeout: Duration, mut check: impl AsyncFnMut() -> Result<bool, Error>) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let answer = check().await;
            if let Ok(true) = answer {
                return Ok(());
            }
            if start.elapsed() > timeout {
                let last = answer.err().map(|error| format!("the last answer: {error:?}\n")).unwrap_or_default();
                let state = last + &self.describe_state().await;
                return Err(Error::Timeout { what: what.into(), after: timeout, state });
            }
            sleep(PAUSE).await;
        }
    }
}
