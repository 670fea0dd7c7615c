//! Sends an attempt's output while it runs: a batch when 50 ms passed or 32 KiB are there, one at a time.

use std::sync::Arc;
use std::time::Duration;

use protocol::LeaseId;
use protocol::event::EventBody;
use tokio::time::{Instant, sleep, sleep_until};

use super::cut::{self, Batch};
use super::{Output, Shared, State, Tail};
use crate::client::{CallError, Client};
use crate::heartbeat::Validity;
use crate::random::Backoff;
use crate::spool::numbering::{Numbered, send};

const GATHER: Duration = Duration::from_millis(50);

impl Output {
    /// Sends until the lease is lost or the task that runs this is aborted. What is in flight then stays known.
    pub(crate) fn send_live(
        &self,
        client: Arc<Client>,
        lease: LeaseId,
        valid: Validity,
    ) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            loop {
                shared.gather().await;
                if !shared.send_batch(&client, lease, &valid).await {
                    return;
                }
            }
        }
    }
}

impl Shared {
    /// Waits for output, then a moment for more of it.
    async fn gather(&self) {
        while self.lock().pending_bytes == 0 {
            self.ready.notified().await;
        }
        let until = Instant::now() + GATHER;
        while self.lock().pending_bytes < cut::BATCH_BYTES {
            tokio::select! {
                () = sleep_until(until) => return,
                () = self.ready.notified() => {}
            }
        }
    }

    /// Sends one batch until it is acknowledged; says whether to go on.
    async fn send_batch(&self, client: &Client, lease: LeaseId, valid: &Validity) -> bool {
        let mut batch = {
            let mut state = self.lock();
            state.fill_flight();
            Numbered { next: state.next, events: state.in_flight.clone() }
        };
        self.room.notify_waiters();
        let mut backoff = Backoff::default();
        loop {
            if !valid.is_valid() {
                return false;
            }
            let sent = send(client, lease, &mut batch).await;
            self.lock().keep(&batch);
            match sent {
                Ok(()) => return true,
                Err(error) if error.is_too_large() => {
                    tracing::warn!(%lease, "no more output is kept: {error}");
                    self.lock().refuse();
                    self.room.notify_waiters();
                    return false;
                }
                Err(error) if is_final(&error) => return false,
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }
}

impl State {
    pub(super) fn fill_flight(&mut self) {
        let mut batch = Batch::default();
        let mut done = 0;
        for piece in &mut self.pending {
            let taken = batch.add(piece, 0);
            self.pending_bytes -= taken;
            if taken < piece.bytes.len() {
                piece.bytes.drain(..taken);
                break;
            }
            done += 1;
        }
        self.pending.drain(..done);
        self.in_flight = batch.into_events();
    }

    /// Drops what waits and all that follows, so that the task never waits for a coordinator that takes no more.
    fn refuse(&mut self) {
        self.is_refused = true;
        for event in std::mem::take(&mut self.in_flight) {
            if let EventBody::Output { stream, bytes } = event {
                self.kept(stream).refused += bytes.into_bytes().map_or(0, |bytes| bytes.len() as u64);
            }
        }
        for piece in std::mem::take(&mut self.pending) {
            self.kept(piece.stream).refused += piece.bytes.len() as u64;
        }
        self.pending_bytes = 0;
        for kept in [&mut self.stdout, &mut self.stderr] {
            kept.tail = Tail::new("".into(), 0);
        }
    }

    fn keep(&mut self, batch: &Numbered) {
        self.next = batch.next;
        self.in_flight.clone_from(&batch.events);
    }
}

/// Whether the rest is better left to the report: the lease is lost, or the batch is refused for what it is.
fn is_final(error: &CallError) -> bool {
    error.status().is_some_and(|status| (400..500).contains(&status) && !matches!(status, 401 | 403 | 408 | 429))
}
