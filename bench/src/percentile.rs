//! What a set of measured times comes to. It never interpolates: every figure is a time that was measured.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The spread of a set of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The time that half of them do not exceed.
    #[serde(rename = "p50_ms", serialize_with = "as_ms", deserialize_with = "from_ms")]
    pub(crate) p50: Duration,
    /// The time that 95 in a hundred do not exceed.
    #[serde(rename = "p95_ms", serialize_with = "as_ms", deserialize_with = "from_ms")]
    pub(crate) p95: Duration,
    /// The time that 99 in a hundred do not exceed.
    #[serde(rename = "p99_ms", serialize_with = "as_ms", deserialize_with = "from_ms")]
    pub(crate) p99: Duration,
    /// The longest.
    #[serde(rename = "max_ms", serialize_with = "as_ms", deserialize_with = "from_ms")]
    pub(crate) max: Duration,
    /// How many were measured.
    pub(crate) samples: usize,
}

impl Spread {
    /// The spread of these times; `None` when there are none.
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let max = *times.last()?;
        let [p50, p95, p99] = [50, 95, 99].map(|percent| nearest_rank(&times, percent));
        Some(Self { p50, p95, p99, max, samples: times.len() })
    }
}

/// Writes a time as milliseconds, for people and programs alike.
pub(crate) fn as_ms<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64() * 1000.0)
}

fn from_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)? / 1000.0).map_err(serde::de::Error::custom)
}

/// The smallest time that at least `percent` in a hundred do not exceed. `sorted` is not empty, `percent` 1 to 100.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.max(1) - 1]
}

#[cfg(test)]
mod tests;
