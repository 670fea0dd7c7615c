//! The rules of a task's life, as pure functions of the task, the time and the message. It never touches SQL, HTTP or a
//! clock.
//!
//! ```text
//!  submit              lease                    report
//!  ─────> Queued ───────────────> Leased ─────────────────────> Done { reason }
//!           ▲ │                    │ │ │                           ▲
//!           │ └─────── cancel ─────┼─┼─┼───────────────────────────┤
//!           │                      │ │ └ cancel asked: report,     │
//!           │                      │ │   release or lapse ─────────┤
//!           ├─ release ────────────┘ │                             │
//!           └─ lapse, report+retry ──┘   (attempts used up) ───────┘
//! ```

use protocol::lease::Stop;
use protocol::spec::Retry;
use protocol::{KeyId, LeaseId, Outcome, Reason, TaskState, Timestamp, WorkerId};

/// How often a task may be given back before that counts as an attempt.
pub const MAX_FREE_RELEASES: u32 = 10;

/// What the rules know of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Where it is in its life.
    pub state: State,
    /// The newest attempt's label; 0 before the first. It only grows.
    pub attempt: u32,
    /// Attempts that count against `max_attempts`.
    pub counted: u32,
    /// How often it was given back untried.
    pub releases: u32,
    /// When a client asked to cancel it.
    pub cancel_requested_at: Option<Timestamp>,
    /// When the newest attempt was leased.
    pub started_at: Option<Timestamp>,
    /// The newest lease and how it ended, while the task is not leased.
    pub ended: Option<Ended>,
    /// Whether its leases live as long as an agent's.
    pub is_agent: bool,
    /// How many counted attempts it has.
    pub max_attempts: u32,
    /// Which failures are tried again.
    pub retry: Option<Retry>,
}

/// Where a task is, with exactly what is true there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It waits.
    Queued {
        /// What it waits for besides a worker.
        hold: Option<Hold>,
    },
    /// A worker has it.
    Leased(Lease),
    /// Nothing can change it any more.
    Done {
        /// Why it ended.
        reason: Reason,
        /// When.
        at: Timestamp,
    },
}

/// What a queued task waits for besides a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// An instant of the wall clock that the client named.
    NotBefore(Timestamp),
    /// An instant of the timeline, after a failed attempt.
    Backoff(Timestamp),
    /// Its session, in which another task works or goes first.
    Session,
}

/// The right of one worker to one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// The key that took it.
    pub key: KeyId,
    /// The worker that took it.
    pub worker: WorkerId,
    /// When it lapses unless it is renewed.
    pub expires_at: Timestamp,
    /// Whether it was renewed at all: until then the worker may never have heard of it.
    pub is_renewed: bool,
}

/// A lease that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: LeaseId,
    /// The key that took it.
    pub key: KeyId,
    /// The worker that took it.
    pub worker: WorkerId,
    /// How it ended.
    pub how: End,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its worker reported.
    Reported,
    /// Its worker gave the task back.
    Released,
    /// Nobody renewed it in time.
    Lapsed,
}

/// What a verb did to a task's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that a client sees as a state.
    None,
    /// It waits again, because of this.
    Queued(Option<Reason>),
    /// A worker has it.
    Running,
    /// It is done.
    Done(Reason),
}

/// What became of the changes of a workspace that an attempt brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They can be published, or there are none.
    Fine,
    /// A client changed the same paths meanwhile.
    Conflict,
    /// There is no room for them.
    OverQuota,
}

impl Files {
    /// Why the attempt ended, whatever its process did.
    const fn reason(self, outcome: Reason) -> Reason {
        match self {
            Self::Fine => outcome,
            Self::Conflict => Reason::Conflict,
            Self::OverQuota => Reason::Quota,
        }
    }
}

/// Why a verb was refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The lease is not the current one, or belongs to another key.
    #[error("the lease is not the task's current one")]
    LeaseLost,
    /// The task is done.
    #[error("the task is already {0}")]
    AlreadyDone(TaskState),
    /// The task is not waiting.
    #[error("the task is not waiting")]
    NotQueued,
}

/// Who speaks: a lease, and the key that the message came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The lease.
    pub lease: LeaseId,
    /// The key.
    pub key: KeyId,
}

impl Task {
    /// A task that nobody has tried yet.
    #[must_use]
    pub const fn new(is_agent: bool, max_attempts: u32, retry: Option<Retry>) -> Self {
        Self {
            state: State::Queued { hold: None },
            attempt: 0,
            counted: 0,
            releases: 0,
            cancel_requested_at: None,
            started_at: None,
            ended: None,
            is_agent,
            max_attempts,
            retry,
        }
    }

    /// A worker takes the task.
    ///
    /// # Errors
    /// `NotQueued` when it is not there to be taken, or still held.
    pub fn lease(&mut self, now: Timestamp, lease: Lease) -> Result<Change, Rejected> {
        let State::Queued { hold: None } = self.state else { return Err(Rejected::NotQueued) };
        self.attempt += 1;
        self.started_at = Some(now);
        self.state = State::Leased(lease);
        self.ended = None;
        Ok(Change::Running)
    }

    /// The worker extends its lease until `expires_at`.
    ///
    /// # Errors
    /// `LeaseLost` when it is not the current one.
    pub fn renew(&mut self, holder: Holder, expires_at: Timestamp) -> Result<Change, Rejected> {
        let lease = self.current(holder)?;
        lease.expires_at = lease.expires_at.max(expires_at);
        lease.is_renewed = true;
        Ok(Change::None)
    }

