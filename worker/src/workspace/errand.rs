//! What is done for one lease over there and back, as long as that has a point: it can be halted, and tries again, within
//! bounds, what fails in passing.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use protocol::{Code, LeaseId};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client::{CallError, Client};
use crate::heartbeat::Validity;
use crate::random::Backoff;

/// How often something is tried that brings nothing.
const TRIES: u32 = 5;

/// For whom something is done, and whether it still has a point.
#[derive(Clone)]
pub(crate) struct Errand {
    pub(crate) client: Arc<Client>,
    pub(crate) lease: LeaseId,
    validity: Validity,
    halt: Arc<watch::Sender<bool>>,
}

impl Errand {
    pub(crate) fn new(client: Arc<Client>, lease: LeaseId, validity: Validity) -> Self {
        Self { client, lease, validity, halt: Arc::new(watch::Sender::new(false)) }
    }

    /// Ends it: whatever waits for it ends soon, with an error.
    pub(crate) fn halt(&self) {
        self.halt.send_replace(true);
    }

    /// Whether it goes on.
    pub(crate) fn is_open(&self) -> bool {
        !*self.halt.borrow() && self.validity.is_valid()
    }

    /// Does something that may be dropped midway.
    pub(super) async fn unless_halted<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let mut halted = self.halt.subscribe();
        tokio::select! {
            biased;
            _ = halted.wait_for(|halted| *halted) => bail!("the attempt ended meanwhile"),
            done = work => done,
        }
    }

    /// Does something until it succeeds, as often as has a point.
    pub(super) async fn patiently<T, F>(&self, mut attempt: impl FnMut() -> F) -> anyhow::Result<T>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        let mut backoff = Backoff::default();
        for _ in 1..TRIES {
            match attempt().await {
                Err(error) if is_passing(&error) && self.is_open() => {
                    tracing::debug!(lease = %self.lease, "once more: {error:#}");
                    let rest = sleep(backoff.next());
                    self.unless_halted(async {
                        rest.await;
                        Ok(())
                    })
                    .await?;
                }
                done => return done,
            }
        }
        attempt().await.map_err(|error| anyhow!("{error:#} (tried {TRIES} times)"))
    }
}

/// Whether another try may go better: a stream can be cut off or damaged on its way.
fn is_passing(error: &anyhow::Error) -> bool {
    if error.is::<Unreadable>() {
        return false;
    }
    match error.downcast_ref::<CallError>() {
        // The end of a try that was cut off may not have been noticed over there.
        Some(error) if error.code() == Some(Code::Conflict) => true,
        Some(error) => error.status().is_none_or(|status| status >= 500 || matches!(status, 408 | 429)),
        None => true,
    }
}

/// Something here does not work: to try again is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreadable(pub(super) String);
