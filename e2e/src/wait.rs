//! Waiting: for a condition, up to a deadline. The only place that lets time pass.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Long for what takes milliseconds, because other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest that any test may take.
const LONGEST_TEST: Duration = Duration::from_secs(240);

/// Looks again and again until there is something, or half a minute is over.
///
/// # Errors
/// When it does not happen, or when a look fails.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    eventually_within(PATIENCE, what, look).await
}

/// The same, with a deadline of the caller's.
///
/// # Errors
/// When it does not happen, or when a look fails.
pub async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let give_up_at = Instant::now() + patience;
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > give_up_at {
            bail!("did not happen within {patience:?}: {what}");
        }
    }
}

/// Lets time pass that is itself what is tested, such as the random moments of a kill.
pub async fn pass(time: Duration) {
    let mut ticks = interval(time.max(Duration::from_millis(1)));
    ticks.tick().await;
    ticks.tick().await;
}

/// Runs a test, four minutes at most.
///
/// # Errors
/// The test's own, or that it took too long.
pub async fn bounded(test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    match timeout(LONGEST_TEST, test).await {
        Ok(outcome) => outcome,
        Err(_) => bail!("the test took longer than {LONGEST_TEST:?}"),
    }
}
