//! The workers that were heard of: kept in memory, because every lease request says it all again, and saved now and then so
//! that a restarted coordinator still knows whom it has not heard of.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::admin::WorkerView;
use protocol::{KeyId, LeaseRequest, Timestamp, WorkerId, WorkerState};

use crate::store::StoredWorker;

/// A worker that was not heard of for so long is gone: it polls each minute, and renews more often.
const GONE_AFTER_MS: i64 = 90_000;
/// Workers of one key that are remembered at most; a hostile one could invent any number.
const MAX_OF_KEY: usize = 256;

/// Everyone who was heard of.
#[derive(Default)]
pub struct Workers(Mutex<HashMap<WorkerId, Known>>);

struct Known {
    worker: StoredWorker,
    /// The key that first spoke for it; none after a restart, until one does.
    key: Option<KeyId>,
    is_saved: bool,
}

/// A worker's id that another key spoke for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this worker's id is used with another key")]
pub struct NotItsKey;

impl Workers {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over who was known before a restart.
    pub fn remember(&self, workers: Vec<StoredWorker>) {
        let mut known = self.lock();
        for worker in workers {
            known.insert(worker.info.id, Known { worker, key: None, is_saved: true });
        }
    }

    /// A worker asked for work, and said who it is.
    ///
    /// # Errors
    /// When the id is another's: nobody may speak for a worker but with its key.
    pub fn seen(&self, request: &LeaseRequest, key: KeyId, now: Timestamp) -> Result<(), NotItsKey> {
        let mut known = self.lock();
        let info = &request.worker;
        match known.get(&info.id) {
            Some(other) if other.key.is_some_and(|first| first != key) => return Err(NotItsKey),
            Some(_) => {}
            None => forget_oldest(&mut known, key),
        }
        let worker = StoredWorker { info: info.clone(), repos: request.repos.clone(), last_seen_at: now };
        known.insert(info.id, Known { worker, key: Some(key), is_saved: false });
        Ok(())
    }

    /// A worker spoke of one of its leases.
    pub fn heard_of(&self, id: WorkerId, now: Timestamp) {
        if let Some(known) = self.lock().get_mut(&id) {
            known.worker.last_seen_at = now;
            known.is_saved = false;
        }
    }

    /// Those who changed since the last time.
    pub fn take_unsaved(&self) -> Vec<StoredWorker> {
        let mut known = self.lock();
        let unsaved = known.values_mut().filter(|known| !known.is_saved);
        unsaved
            .map(|known| {
                known.is_saved = true;
                known.worker.clone()
            })
            .collect()
    }

    /// All of them as an operator sees them, newest first, with how many attempts each has.
    pub fn views(&self, running: &[WorkerId], now: Timestamp) -> Vec<WorkerView> {
        let mut attempts = HashMap::<WorkerId, u32>::new();
        for worker in running {
            *attempts.entry(*worker).or_default() += 1;
        }
        let known = self.lock();
        let view = |known: &Known| {
            let running = attempts.get(&known.worker.info.id).copied().unwrap_or(0);
            view(&known.worker, running, now)
        };
        let mut views: Vec<_> = known.values().map(view).collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.id));
        views
    }
}

/// Makes room for one more worker of a key.
fn forget_oldest(known: &mut HashMap<WorkerId, Known>, key: KeyId) {
    let of_key = || known.values().filter(|known| known.key == Some(key));
    if of_key().count() < MAX_OF_KEY {
        return;
    }
    if let Some(oldest) = of_key().min_by_key(|known| known.worker.last_seen_at).map(|known| known.worker.info.id) {
        known.remove(&oldest);
    }
}

fn view(worker: &StoredWorker, running: u32, now: Timestamp) -> WorkerView {
    let info = &worker.info;
    let silent_ms = now.ms_since(worker.last_seen_at);
    let (state, why) = match info.state {
        WorkerState::Gone => (WorkerState::Gone, info.why.clone()),
        WorkerState::Ready | WorkerState::Draining if silent_ms > GONE_AFTER_MS => {
            (WorkerState::Gone, Some(format!("not heard of for {} s", silent_ms / 1000)))
        }
        state @ (WorkerState::Ready | WorkerState::Draining) => (state, info.why.clone()),
    };
    WorkerView {
        id: info.id,
        repos: worker.repos.clone(),
        version: info.version.clone(),
        slots: info.slots,
        running,
        runs: info.runs.clone(),
        confinement: info.confinement.clone(),
        last_seen_at: worker.last_seen_at,
        state,
        why,
    }
}

#[cfg(test)]
mod tests;
