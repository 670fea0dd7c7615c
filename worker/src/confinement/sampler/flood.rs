//! Too many processes, seen by their number alone: with a flood every other look takes long, and one that has begun must be
//! broken off. Only in a namespace, which lists them at once, and inside gVisor, where no limit of the kernel's counts just the
//! task's. Elsewhere the list of those that come and go is full of what is gone.

use std::time::{Duration, Instant};

use super::super::Level;
use super::processes::pids;

/// How long a look goes on before they are counted again.
const PACE: Duration = Duration::from_millis(20);

/// What is counted during one look.
pub(super) struct Flood {
    level: Level,
    /// As many as there may be; none where the number alone says nothing.
    most: Option<u64>,
    /// Whether they are counted again while the look goes on.
    counts_again: bool,
    counted_at: Instant,
    has_come: bool,
}

impl Flood {
    pub(super) fn new(level: Level, most: Option<u64>, counts_again: bool) -> Self {
        Self { level, most, counts_again, counted_at: Instant::now(), has_come: false }
    }

    /// Whether so many processes are too many.
    pub(super) fn is(&self, count: u64) -> bool {
        self.most.is_some_and(|most| count > most)
    }

    /// Whether there are too many by now, the dead that nobody reaped while the look goes on among them.
    pub(super) fn has_come(&mut self) -> bool {
        let is_due = self.counts_again && self.most.is_some() && self.counted_at.elapsed() >= PACE;
        if is_due && !self.has_come {
            self.has_come = self.is(pids(self.level).len() as u64);
            self.counted_at = Instant::now();
        }
        self.has_come
    }
}
