//! The only place that reads the wall clock. It names things; durations are counted on the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
