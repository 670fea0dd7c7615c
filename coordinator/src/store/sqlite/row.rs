//! A row of `tasks` as a value, both ways. What the columns mean is written here and in the schema, nowhere else.

use protocol::spec::Priority;
use protocol::{KeyId, LeaseId, Reason, RepoName, TaskId, TaskRow, Timestamp, WorkerId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::lifecycle::{End, Ended, Hold, Lease, State, Task};
use crate::store::types::StoreError;

/// A task with what the store needs to know of it.
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) repo: i64,
    pub(super) priority: Priority,
    pub(super) needs: String,
    pub(super) session: Option<String>,
    pub(super) writes: bool,
    pub(super) event_budget: u64,
    pub(super) events: u64,
    pub(super) lease_events: u64,
    pub(super) lease_event_bytes: u64,
    pub(super) created_at: Timestamp,
    pub(super) task: Task,
}

macro_rules! columns {
    () => {
        "seq, tasks.id, repo, priority, needs, is_agent, session, writes, max_attempts, retry, event_budget, state, hold, \
         hold_until, attempt, counted, releases, lease, lease_key, worker, lease_end, lease_expires_at, lease_renewed, \
         events, lease_events, lease_event_bytes, created_at, started_at, cancel_requested_at, finished_at, reason"
    };
}

const BY_SEQ: &str = concat!("SELECT ", columns!(), " FROM tasks WHERE seq = ?1");
const BY_ID: &str = concat!("SELECT ", columns!(), " FROM tasks WHERE id = ?1");
const BY_LEASE: &str = concat!("SELECT ", columns!(), " FROM tasks WHERE lease = ?1");

/// What a client sees of a task: its row with the repo's name and the labels' spec.
pub(super) const VISIBLE: &str = concat!(
    "SELECT ",
    columns!(),
    ", repos.name, brief FROM tasks JOIN repos ON repos.id = repo \
     JOIN specs ON specs.task = seq"
);

/// Finds a task by its place.
pub(super) fn by_seq(db: &Connection, seq: i64) -> Result<Option<Stored>, StoreError> {
    Ok(db.prepare_cached(BY_SEQ)?.query_row([seq], Stored::read).optional()?)
}

/// Finds a task by its id.
pub(super) fn by_id(db: &Connection, id: TaskId) -> Result<Option<Stored>, StoreError> {
    Ok(db.prepare_cached(BY_ID)?.query_row([id.to_bytes()], Stored::read).optional()?)
}

/// Finds the task whose newest lease this is.
pub(super) fn by_lease(db: &Connection, lease: LeaseId) -> Result<Option<Stored>, StoreError> {
    Ok(db.prepare_cached(BY_LEASE)?.query_row([lease.to_bytes()], Stored::read).optional()?)
}

