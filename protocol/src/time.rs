//! Instants on the wire: RFC 3339 in UTC with milliseconds. Durations are plain seconds elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant, in milliseconds since 1970 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant that RFC 3339 can write: the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_999);

    /// The instant that many milliseconds after 1970.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// The instant that many milliseconds later (or earlier), never beyond what can be written.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms)).min(Self::MAX)
    }

    /// The instant that many seconds later.
    #[must_use]
    pub fn plus_s(self, seconds: u64) -> Self {
        self.plus_ms(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
    }

    /// Milliseconds from `earlier` to this instant; negative when it is the later one.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(out, "{instant:.3}"),
            Err(_) => out.write_str("9999-12-30T22:00:00.999Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Timestamp {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Self, BadTime> {
        text.parse::<jiff::Timestamp>().map(|instant| Self(instant.as_millisecond())).map_err(|_| BadTime)
    }
}

/// What is wrong with a string that was meant to be a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time: expected RFC 3339 such as `2026-01-31T12:00:00Z`")]
pub struct BadTime;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}
