//! A row of `tasks` as a value, both ways. What the columns mean is written here and in the schema, nowhere else.

use protocol::spec::Priority;
use protocol::{KeyId, LeaseId, Reason, RepoName, TaskId, TaskRow, Timestamp, WorkerId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

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
    pub(super) on_success: bool,
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
         events, lease_events, lease_event_bytes, created_at, started_at, cancel_requested_at, finished_at, reason, on_success"
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

/// Reads the columns of a row one after another: to look each up by its name would take longer than everything else.
struct Columns<'row> {
    row: &'row Row<'row>,
    next: usize,
}

impl Columns<'_> {
    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    fn instant(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.map(Timestamp::from_ms))
    }

    fn count(&mut self) -> rusqlite::Result<u64> {
        let value: i64 = self.next()?;
        u64::try_from(value).map_err(|_| out_of_range(value))
    }
}

impl Stored {
    /// Reads `columns!()`, in its order.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let columns = &mut Columns { row, next: 0 };
        let (seq, id, repo) = (columns.next()?, TaskId::from_bytes(columns.next()?), columns.next()?);
        let (priority, needs) = (read_priority(columns.next()?)?, columns.next()?);
        let (is_agent, session, writes) = (columns.next()?, columns.next()?, columns.next()?);
        let (max_attempts, retry, event_budget) =
            (columns.next()?, columns.next::<Option<String>>()?, columns.count()?);
        let (state, hold, hold_until) = (columns.next()?, columns.next()?, columns.instant()?);
        let (attempt, counted, releases) = (columns.next()?, columns.next()?, columns.next()?);
        let lease = LeaseColumns {
            id: columns.next()?,
            key: columns.next()?,
            worker: columns.next()?,
            end: columns.next()?,
            expires_at: columns.next()?,
            is_renewed: columns.next()?,
        };
        let (events, lease_events, lease_event_bytes) = (columns.count()?, columns.count()?, columns.count()?);
        let created_at = Timestamp::from_ms(columns.next()?);
        let (started_at, cancel_requested_at) = (columns.instant()?, columns.instant()?);
        let (finished_at, reason) = (columns.instant()?, columns.next::<Option<Word>>()?);
        let on_success = columns.next()?;
        let state = match state {
            0 => State::Queued { hold: read_hold(hold, hold_until)? },
            1 => State::Leased(lease.live()?),
            2 => State::Done { reason: present(reason)?.0, at: present(finished_at)? },
            other => return Err(out_of_range(other)),
        };
        let retry = retry.map(|json| serde_json::from_str(&json)).transpose().map_err(unreadable)?;
        let ended = lease.ended()?;
        let task = Task {
            state,
            attempt,
            counted,
            releases,
            cancel_requested_at,
            started_at,
            ended,
            is_agent,
            max_attempts,
            retry,
        };
        Ok(Self {
            seq,
            id,
            repo,
            priority,
            needs,
            session,
            writes,
            on_success,
            event_budget,
            events,
            lease_events,
            lease_event_bytes,
            created_at,
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
            "UPDATE tasks SET state = ?2, hold = ?3, hold_until = ?4, attempt = ?5, counted = ?6, releases = ?7, lease = ?8, \
             lease_key = ?9, worker = ?10, lease_end = ?11, lease_expires_at = ?12, lease_renewed = ?13, events = ?14, \
             lease_events = ?15, lease_event_bytes = ?16, started_at = ?17, cancel_requested_at = ?18, finished_at = ?19, \
             reason = ?20 WHERE seq = ?1",
        )?
        .execute(params![
            self.seq,
            state_column(&self.task.state),
            hold,
            hold_until,
            self.task.attempt,
            self.task.counted,
            self.task.releases,
            lease.id,
            lease.key,
            lease.worker,
            lease.end,
            lease.expires_at,
            lease.is_renewed,
            self.events.cast_signed(),
            self.lease_events.cast_signed(),
            self.lease_event_bytes.cast_signed(),
            self.task.started_at.map(Timestamp::as_ms),
            self.task.cancel_requested_at.map(Timestamp::as_ms),
            finished_at,
            reason,
        ])?;
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
    fn live(&self) -> rusqlite::Result<Lease> {
        Ok(Lease {
            id: LeaseId::from_bytes(present(self.id)?),
            key: KeyId::from_bytes(present(self.key)?),
            worker: WorkerId::from_bytes(present(self.worker)?),
            expires_at: Timestamp::from_ms(present(self.expires_at)?),
            is_renewed: self.is_renewed,
        })
    }

    fn ended(&self) -> rusqlite::Result<Option<Ended>> {
        let Some(end) = self.end else { return Ok(None) };
        let how = match end {
            0 => End::Reported,
            1 => End::Released,
            2 => End::Lapsed,
            other => return Err(out_of_range(other)),
        };
        Ok(Some(Ended {
            id: LeaseId::from_bytes(present(self.id)?),
            key: KeyId::from_bytes(present(self.key)?),
            worker: WorkerId::from_bytes(present(self.worker)?),
            how,
        }))
    }

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

fn read_hold(hold: Option<i64>, until: Option<Timestamp>) -> rusqlite::Result<Option<Hold>> {
    Ok(match hold {
        None => None,
        Some(0) => Some(Hold::NotBefore(present(until)?)),
        Some(1) => Some(Hold::Backoff(present(until)?)),
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

/// What a row in this state must have.
fn present<T>(column: Option<T>) -> rusqlite::Result<T> {
    column.ok_or_else(|| out_of_range(0))
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
