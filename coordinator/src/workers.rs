//! The workers that were heard of: kept in memory, because every lease request says it all again, and saved now and then so
//! that a restarted coordinator still knows whom it has not heard of.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::admin::WorkerView;
use protocol::{RepoName, Timestamp, WorkerId, WorkerInfo, WorkerState};

use crate::store::StoredWorker;

/// A worker that was not heard of for so long is gone: it polls each minute, and renews more often.
const GONE_AFTER_MS: i64 = 90_000;
/// Workers that are remembered at most; a hostile one could invent any number.
const MAX_WORKERS: usize = 10_000;

/// Everyone who was heard of.
#[derive(Default)]
pub struct Workers(Mutex<HashMap<WorkerId, Known>>);

struct Known {
    worker: StoredWorker,
    is_saved: bool,
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over who was known before a restart.
    pub fn remember(&self, workers: Vec<StoredWorker>) {
        let mut known = self.lock();
        for worker in workers {
            known.insert(worker.info.id, Known { worker, is_saved: true });
        }
    }

    /// A worker asked for work, and said who it is.
    pub fn seen(&self, info: &WorkerInfo, repos: &[RepoName], now: Timestamp) {
        let mut known = self.lock();
        if known.len() >= MAX_WORKERS && !known.contains_key(&info.id) {
            forget_oldest(&mut known);
        }
        let worker = StoredWorker { info: info.clone(), repos: repos.to_vec(), last_seen_at: now };
        known.insert(info.id, Known { worker, is_saved: false });
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
        let known = self.lock();
        let mut views: Vec<_> = known.values().map(|known| view(&known.worker, running, now)).collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.id));
        views
    }
}

fn forget_oldest(known: &mut HashMap<WorkerId, Known>) {
    let oldest = known.values().min_by_key(|known| known.worker.last_seen_at).map(|known| known.worker.info.id);
    if let Some(oldest) = oldest {
        known.remove(&oldest);
    }
}

fn view(worker: &StoredWorker, running: &[WorkerId], now: Timestamp) -> WorkerView {
    let info = &worker.info;
    let silent_ms = now.ms_since(worker.last_seen_at);
    let (state, why) = match info.state {
        WorkerState::Gone => (WorkerState::Gone, info.why.clone()),
        WorkerState::Ready | WorkerState::Draining if silent_ms > GONE_AFTER_MS => {
            (WorkerState::Gone, Some(format!("not heard of for {} s", silent_ms / 1000)))
        }
        state @ (WorkerState::Ready | WorkerState::Draining) => (state, info.why.clone()),
    };
    let running = running.iter().filter(|id| **id == info.id).count();
    WorkerView {
        id: info.id,
        repos: worker.repos.clone(),
        version: info.version.clone(),
        slots: info.slots,
        running: u32::try_from(running).unwrap_or(u32::MAX),
        runs: info.runs.clone(),
        confinement: info.confinement.clone(),
        last_seen_at: worker.last_seen_at,
        state,
        why,
    }
}
