//! Housekeeping that may take its time: what is older than it must be kept is deleted, a little at a time.

use std::time::Duration;

use protocol::Timestamp;

use crate::queue::Queue;
use crate::reaper::sleep_or_stop;
use crate::store::{Prune, StoreError};

const PASS_EVERY: Duration = Duration::from_secs(3600);
const DAY_MS: i64 = 86_400_000;
/// How long a version of a session stays whole after it was the newest, in milliseconds.
const HISTORY_MS: i64 = 3_600_000;
/// How long a blob that nobody names is kept, in milliseconds: whoever reads it finishes.
pub const ORPHANS_MS: i64 = DAY_MS;

/// How long things are kept, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Tasks after they are done.
    pub tasks_ms: i64,
    /// Output of tasks after they are done.
    pub output_ms: i64,
    /// Sessions after their last use; for ever when it is not set.
    pub sessions_ms: Option<i64>,
    /// Blobs after nobody names them any more.
    pub orphans_ms: i64,
}

/// Runs until the queue stops; the first pass is at once.
pub async fn run(queue: &Queue, retention: Retention) {
    loop {
        match one_pass(queue, retention).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "deleted what was older than it must be kept"),
            Err(error) => tracing::error!(%error, "could not delete what is old; tried again in an hour"),
        }
        match queue.sweep_blobs(retention.orphans_ms).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "removed files that belong to no task and no session"),
            Err(error) => {
                tracing::error!(%error, "could not remove files that belong to nobody; tried again in an hour")
            }
        }
        if sleep_or_stop(queue, PASS_EVERY).await {
            return;
        }
    }
}

/// Deletes everything that is too old now, and says how many rows went.
///
/// # Errors
/// See `StoreError`; what went is gone.
pub async fn one_pass(queue: &Queue, retention: Retention) -> Result<u64, StoreError> {
    if let Some(sessions_ms) = retention.sessions_ms {
        queue.expire_sessions(queue.clock.now().at.plus_ms(-sessions_ms)).await?;
    }
    let prune = too_old(retention, queue.clock.now().at);
    let mut total = 0;
    loop {
        let gone = queue.store.prune(prune).await?;
        total += gone;
        if gone == 0 || queue.shutdown.is_requested() {
            return Ok(total);
        }
    }
}

fn too_old(retention: Retention, now: Timestamp) -> Prune {
    Prune {
        tasks_before: now.plus_ms(-retention.tasks_ms),
        output_before: now.plus_ms(-retention.output_ms),
        idempotency_before: now.plus_ms(-DAY_MS),
        workers_before: now.plus_ms(-DAY_MS),
        history_before: now.plus_ms(-HISTORY_MS),
    }
}
