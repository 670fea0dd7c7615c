//! Who waits for what. Whoever waits registers first, then asks the store, then waits: a change in between is never missed.
//!
//! A ready task wakes exactly one parked worker that can run it, the one that waited longest. A worker that was woken but
//! took something else, or left, passes the wake-up on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{RepoName, TaskId, WorkerInfo};
use tokio::sync::{Notify, watch};

use crate::store::Notice;

/// Everyone who waits.
#[derive(Default)]
pub struct Wakeup {
    waiters: Mutex<Waiters>,
    tasks: Mutex<HashMap<TaskId, watch::Sender<u64>>>,
    feed: watch::Sender<()>,
}

/// Parked workers in the order in which they came.
#[derive(Default)]
struct Waiters {
    next_ticket: u64,
    parked: BTreeMap<u64, Waiter>,
    by_repo: HashMap<RepoName, Vec<u64>>,
}

struct Waiter {
    repos: Vec<RepoName>,
    worker: WorkerInfo,
    woken_for: Option<Notice>,
    bell: Arc<Notify>,
}

/// A place in the line; leaving it passes an unused wake-up on.
pub struct Parked<'a> {
    wakeup: &'a Wakeup,
    ticket: u64,
    bell: Arc<Notify>,
}

/// Hears of every change of one task. The value counts the changes of its state.
pub struct TaskWatch<'a> {
    wakeup: &'a Wakeup,
    task: TaskId,
    changes: watch::Receiver<u64>,
    seen_states: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeup {
    /// Puts a worker in line.
    pub fn park(&self, worker: &WorkerInfo, repos: &[RepoName]) -> Parked<'_> {
        let bell = Arc::new(Notify::new());
        let mut waiters = lock(&self.waiters);
        let ticket = waiters.next_ticket;
        waiters.next_ticket += 1;
        for repo in repos {
            waiters.by_repo.entry(repo.clone()).or_default().push(ticket);
        }
        let waiter = Waiter { repos: repos.to_vec(), worker: worker.clone(), woken_for: None, bell: bell.clone() };
        waiters.parked.insert(ticket, waiter);
        Parked { wakeup: self, ticket, bell }
    }

    /// A task could be taken now: wakes the first in line that can run it, and says whether there was one.
    pub fn task_ready(&self, notice: &Notice) -> bool {
        let mut waiters = lock(&self.waiters);
        let Waiters { parked, by_repo, .. } = &mut *waiters;
        for ticket in by_repo.get(&notice.repo).into_iter().flatten() {
            let Some(waiter) = parked.get_mut(ticket) else { continue };
            if waiter.woken_for.is_none() && waiter.worker.fits(&notice.needs) {
                waiter.woken_for = Some(notice.clone());
                waiter.bell.notify_one();
                return true;
            }
        }
        false
    }

    /// The repos that parked workers serve.
    pub fn parked_repos(&self) -> Vec<RepoName> {
        lock(&self.waiters).by_repo.keys().cloned().collect()
    }

    /// How many workers are in line.
    pub fn parked(&self) -> usize {
        lock(&self.waiters).parked.len()
    }

    /// Starts to listen for changes of a task.
    pub fn watch(&self, task: TaskId) -> TaskWatch<'_> {
        let changes = lock(&self.tasks).entry(task).or_insert_with(|| watch::channel(0).0).subscribe();
        let seen_states = *changes.borrow();
        TaskWatch { wakeup: self, task, changes, seen_states }
    }

    /// A task changed its state, or was asked to stop.
    pub fn task_changed(&self, task: TaskId) {
        if let Some(changes) = lock(&self.tasks).get(&task) {
            changes.send_modify(|states| *states += 1);
        }
    }

    /// A task has new events.
    pub fn task_told(&self, task: TaskId) {
        if let Some(changes) = lock(&self.tasks).get(&task) {
            changes.send_modify(|_| {});
        }
    }

    /// Starts to listen for the queue-wide feed.
    pub fn watch_feed(&self) -> watch::Receiver<()> {
        self.feed.subscribe()
    }

    /// Some task changed its state.
    pub fn feed_changed(&self) {
        self.feed.send_replace(());
    }
}

impl Parked<'_> {
    /// Waits to be woken.
    pub async fn woken(&self) {
        self.bell.notified().await;
    }

    /// The worker is about to look again: from now on it can be woken again.
    pub fn look_again(&self) -> Option<Notice> {
        lock(&self.wakeup.waiters).parked.get_mut(&self.ticket).and_then(|waiter| waiter.woken_for.take())
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let unused = {
            let mut waiters = lock(&self.wakeup.waiters);
            let Some(waiter) = waiters.parked.remove(&self.ticket) else { return };
            for repo in &waiter.repos {
                leave(&mut waiters.by_repo, repo, self.ticket);
            }
            waiter.woken_for
        };
        if let Some(notice) = unused {
            self.wakeup.task_ready(&notice);
        }
    }
}

fn leave(by_repo: &mut HashMap<RepoName, Vec<u64>>, repo: &RepoName, ticket: u64) {
    if let Some(line) = by_repo.get_mut(repo) {
        // Tickets only grow, so the line is sorted.
        if let Ok(place) = line.binary_search(&ticket) {
            line.remove(place);
        }
        if line.is_empty() {
            by_repo.remove(repo);
        }
    }
}

impl TaskWatch<'_> {
    /// Waits for a change or an event since the last one that was seen, or since the watch began.
    pub async fn changed(&mut self) {
        // The sender lives as long as this watch.
        drop(self.changes.changed().await);
    }

    /// Waits for another state: whoever waits for that alone need not look at every line of output.
    pub async fn state_changed(&mut self) {
        let seen = self.seen_states;
        if let Ok(states) = self.changes.wait_for(|states| *states != seen).await {
            self.seen_states = *states;
        }
    }
}

impl Drop for TaskWatch<'_> {
    fn drop(&mut self) {
        let mut tasks = lock(&self.wakeup.tasks);
        // This watch itself still counts.
        if tasks.get(&self.task).is_some_and(|changes| changes.receiver_count() <= 1) {
            tasks.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests;
