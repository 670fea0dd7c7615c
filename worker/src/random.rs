//! Randomness for names that cannot be guessed and for delays that do not come all at once.

use std::time::Duration;

use anyhow::Context as _;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

/// 128 random bits.
pub(crate) fn bits() -> anyhow::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("cannot get random bytes from the system")?;
    Ok(u128::from_le_bytes(bytes))
}

/// Delays that double from 0.2 s to 10 s, each shortened by up to a half so that workers do not return in step.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The delay after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures += 1;
        // Without randomness the delay is merely not jittered.
        let share = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
        full - (full / 2).mul_f64(share)
    }

    /// All is well again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests;