    /// The worker says how the attempt ended, and the store what became of its files. A repeat changes nothing and is
    /// accepted.
    ///
    /// # Errors
    /// `LeaseLost` when the lease is not the current one.
    pub fn report(
        &mut self,
        now: Timestamp,
        holder: Holder,
        outcome: &Outcome,
        files: Files,
    ) -> Result<Change, Rejected> {
        if self.is_repeat(holder, End::Reported) {
            return Ok(Change::None);
        }
        self.current(holder)?;
        self.end_lease(End::Reported);
        let reason = files.reason(outcome.reason());
        if self.is_retried(reason) {
            self.counted += 1;
            if self.counted < self.max_attempts && self.cancel_requested_at.is_none() {
                return Ok(self.requeue(self.backoff(now, reason), Some(reason)));
            }
        }
        Ok(self.finish(now, reason))
    }

    /// The worker gives the task back untried. A repeat changes nothing and is accepted.
    ///
    /// # Errors
    /// `LeaseLost` when the lease is not the current one.
    pub fn release(&mut self, now: Timestamp, holder: Holder) -> Result<Change, Rejected> {
        if self.is_repeat(holder, End::Released) {
            return Ok(Change::None);
        }
        self.current(holder)?;
        self.end_lease(End::Released);
        self.releases += 1;
        if self.releases > MAX_FREE_RELEASES {
            return Ok(self.spend_attempt(now));
        }
        Ok(self.requeue_unless_cancelled(now, None))
    }

    /// The lease reached its end unrenewed. Of a lease that still lives, or of none, nothing.
    ///
    /// # Errors
    /// None: it has the shape of the other verbs.
    pub fn lapse(&mut self, now: Timestamp) -> Result<Change, Rejected> {
        match self.state {
            State::Leased(lease) if lease.expires_at <= now => {
                self.end_lease(End::Lapsed);
                // An unrenewed lease may be an answer that was lost on its way: no worker is to blame for it.
                if lease.is_renewed {
                    return Ok(self.spend_attempt(now));
                }
                Ok(self.requeue_unless_cancelled(now, Some(Reason::LeaseLost)))
            }
            State::Queued { .. } | State::Leased(_) | State::Done { .. } => Ok(Change::None),
        }
    }

    /// A client does not want the task any more. Of a running task this is a request that whatever comes next fulfils.
    ///
    /// # Errors
    /// `AlreadyDone`, unless it is done because it was cancelled.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Change, Rejected> {
        match self.state {
            State::Queued { .. } => {
                self.cancel_requested_at = Some(now);
                Ok(self.finish(now, Reason::Cancelled))
            }
            State::Leased(_) => {
                self.cancel_requested_at.get_or_insert(now);
                Ok(Change::None)
            }
            State::Done { reason: Reason::Cancelled, .. } => Ok(Change::None),
            State::Done { reason, .. } => Err(Rejected::AlreadyDone(reason.state())),
        }
    }

    /// What the worker must be told at its next renewal.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        self.cancel_requested_at.map(|_| Stop::Cancel)
    }

    /// What a client sees of the state.
    #[must_use]
    pub fn visible(&self) -> TaskState {
        match self.state {
            State::Queued { .. } => TaskState::Queued,
            State::Leased(_) => TaskState::Running,
            State::Done { reason, .. } => reason.state(),
        }
    }

    /// The current lease, if this holder has it.
    ///
    /// # Errors
    /// `LeaseLost` when it does not.
    pub fn current(&mut self, holder: Holder) -> Result<&mut Lease, Rejected> {
        match &mut self.state {
            State::Leased(lease) if lease.id == holder.lease && lease.key == holder.key => Ok(lease),
            State::Queued { .. } | State::Leased(_) | State::Done { .. } => Err(Rejected::LeaseLost),
        }
    }

    fn is_repeat(&self, holder: Holder, end: End) -> bool {
        self.ended.is_some_and(|ended| ended.id == holder.lease && ended.key == holder.key && ended.how == end)
    }

    fn end_lease(&mut self, how: End) {
        if let State::Leased(Lease { id, key, worker, .. }) = self.state {
            self.ended = Some(Ended { id, key, worker, how });
        }
    }

    fn is_retried(&self, reason: Reason) -> bool {
        matches!(reason, Reason::SetupFailed | Reason::ConfinementUnavailable)
            || self.retry.as_ref().is_some_and(|retry| retry.on.contains(&reason))
    }

    fn backoff(&self, now: Timestamp, reason: Reason) -> Option<Hold> {
        let retry = self.retry.as_ref().filter(|retry| retry.backoff_s > 0 && retry.on.contains(&reason))?;
        Some(Hold::Backoff(now.plus_s(retry.backoff_s.into())))
    }

    fn spend_attempt(&mut self, now: Timestamp) -> Change {
        self.counted += 1;
        if self.counted < self.max_attempts {
            return self.requeue_unless_cancelled(now, Some(Reason::LeaseLost));
        }
        self.finish(now, Reason::LeaseLost)
    }

    fn requeue_unless_cancelled(&mut self, now: Timestamp, reason: Option<Reason>) -> Change {
        if self.cancel_requested_at.is_some() {
            self.finish(now, Reason::Cancelled)
        } else {
            self.requeue(None, reason)
        }
    }

    fn requeue(&mut self, hold: Option<Hold>, reason: Option<Reason>) -> Change {
        self.state = State::Queued { hold };
        Change::Queued(reason)
    }

    /// Whatever ends a task that someone asked to cancel ends it cancelled.
    fn finish(&mut self, now: Timestamp, reason: Reason) -> Change {
        let reason = if self.cancel_requested_at.is_some() { Reason::Cancelled } else { reason };
        self.state = State::Done { reason, at: now };
        Change::Done(reason)
    }
}

#[cfg(test)]
mod tests;
