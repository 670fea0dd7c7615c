//! The verbs of the queue in the product's language: each asks the store, then wakes whoever waited for it.

use std::sync::Arc;
use std::time::Duration;

use protocol::lease::{LeaseEnded, LeaseGrant, LeaseRequest, MAX_LEASE_WAIT_S, Renewed};
use protocol::spec::{Run, Spec};
use protocol::why::Why;
use protocol::{KeyId, LeaseId, RepoName, Report, TaskId, WorkerEvent, WorkerState};
use tokio::time::{Instant, timeout_at};

use crate::clock::Clock;
use crate::lifecycle::{Change, Holder, State, Task};
use crate::objects::Objects;
use crate::shutdown::Shutdown;
use crate::store::{
    Appended, Ask, Durability, Idempotency, NewTask, Notice, SessionRules, Store, StoreError, StoredTask, Target, Ttls,
    Updated,
};
use crate::uploads::Uploading;
use crate::wakeup::Wakeup;
use crate::why;
use crate::workers::Workers;
use crate::workspace::{Overlays, SessionsUsed};

/// The queue, with everything that its verbs touch.
pub struct Queue {
    /// Where tasks are kept.
    pub store: Store,
    /// Where the files of tasks are kept.
    pub objects: Objects,
    /// Which leases upload right now.
    pub uploading: Uploading,
    /// Bytes of files that one lease may upload.
    pub artifacts_limit: u64,
    /// What holds for sessions that say nothing else.
    pub rules: Arc<SessionRules>,
    /// What the operator lays over every workspace.
    pub overlays: Overlays,
    /// When sessions were used that nobody has written down yet.
    pub sessions_used: SessionsUsed,
    /// What time it is.
    pub clock: Clock,
    /// Who waits.
    pub wakeup: Wakeup,
    /// Who was heard of.
    pub workers: Workers,
    /// How long leases live.
    pub ttls: Ttls,
    /// The agent that a bare prompt goes to when its repo names none.
    pub default_agent: String,
    /// Hears when to stop.
    pub shutdown: Shutdown,
}

type Result<T> = std::result::Result<T, StoreError>;

