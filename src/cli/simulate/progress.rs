//! How far a long forecast is: one line on the terminal, and nothing where there is none.

use std::{
    io::{IsTerminal, Write},
    sync::Mutex,
    time::{Duration, Instant},
};

/// A forecast that is faster shows nothing.
const PATIENCE: Duration = Duration::from_millis(800);
/// The line is not written more often than this.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 30;

/// A bar on standard error.
pub struct Progress {
    begun: Instant,
    of: usize,
    shown: Mutex<Option<Instant>>,
    is_wanted: bool,
}

impl Progress {
    /// For so many parts.
    pub fn new(of: usize) -> Self {
        Self { begun: Instant::now(), of, shown: Mutex::new(None), is_wanted: std::io::stderr().is_terminal() }
    }

    /// So many parts are done.
    pub fn done(&self, parts: usize) {
        let Ok(mut shown) = self.shown.lock() else { return };
        if !self.is_wanted || self.begun.elapsed() < PATIENCE || shown.is_some_and(|shown| shown.elapsed() < PAUSE) {
            return;
        }
        *shown = Some(Instant::now());
        // What can't be shown is no reason to end.
        let _ = write!(std::io::stderr(), "\r{}", bar(parts, self.of));
        let _ = std::io::stderr().flush();
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if self.shown.lock().is_ok_and(|shown| shown.is_some()) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

fn bar(parts: usize, of: usize) -> String {
    let full = (parts * WIDTH / of.max(1)).min(WIDTH);
    format!("simulating [{}{}] {parts} of {of}", "#".repeat(full), " ".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert_eq!(bar(0, 4), "simulating [                              ] 0 of 4");
        assert_eq!(bar(2, 4), "simulating [###############               ] 2 of 4");
        assert_eq!(bar(4, 4), "simulating [##############################] 4 of 4");
    }
}
