//! What happened so far, as numbers that only grow but for `open`. Read them at any time; they are not one snapshot.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of connections and bytes.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted, also those that were then refused.
    pub accepted: AtomicU64,
    /// Connections that are relayed now.
    pub open: AtomicU64,
    /// Connections that were closed because all places and the queue were taken, or the wait for a place was too long.
    pub refused: AtomicU64,
    /// Connections that were closed because the far side could not be reached.
    pub unreachable: AtomicU64,
    /// Connections that were closed because nothing moved for too long.
    pub idle: AtomicU64,
    /// Bytes carried from those who connected to the far side.
    pub bytes_out: AtomicU64,
    /// Bytes carried from the far side back.
    pub bytes_back: AtomicU64,
}

impl Counters {
    pub(crate) fn one_more(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts as open until it is dropped.
    pub(crate) fn open(&self) -> Open<'_> {
        Self::one_more(&self.open);
        Open(&self.open)
    }
}

pub(crate) struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