impl Queue {
    /// Keeps a task and wakes a worker for it.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn submit(&self, spec: Spec, idempotency: Option<Idempotency>) -> Result<StoredTask> {
        self.submit_if(spec, idempotency, false).await
    }

    /// Keeps a task whose session is free, and wakes a worker for it.
    ///
    /// # Errors
    /// `Busy`, or see `StoreError`.
    pub async fn submit_if_free(&self, spec: Spec) -> Result<StoredTask> {
        self.submit_if(spec, None, true).await
    }

    async fn submit_if(
        &self,
        mut spec: Spec,
        idempotency: Option<Idempotency>,
        only_if_free: bool,
    ) -> Result<StoredTask> {
        self.name_agent(&mut spec).await?;
        let now = self.clock.now();
        let id = TaskId::new(now.at.as_ms().unsigned_abs(), random());
        let submitted =
            self.store.submit(NewTask { id, spec, idempotency, rules: self.rules.clone(), only_if_free }, now).await?;
        self.wakeup.feed_changed();
        self.wake(&submitted.notices);
        Ok(*submitted.first_answer)
    }

    /// A bare prompt goes to the repo's agent, else to the coordinator's default.
    async fn name_agent(&self, spec: &mut Spec) -> Result<()> {
        if let Run::Agent { agent: agent @ None, .. } = &mut spec.run {
            let repo = self.store.repo(spec.repo.clone()).await?;
            *agent = Some(repo.agent.unwrap_or_else(|| self.default_agent.clone()));
        }
        Ok(())
    }

    /// Gives a worker its next task, if need be after a wait. None when the wait ran out, or when the worker is not welcome
    /// any more.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn lease(
        &self,
        request: LeaseRequest,
        key: KeyId,
        is_welcome: impl Fn() -> bool,
    ) -> Result<Option<LeaseGrant>> {
        self.workers.seen(&request, key, self.clock.now().at)?;
        if request.worker.state != WorkerState::Ready {
            return Ok(None);
        }
        let deadline = Instant::now() + Duration::from_secs(request.wait_s.min(MAX_LEASE_WAIT_S).into());
        let parked = self.wakeup.park(&request.worker, &request.repos);
        loop {
            if self.shutdown.is_requested() || !is_welcome() {
                return Ok(None);
            }
            let woken_for = parked.look_again();
            if let Some(grant) = self.try_lease(&request, key).await? {
                self.pass_on(woken_for, grant.task);
                return Ok(Some(grant));
            }
            let woken = async {
                tokio::select! { () = parked.woken() => {} () = self.shutdown.requested() => {} }
            };
            if timeout_at(deadline, woken).await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn try_lease(&self, request: &LeaseRequest, key: KeyId) -> Result<Option<LeaseGrant>> {
        let now = self.clock.now();
        let ask = Ask {
            worker: request.worker.clone(),
            repos: request.repos.clone(),
            key,
            lease: LeaseId::new(now.at.as_ms().unsigned_abs(), random()),
            ttls: self.ttls,
        };
        let leased = self.store.lease(ask, now).await?;
        if let Some(leased) = &leased {
            self.changed(leased.grant.task);
        }
        Ok(leased.map(|leased| leased.grant))
    }

    /// A worker that was woken for one task and took another leaves the first to the next in line.
    fn pass_on(&self, woken_for: Option<Notice>, taken: TaskId) {
        if let Some(notice) = woken_for.filter(|notice| notice.task != Some(taken)) {
            self.wakeup.task_ready(&notice);
        }
    }

    /// Extends a lease at once, then waits to tell the worker that it must stop.
    ///
    /// # Errors
    /// `LeaseLost`, or see `StoreError`.
    pub async fn renew(&self, holder: Holder, wait_s: u32) -> Result<Renewed> {
        let renewed = self.extend(holder).await?;
        let ttl_s = self.ttls.renewed_s(renewed.task.is_agent);
        let wait_s = wait_s.min(ttl_s / 3);
        let stop = match renewed.task.stop() {
            None if wait_s > 0 => self.hold_until_stop(holder, renewed.id, wait_s).await?,
            stop => stop,
        };
        Ok(Renewed { ttl_s, stop })
    }

    async fn extend(&self, holder: Holder) -> Result<Updated> {
        let now = self.clock.now();
        let ttls = self.ttls;
        let verb = move |task: &mut Task| task.renew(holder, now.at.plus_s(ttls.renewed_s(task.is_agent).into()));
        let updated = self.store.update(Target::Lease(holder), Durability::Process, now, verb).await?;
        self.heard_of(&updated.task);
        Ok(updated)
    }

    fn heard_of(&self, task: &Task) {
        if let State::Leased(lease) = task.state {
            self.workers.heard_of(lease.worker, self.clock.now().at);
        }
    }

    /// Waits until the task must stop, its lease is lost, or the wait is over.
    async fn hold_until_stop(&self, holder: Holder, task: TaskId, wait_s: u32) -> Result<Option<protocol::Stop>> {
        let deadline = Instant::now() + Duration::from_secs(wait_s.into());
        let mut watch = self.wakeup.watch(task);
        loop {
            let look = move |task: &mut Task| task.current(holder).map(|_| Change::None);
            let seen = self.store.update(Target::Lease(holder), Durability::Process, self.clock.now(), look).await?;
            if let Some(stop) = seen.task.stop() {
                return Ok(Some(stop));
            }
            let woken = async {
                tokio::select! { () = watch.state_changed() => false, () = self.shutdown.requested() => true }
            };
            match timeout_at(deadline, woken).await {
                Ok(false) => {}
                Ok(true) | Err(_) => return Ok(None),
            }
        }
    }

    /// Keeps the events of a lease.
    ///
    /// # Errors
    /// `LeaseLost`, `EventGap`, or see `StoreError`.
    pub async fn append(&self, holder: Holder, events: Vec<WorkerEvent>) -> Result<Appended> {
        let appended = self.store.append(holder, events, self.clock.now()).await?;
        self.wakeup.task_told(appended.task);
        Ok(appended)
    }

    /// Ends an attempt.
    ///
    /// # Errors
    /// `LeaseLost`, `EventGap`, or see `StoreError`.
    pub async fn report(&self, holder: Holder, report: Report) -> Result<LeaseEnded> {
        let now = self.clock.now();
        let updated = self.store.report(holder, Box::new(report), self.rules.clone(), now).await?;
        self.announce(&updated);
        Ok(LeaseEnded { task: updated.id, lease: holder.lease })
    }

    /// Puts a task back untried.
    ///
    /// # Errors
    /// `LeaseLost`, or see `StoreError`.
    pub async fn release(&self, holder: Holder) -> Result<LeaseEnded> {
        let now = self.clock.now();
        let verb = move |task: &mut Task| task.release(now.at, holder);
        let updated = self.store.update(Target::Lease(holder), Durability::Process, now, verb).await?;
        self.announce(&updated);
        Ok(LeaseEnded { task: updated.id, lease: holder.lease })
    }

    /// Cancels a task, or asks its worker to stop it.
    ///
    /// # Errors
    /// `AlreadyDone`, or see `StoreError`.
    pub async fn cancel(&self, id: TaskId) -> Result<()> {
        let now = self.clock.now();
        let verb = move |task: &mut Task| task.cancel(now.at);
        let updated = self.store.update(Target::Task(id), Durability::Power, now, verb).await?;
        self.announce(&updated);
        Ok(())
    }

    /// A task, if need be after a wait for its end.
    ///
    /// # Errors
    /// `NotFound`, or see `StoreError`.
    pub async fn task(&self, id: TaskId, wait_s: u32) -> Result<StoredTask> {
        let deadline = Instant::now() + Duration::from_secs(wait_s.into());
        let mut watch = self.wakeup.watch(id);
        loop {
            let task = self.store.task(id).await?.ok_or(StoreError::NotFound)?;
            if wait_s == 0 || task.row.state.is_done() || self.shutdown.is_requested() {
                return Ok(task);
            }
            let woken = async {
                tokio::select! { () = watch.state_changed() => {} () = self.shutdown.requested() => {} }
            };
            if timeout_at(deadline, woken).await.is_err() {
                return Ok(task);
            }
        }
    }

    /// Why a task is where it is.
    ///
    /// # Errors
    /// `NotFound`, or see `StoreError`.
    pub async fn why(&self, id: TaskId) -> Result<Why> {
        let facts = self.store.waiting(id).await?;
        let now = self.clock.now();
        Ok(why::explain(&facts, &self.workers.views(&self.store.running_workers().await?, now.at), now))
    }

    /// Wakes every worker that could take something that is ready in these repos: nobody knows how many tasks there are.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn wake_for(&self, repos: Vec<RepoName>) -> Result<()> {
        for notice in self.store.ready(repos).await? {
            while self.wakeup.task_ready(&notice) {}
        }
        Ok(())
    }

    /// Lapses leases and lets go of holds until none is due.
    ///
    /// # Errors
    /// See `StoreError`.
    pub async fn tend(&self) -> Result<()> {
        loop {
            let kept = self.store.tend(self.clock.now()).await?;
            kept.changed.iter().for_each(|task| self.changed(*task));
            self.wake(&kept.notices);
            if !kept.is_partial {
                return Ok(());
            }
        }
    }

    fn announce(&self, updated: &Updated) {
        if updated.has_changed {
            self.changed(updated.id);
        }
        self.wake(&updated.notices);
    }

    fn changed(&self, task: TaskId) {
        self.wakeup.task_changed(task);
        self.wakeup.feed_changed();
    }

    fn wake(&self, notices: &[Notice]) {
        for notice in notices {
            self.wakeup.task_ready(notice);
        }
    }
}

/// Random bits for an id. Ids are names, not secrets, and 80 bits of time and chance never meet twice.
pub(crate) fn random() -> u128 {
    let mut bytes = [0u8; 16];
    // cannot fail: the kernel's source is ready long before this program starts; a repeated id would be refused as a duplicate.
    let _ = getrandom::fill(&mut bytes);
    u128::from_le_bytes(bytes)
}