impl Stored {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let retry: Option<String> = row.get("retry")?;
        let retry = retry.map(|json| serde_json::from_str(&json)).transpose().map_err(unreadable)?;
        let task = Task {
            state: read_state(row)?,
            attempt: row.get("attempt")?,
            counted: row.get("counted")?,
            releases: row.get("releases")?,
            cancel_requested_at: instant(row, "cancel_requested_at")?,
            started_at: instant(row, "started_at")?,
            ended: read_ended(row)?,
            is_agent: row.get("is_agent")?,
            max_attempts: row.get("max_attempts")?,
            retry,
        };
        Ok(Self {
            seq: row.get("seq")?,
            id: TaskId::from_bytes(row.get("id")?),
            repo: row.get("repo")?,
            priority: read_priority(row.get("priority")?)?,
            needs: row.get("needs")?,
            session: row.get("session")?,
            writes: row.get("writes")?,
            event_budget: count(row, "event_budget")?,
            events: count(row, "events")?,
            lease_events: count(row, "lease_events")?,
            lease_event_bytes: count(row, "lease_event_bytes")?,
            created_at: Timestamp::from_ms(row.get("created_at")?),
            task,
        })
    }

    /// The newest worker, whether it still has the task or not.
    pub(super) fn worker(&self) -> Option<WorkerId> {
        match self.task.state {
            State::Leased(lease) => Some(lease.worker),
            State::Queued { .. } | State::Done { .. } => self.task.ended.map(|ended| ended.worker),
        }
    }

    /// Writes everything that a verb may have changed.
    pub(super) fn save(&self, db: &Connection) -> Result<(), StoreError> {
        let (hold, hold_until) = hold_columns(&self.task.state);
        let lease = LeaseColumns::of(&self.task);
        let (reason, finished_at) = match self.task.state {
            State::Done { reason, at } => (Some(reason.as_str()), Some(at.as_ms())),
            State::Queued { .. } | State::Leased(_) => (None, None),
        };
        db.prepare_cached(
            "UPDATE tasks SET state = :state, hold = :hold, hold_until = :hold_until, attempt = :attempt, counted = :counted, \
             releases = :releases, lease = :lease, lease_key = :key, worker = :worker, lease_end = :end, \
             lease_expires_at = :expires, lease_renewed = :renewed, events = :events, lease_events = :lease_events, \
             lease_event_bytes = :bytes, started_at = :started, cancel_requested_at = :cancel, finished_at = :finished, \
             reason = :reason WHERE seq = :seq",
        )?
        .execute(named_params! {
            ":state": state_column(&self.task.state), ":hold": hold, ":hold_until": hold_until,
            ":attempt": self.task.attempt, ":counted": self.task.counted, ":releases": self.task.releases,
            ":lease": lease.id, ":key": lease.key, ":worker": lease.worker, ":end": lease.end,
            ":expires": lease.expires_at, ":renewed": lease.is_renewed, ":events": self.events.cast_signed(),
            ":lease_events": self.lease_events.cast_signed(), ":bytes": self.lease_event_bytes.cast_signed(),
            ":started": self.task.started_at.map(Timestamp::as_ms),
            ":cancel": self.task.cancel_requested_at.map(Timestamp::as_ms), ":finished": finished_at,
            ":reason": reason, ":seq": self.seq,
        })?;
        Ok(())
    }

    /// Writes only what a renewal changes: it is the most frequent write of all.
    pub(super) fn save_renewal(&self, db: &Connection) -> Result<(), StoreError> {
        let lease = LeaseColumns::of(&self.task);
        db.prepare_cached("UPDATE tasks SET lease_expires_at = ?1, lease_renewed = ?2 WHERE seq = ?3")?.execute((
            lease.expires_at,
            lease.is_renewed,
            self.seq,
        ))?;
        Ok(())
    }

    /// Writes only how many events there are.
    pub(super) fn save_events(&self, db: &Connection) -> Result<(), StoreError> {
        db.prepare_cached("UPDATE tasks SET events = ?1, lease_events = ?2, lease_event_bytes = ?3 WHERE seq = ?4")?
            .execute((
                self.events.cast_signed(),
                self.lease_events.cast_signed(),
                self.lease_event_bytes.cast_signed(),
                self.seq,
            ))?;
        Ok(())
    }

    /// What a client sees of it.
    pub(super) fn visible(&self, repo: RepoName, brief: &protocol::Spec) -> TaskRow {
        let (reason, finished_at) = match self.task.state {
            State::Done { reason, at } => (Some(reason), Some(at)),
            State::Queued { .. } | State::Leased(_) => (None, None),
        };
        TaskRow {
            id: self.id,
            repo,
            state: self.task.visible(),
            reason,
            priority: self.priority,
            attempt: self.task.attempt,
            max_attempts: self.task.max_attempts,
            session: brief.session.clone(),
            labels: brief.labels.clone(),
            worker: self.worker(),
            created_at: self.created_at,
            started_at: self.task.started_at,
            finished_at,
            cancel_requested_at: self.task.cancel_requested_at,
        }
    }
}

/// The columns of the newest lease, whether it lives or not.
struct LeaseColumns {
    id: Option<[u8; 16]>,
    key: Option<[u8; 16]>,
    worker: Option<[u8; 16]>,
    end: Option<i64>,
    expires_at: Option<i64>,
    is_renewed: bool,
}

