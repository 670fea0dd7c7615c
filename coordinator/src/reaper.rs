//! Housekeeping that must be prompt: leases that lapse and what they uploaded, holds that end, workers that missed their
//! wake-up, and who was seen.
//! A pass is idempotent; the loop around it only logs.

use std::time::Duration;

use crate::queue::Queue;
use crate::store::StoreError;

const PASS_EVERY: Duration = Duration::from_millis(500);
/// Passes between two looks at what is done less often.
const SELDOM: u32 = 10;

/// Runs until the queue stops.
pub async fn run(queue: &Queue) {
    let mut passes = 0u32;
    while !sleep_or_stop(queue, PASS_EVERY).await {
        passes = passes.wrapping_add(1);
        let done = if passes.is_multiple_of(SELDOM) { seldom_pass(queue).await } else { queue.tend().await };
        if let Err(error) = done {
            tracing::error!(%error, "a pass of housekeeping failed; the next one tries again");
        }
    }
}

/// Waits, and says whether it is time to stop.
pub(crate) async fn sleep_or_stop(queue: &Queue, pause: Duration) -> bool {
    tokio::time::timeout(pause, queue.shutdown.requested()).await.is_ok()
}

/// The prompt part, then the safety net of the wake-ups and the memory of workers.
async fn seldom_pass(queue: &Queue) -> Result<(), StoreError> {
    queue.tend().await?;
    let repos = queue.wakeup.parked_repos();
    if !repos.is_empty() {
        queue.wake_for(repos).await?;
    }
    let dropped = queue.drop_dead_uploads().await?;
    if dropped > 0 {
        tracing::info!(dropped, "removed files of leases that ended without a report");
    }
    queue.drop_dead_stages().await?;
    queue.save_sessions_used().await?;
    save_workers(queue).await
}

/// Writes down the workers that were seen since the last time.
///
/// # Errors
/// See `StoreError`.
pub async fn save_workers(queue: &Queue) -> Result<(), StoreError> {
    let unsaved = queue.workers.take_unsaved();
    if unsaved.is_empty() { Ok(()) } else { queue.store.save_workers(unsaved).await }
}
