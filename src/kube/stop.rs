//! SIGINT and SIGTERM: a pass writes nothing new after one, releases its Lease and ends with the shell's code for it.

use std::{future, io};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// A signal that asks the pass to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signal {
    /// The process's exit code after it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Tells whether a signal has come.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<Option<Signal>>);

impl Stop {
    /// Listens for SIGINT and SIGTERM from now on; to be called inside a runtime.
    ///
    /// # Errors
    /// When the process can't have handlers for them.
    pub fn on_signals() -> io::Result<Self> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (sender, stop) = Self::by_hand();
        tokio::spawn(async move {
            let signal = tokio::select! {
                _ = interrupt.recv() => Signal::Interrupt,
                _ = terminate.recv() => Signal::Terminate,
            };
            sender.send_replace(Some(signal));
        });
        Ok(stop)
    }

    /// One that is asked for by the sender.
    pub fn by_hand() -> (watch::Sender<Option<Signal>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// One that never comes.
    pub fn never() -> Self {
        Self::by_hand().1
    }

    /// The signal, where one has come.
    pub fn requested(&self) -> Option<Signal> {
        *self.0.borrow()
    }

    /// Waits for it.
    pub async fn wait(&self) -> Signal {
        let mut receiver = self.0.clone();
        let signal = receiver.wait_for(Option::is_some).await.ok().and_then(|signal| *signal);
        match signal {
            Some(signal) => signal,
            // Nobody can ask any more.
            None => future::pending().await,
        }
    }
}
