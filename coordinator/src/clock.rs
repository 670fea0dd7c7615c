//! The only place that reads the time. The timeline starts at the wall clock, never before the newest stored instant, and
//! follows the monotonic clock from then on: a stepped clock lapses nothing. Wall time decides only what people named as an
//! instant: `not_before` and the expiry of keys.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use protocol::Timestamp;

/// The coordinator's sense of time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Timestamp,
    started: Instant,
}

/// Both kinds of time, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// On the timeline that never jumps.
    pub at: Timestamp,
    /// By the wall clock.
    pub wall: Timestamp,
}

impl Clock {
    /// A timeline that begins now, or at the newest stored instant if the wall clock is behind it.
    #[must_use]
    pub fn start(newest_stored: Option<Timestamp>) -> Self {
        let start = newest_stored.map_or_else(wall, |newest| newest.max(wall()));
        Self { start, started: Instant::now() }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Now {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now { at: self.start.plus_ms(elapsed), wall: wall() }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
