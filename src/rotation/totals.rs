//! Durable totals (§7): counters that move exactly once per outcome, because they live in the very write that decides
//! it. Compact JSON in one NodePool annotation.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::api::{keys, meta::Meta};

/// Upper bounds of the histograms' buckets, in seconds; the last, infinite one is the count.
pub const BUCKETS: [i64; 11] = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

/// A pool's counters since it was first governed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// Rotations that ended as they should.
    pub success: u64,
    /// Attempts that ran into `readyTimeout`.
    pub failure: u64,
    /// Claims that someone else deleted first.
    pub expired: u64,
    /// Rotations started without a surge.
    pub fallback: u64,
    /// Windows in which nothing could be started though something was due.
    pub window_missed: u64,
    /// How long surges took.
    pub surge_wait: Histogram,
    /// How long drains took.
    pub drain: Histogram,
}

/// A histogram over [`BUCKETS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// Number of samples.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: u64,
    /// Samples per bucket, not cumulative.
    pub buckets: [u64; BUCKETS.len()],
}

impl Histogram {
    /// Adds a sample; a negative one counts as zero.
    pub fn observe(&mut self, sample: TimeDelta) {
        let seconds = sample.num_seconds().max(0);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(seconds.unsigned_abs());
        if let Some(bucket) = BUCKETS.iter().zip(&mut self.buckets).find(|(bound, _)| seconds <= **bound).map(|(_, bucket)| bucket) {
            *bucket = bucket.saturating_add(1);
        }
    }
}

impl Totals {
    /// Reads them from a NodePool; `Err` where they can't be read: they then restart at zero.
    pub fn of(pool: &Meta) -> Result<Self, String> {
        pool.annotation(keys::TOTALS).map_or(Ok(Self::default()), Self::read)
    }

    /// Reads them as they stand in the annotation; `Err` where they can't be read.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// As they stand in the annotation.
    pub fn to_annotation(&self) -> String {
        // Plain numbers under fixed keys: serialization has no way to fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_their_annotation() {
        let mut totals = Totals { success: 3, window_missed: 1, ..Totals::default() };
        totals.surge_wait.observe(TimeDelta::seconds(30));
        totals.surge_wait.observe(TimeDelta::seconds(31));
        totals.drain.observe(TimeDelta::days(2));
        let mut pool = Meta::default();
        pool.annotations.insert(keys::TOTALS.into(), totals.to_annotation());
        assert_eq!(Totals::of(&pool), Ok(totals.clone()));
        assert_eq!(totals.surge_wait, Histogram { count: 2, sum: 61, buckets: [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0] });
        assert_eq!(totals.drain, Histogram { count: 1, sum: 172_800, buckets: [0; 11] });
        pool.annotations.insert(keys::TOTALS.into(), "{\"success\":".into());
        assert!(Totals::of(&pool).is_err());
    }
}
