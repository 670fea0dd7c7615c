//! Sends what an earlier start of the worker, or a refused key, left in the spool.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Delivery, Head, SavedBatches, Settled, Spool, load};
use crate::client::{CallError, Client};
use crate::clock;
use crate::random::Backoff;

/// How long a report waits for its key to be taken again.
const KEEP_MS: u64 = 7 * 24 * 3600 * 1000;
/// How often reports whose key is refused are tried.
const RETRY_REFUSED: Duration = Duration::from_secs(60);

/// Sends the spool again and again, until it is dropped. `is_done`: an earlier pass found nothing that could be sent.
pub(crate) async fn run(spool: Arc<Spool>, client: Arc<Client>, mut is_done: bool) {
    let mut backoff = Backoff::default();
    loop {
        let pause = if is_done { RETRY_REFUSED } else { backoff.next() };
        tokio::time::sleep(pause).await;
        is_done = one_pass(&spool, &client).await.is_ok();
        if is_done {
            backoff.reset();
        }
    }
}

/// Tries every waiting report once, and stops at the first that cannot be sent now.
pub(crate) async fn one_pass(spool: &Spool, client: &Client) -> Result<(), CallError> {
    let files = match spool.files() {
        Ok(files) => files,
        Err(error) => {
            tracing::error!("cannot read the spool: {error}");
            return Ok(());
        }
    };
    for file in files {
        match load(&file) {
            Ok((head, batches)) => resend(spool, client, &file, head, batches).await?,
            Err(error) => spool.set_aside(&file, &format!("not a report that can be read: {error}")),
        }
    }
    Ok(())
}

async fn resend(
    spool: &Spool,
    client: &Client,
    file: &Path,
    head: Head,
    batches: SavedBatches,
) -> Result<(), CallError> {
    let Head { lease, task, saved_at_ms, first, report } = head;
    let settled = Delivery::new(lease, report, first, batches).go(client).await?;
    match settled {
        // That the key is refused is said already, once.
        Settled::KeyRefused if clock::now_ms().saturating_sub(saved_at_ms) < KEEP_MS => return Ok(()),
        Settled::KeyRefused => {
            spool.set_aside(file, "the key was refused for 7 days");
            return Ok(());
        }
        Settled::Acknowledged => tracing::info!(%task, %lease, "report of an earlier attempt delivered"),
        Settled::LeaseLost | Settled::Undeliverable(_) => {}
    }
    spool.settle(lease, &settled);
    Ok(())
}
