//! The fault switch of the test build (feature `faults`): ends the process right before or after its N-th write, as
//! `kill -9` would: no Lease is released, nothing is flushed. In any other build it is empty.

/// What `NODEROTATION_FAULT` asks for.
#[derive(Debug, Default)]
pub struct Faults {
    #[cfg(feature = "faults")]
    armed: Option<armed::Armed>,
}

impl Faults {
    /// Reads `NODEROTATION_FAULT`: `before-write:N` or `after-write:N`, N from 1. Only effects count as writes.
    pub fn from_env() -> Self {
        Self {
            #[cfg(feature = "faults")]
            armed: armed::Armed::from_env(),
        }
    }

    /// To be called right before a write is sent.
    pub fn before_write(&self) {
        #[cfg(feature = "faults")]
        if let Some(armed) = &self.armed {
            armed.before_write();
        }
    }

    /// To be called right after a write has succeeded.
    pub fn after_write(&self) {
        #[cfg(feature = "faults")]
        if let Some(armed) = &self.armed {
            armed.after_write();
        }
    }
}

#[cfg(feature = "faults")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug)]
    pub struct Armed {
        before: bool,
        nth: u64,
        landed: AtomicU64,
    }

    impl Armed {
        pub fn from_env() -> Option<Self> {
            let text = std::env::var("NODEROTATION_FAULT").ok()?;
            let parsed = text.split_once(':').and_then(|(when, nth)| Some((when == "before-write", when, nth.parse().ok()?)));
            match parsed {
                Some((before, "before-write" | "after-write", nth)) => Some(Self { before, nth, landed: AtomicU64::new(0) }),
                _ => {
                    tracing::warn!("NODEROTATION_FAULT={text}: neither before-write:N nor after-write:N; no fault");
                    None
                }
            }
        }

        pub fn before_write(&self) {
            if self.before && self.landed.load(Ordering::SeqCst) + 1 == self.nth {
                std::process::abort();
            }
        }

        pub fn after_write(&self) {
            if self.landed.fetch_add(1, Ordering::SeqCst) + 1 == self.nth && !self.before {
                std::process::abort();
            }
        }
    }
}
