//! Which slot an attempt has: a number that no other attempt has at the time. As root, it decides the attempt's user.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The numbers in use.
#[derive(Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<BTreeSet<u32>>>);

impl Slots {
    /// Takes the lowest free number, until it is dropped.
    pub(crate) fn take(&self) -> Slot {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|number| !used.contains(number)).unwrap_or(0);
        used.insert(number);
        Slot { slots: Arc::clone(&self.0), number }
    }
}

/// One slot, taken.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Mutex<BTreeSet<u32>>>,
    pub(crate) number: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
