//! Which slot an attempt has: a number that no other attempt has at the time. As root, it decides the attempt's user.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The numbers in use.
#[derive(Debug, Default)]
pub(crate) struct Slots(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    used: Mutex<BTreeSet<u32>>,
    freed: Notify,
}

impl Numbers {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Takes the lowest free number, until it is dropped.
    pub(crate) fn take(&self) -> Slot {
        let mut used = self.0.lock();
        let number = (0..).find(|number| !used.contains(number)).unwrap_or(0);
        used.insert(number);
        Slot { numbers: Arc::clone(&self.0), number }
    }

    /// Whether an attempt has this number.
    pub(crate) fn is_taken(&self, number: u32) -> bool {
        self.0.lock().contains(&number)
    }

    /// Waits until a number was given back. One waits at a time; what happens between two waits is not missed.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

/// One slot, taken.
#[derive(Debug)]
pub(crate) struct Slot {
    numbers: Arc<Numbers>,
    pub(crate) number: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.numbers.lock().remove(&self.number);
        self.numbers.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
