//! The one place that reads the clock; everywhere else the time is an argument.

use protocol::Timestamp;

/// The time on this machine.
#[allow(clippy::disallowed_methods, reason = "this is the place that the lint points to")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
}
