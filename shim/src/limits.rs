//! How many connections there may be and how long each step may take. A connection gets a place; when all are taken it
//! waits in a queue; when that is full too, or the wait is too long, it is refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::timeout;

use crate::{Counters, Lookups};

/// The numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are relayed at once. Each takes two descriptors and two buffers.
    pub max_connections: usize,
    /// Connections that wait for a place. Each takes one descriptor.
    pub max_waiting: usize,
    /// How long a connection may wait for a place, and then for the far side.
    pub connect: Duration,
    /// How long nothing may move in either direction.
    pub idle: Duration,
    /// How many names are looked up at once. Each takes a blocking thread of the runtime.
    pub max_lookups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_waiting: 1024,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            max_lookups: 4,
        }
    }
}

/// Limits in force, with counters. Listeners that share a gate share its places.
#[derive(Debug)]
pub struct Gate {
    pub(crate) limits: Limits,
    pub(crate) lookups: Lookups,
    /// What happened so far.
    pub counters: Counters,
    inside: Arc<Semaphore>,
    places: Semaphore,
}

/// The right to be here, waiting or relayed; dropping it makes room.
#[derive(Debug)]
pub(crate) struct Ticket(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Gate {
    /// With no connection yet.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        Self::sharing(limits, Lookups::new(limits.max_lookups))
    }

    /// The same, with look-ups that other gates share: `max_lookups` does not count.
    #[must_use]
    pub fn sharing(limits: Limits, lookups: Lookups) -> Arc<Self> {
        let places = limits.max_connections.min(Semaphore::MAX_PERMITS / 2);
        let waiting = limits.max_waiting.min(Semaphore::MAX_PERMITS / 2);
        Arc::new(Self {
            limits,
            lookups,
            counters: Counters::default(),
            inside: Arc::new(Semaphore::new(places + waiting)),
            places: Semaphore::new(places),
        })
    }

    /// None when the queue is full too.
    pub(crate) fn enter(&self) -> Option<Ticket> {
        match Arc::clone(&self.inside).try_acquire_owned() {
            Ok(permit) => Some(Ticket(permit)),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    /// Waits for a place, first come first served; none when that took too long.
    pub(crate) async fn place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        timeout(self.limits.connect, self.places.acquire()).await.ok()?.ok()
    }
}
