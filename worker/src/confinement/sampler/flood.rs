//! Too many processes, seen by their number alone: with a flood every other look takes long, and one that has begun must be
//! broken off. Only where no limit of the kernel's counts just the task's.

use std::time::{Duration, Instant};

use super::super::Level;
use super::processes::pids;

/// How long a look goes on before they are counted again.
const PACE: Duration = Duration::from_millis(20);

/// What is counted during one look.
pub(super) struct Flood {
    level: Level,
    /// As many as there may be; none when nobody needs to count.
    most: Option<u64>,
    counted_at: Instant,
    is_seen: bool,
}

impl Flood {
    pub(super) fn new(level: Level, most: Option<u64>) -> Self {
        Self { level, most, counted_at: Instant::now(), is_seen: false }
    }

    /// Whether so many processes or threads are too many.
    pub(super) fn is(&mut self, count: u64) -> bool {
        self.is_seen |= self.most.is_some_and(|most| count > most);
        self.is_seen
    }

    /// Whether there are too many by now.
    pub(super) fn has_come(&mut self) -> bool {
        if self.most.is_some() && !self.is_seen && self.counted_at.elapsed() >= PACE {
            self.is(pids(self.level).len() as u64);
            self.counted_at = Instant::now();
        }
        self.is_seen
    }
}