impl LeaseColumns {
    fn of(task: &Task) -> Self {
        if let State::Leased(lease) = task.state {
            return Self {
                id: Some(lease.id.to_bytes()),
                key: Some(lease.key.to_bytes()),
                worker: Some(lease.worker.to_bytes()),
                end: None,
                expires_at: Some(lease.expires_at.as_ms()),
                is_renewed: lease.is_renewed,
            };
        }
        let ended = task.ended;
        Self {
            id: ended.map(|ended| ended.id.to_bytes()),
            key: ended.map(|ended| ended.key.to_bytes()),
            worker: ended.map(|ended| ended.worker.to_bytes()),
            end: ended.map(|ended| end_column(ended.how)),
            expires_at: None,
            is_renewed: false,
        }
    }
}

fn read_state(row: &Row<'_>) -> rusqlite::Result<State> {
    Ok(match row.get::<_, i64>("state")? {
        0 => State::Queued { hold: read_hold(row)? },
        1 => State::Leased(Lease {
            id: LeaseId::from_bytes(row.get("lease")?),
            key: KeyId::from_bytes(row.get("lease_key")?),
            worker: WorkerId::from_bytes(row.get("worker")?),
            expires_at: Timestamp::from_ms(row.get("lease_expires_at")?),
            is_renewed: row.get("lease_renewed")?,
        }),
        2 => State::Done { reason: row.get::<_, Word>("reason")?.0, at: Timestamp::from_ms(row.get("finished_at")?) },
        other => return Err(out_of_range(other)),
    })
}

fn read_hold(row: &Row<'_>) -> rusqlite::Result<Option<Hold>> {
    let until = || row.get("hold_until").map(Timestamp::from_ms);
    Ok(match row.get::<_, Option<i64>>("hold")? {
        None => None,
        Some(0) => Some(Hold::NotBefore(until()?)),
        Some(1) => Some(Hold::Backoff(until()?)),
        Some(2) => Some(Hold::Session),
        Some(other) => return Err(out_of_range(other)),
    })
}

/// The columns of a hold.
pub(super) fn hold_columns(state: &State) -> (Option<i64>, Option<i64>) {
    match state {
        State::Queued { hold: Some(Hold::NotBefore(at)) } => (Some(0), Some(at.as_ms())),
        State::Queued { hold: Some(Hold::Backoff(at)) } => (Some(1), Some(at.as_ms())),
        State::Queued { hold: Some(Hold::Session) } => (Some(2), None),
        State::Queued { hold: None } | State::Leased(_) | State::Done { .. } => (None, None),
    }
}

fn read_ended(row: &Row<'_>) -> rusqlite::Result<Option<Ended>> {
    let Some(end) = row.get::<_, Option<i64>>("lease_end")? else { return Ok(None) };
    let how = match end {
        0 => End::Reported,
        1 => End::Released,
        2 => End::Lapsed,
        other => return Err(out_of_range(other)),
    };
    Ok(Some(Ended {
        id: LeaseId::from_bytes(row.get("lease")?),
        key: KeyId::from_bytes(row.get("lease_key")?),
        worker: WorkerId::from_bytes(row.get("worker")?),
        how,
    }))
}

const fn end_column(end: End) -> i64 {
    match end {
        End::Reported => 0,
        End::Released => 1,
        End::Lapsed => 2,
    }
}

/// The column of a state.
pub(super) const fn state_column(state: &State) -> i64 {
    match state {
        State::Queued { .. } => 0,
        State::Leased(_) => 1,
        State::Done { .. } => 2,
    }
}

/// The column of a priority.
pub(super) const fn priority_column(priority: Priority) -> i64 {
    match priority {
        Priority::Critical => 0,
        Priority::High => 1,
        Priority::Normal => 2,
        Priority::Low => 3,
    }
}

fn read_priority(column: i64) -> rusqlite::Result<Priority> {
    Priority::ALL.into_iter().find(|known| priority_column(*known) == column).ok_or_else(|| out_of_range(column))
}

fn instant(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_ms))
}

fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| out_of_range(value))
}

/// A reason, read by its word.
struct Word(Reason);

impl FromSql for Word {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Reason::from_word(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
    }
}

fn out_of_range(value: i64) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        0,
        rusqlite::types::Type::Integer,
        format!("{value} is out of range").into(),
    )
}

fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}
