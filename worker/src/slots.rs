//! Which slot an attempt has: a number that no other attempt has at the time. As root, it decides the attempt's user.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

use crate::confinement::limits::DEFAULT_PIDS;

/// Processes and threads of ours beside each task, and of the worker.
const STAGES: u64 = 16;

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
    /// Takes this number if it is free, else the lowest that is, until it is dropped.
    pub(crate) fn take(&self, wanted: Option<u32>) -> Slot {
        let mut used = self.0.lock();
        let number = wanted.into_iter().chain(0..).find(|number| !used.contains(number)).unwrap_or(0);
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

/// Says so when this user may have too few processes: without root, tasks of all slots count with the worker's own.
pub(crate) fn warn_of_few_processes(slots: u32) {
    let limit = getrlimit(Resource::Nproc);
    // What is given away here is only what the user may take anyway.
    let _ = setrlimit(Resource::Nproc, Rlimit { current: limit.maximum, ..limit });
    let wanted = u64::from(slots) * (u64::from(DEFAULT_PIDS) + STAGES) + STAGES;
    if let (false, Some(few)) = (getuid().is_root(), limit.maximum.filter(|most| *most < wanted)) {
        tracing::warn!(
            "this user may have {few} processes (ulimit -u): one task may leave too few for {slots} at a time; \
             {wanted} would do, or fewer --slots"
        );
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
