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
            let armed = Self::read(&text);
            if armed.is_none() {
                tracing::warn!("NODEROTATION_FAULT={text}: neither before-write:N nor after-write:N; no fault");
            }
            armed
        }

        pub(super) fn read(text: &str) -> Option<Self> {
            let (when, nth) = text.split_once(':')?;
            let before = match when {
                "before-write" => true,
                "after-write" => false,
                _ => return None,
            };
            Some(Self { before, nth: nth.parse().ok()?, landed: AtomicU64::new(0) })
        }

        pub fn before_write(&self) {
            if self.is_due_before() {
                std::process::abort();
            }
        }

        pub fn after_write(&self) {
            if self.is_due_after() {
                std::process::abort();
            }
        }

        pub(super) fn is_due_before(&self) -> bool {
            self.before && self.landed.load(Ordering::SeqCst) + 1 == self.nth
        }

        /// Counts a write that has succeeded.
        pub(super) fn is_due_after(&self) -> bool {
            self.landed.fetch_add(1, Ordering::SeqCst) + 1 == self.nth && !self.before
        }
    }
}

#[cfg(all(test, feature = "faults"))]
mod tests {
    use super::armed::Armed;

    #[test]
    fn a_fault_is_due_once_around_its_own_write() {
        let due = |text: &str| {
            let armed = Armed::read(text).unwrap();
            (1..=3).map(|_| (armed.is_due_before(), armed.is_due_after())).collect::<Vec<_>>()
        };
        assert_eq!(due("before-write:2"), [(false, false), (true, false), (false, false)]);
        assert_eq!(due("after-write:2"), [(false, false), (false, true), (false, false)]);
    }

    #[test]
    fn anything_else_is_no_fault() {
        assert!(["", "after-write", "after-write:x", "during-write:1"].into_iter().all(|text| Armed::read(text).is_none()));
    }
}
