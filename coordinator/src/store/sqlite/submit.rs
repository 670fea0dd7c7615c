//! Keeps a new task. A repeated submission finds the first instead.

use protocol::RepoName;
use protocol::spec::{Commit, SessionMode, Spec};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::value::RawValue;

use super::row::{self, Stored, hold_columns, priority_column};
use super::{events, session, workspaces};
use crate::clock::Now;
use crate::lifecycle::{Change, Hold, State, Task};
use crate::store::types::{Idempotency, NewTask, StoreError, StoredTask, Submitted, WorkspaceError};

/// Bytes of events that a lease may add besides its output.
const EVENT_BYTES: u64 = 16 << 20;

/// Keeps the task, or finds the one that the same request made before.
pub(super) fn submit(db: &Connection, new: &NewTask, now: Now) -> Result<Submitted, StoreError> {
    if let Some(idempotency) = &new.idempotency
        && let Some(first) = find_first(db, idempotency)?
    {
        return Ok(Submitted { first_answer: Box::new(first), notices: Vec::new() });
    }
    let repo = repo_id(db, &new.spec.repo)?;
    if let Some(session) = &new.spec.session {
        workspaces::claim(db, session, repo, &new.rules, now)?;
    }
    let mut stored = insert(db, repo, new, now)?;
    if new.only_if_free
        && let Some(holder) = session::holder(db, &stored)?
    {
        return Err(WorkspaceError::Busy { holder }.into());
    }
    let full = insert_spec(db, stored.seq, &new.spec)?;
    if let Some(idempotency) = &new.idempotency {
        remember(db, idempotency, stored.seq, now)?;
    }
    events::add_state(db, &mut stored, Change::Queued(None), now.at)?;
    stored.save_events(db)?;
    let freed = session::settle(db, &stored)?;
    let notices = freed.into_iter().chain(session::notice_if_ready(db, &stored)?).collect();
    let first_answer = StoredTask { row: stored.visible(new.spec.repo.clone(), &new.spec), spec: full, result: None };
    Ok(Submitted { first_answer: Box::new(first_answer), notices })
}

/// The repo's place; it is made by its first use.
pub(super) fn repo_id(db: &Connection, name: &RepoName) -> Result<i64, StoreError> {
    let find = || {
        db.prepare_cached("SELECT id FROM repos WHERE name = ?1")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()
    };
    if let Some(id) = find()? {
        return Ok(id);
    }
    db.prepare_cached("INSERT INTO repos (name) VALUES (?1)")?.execute([name.as_str()])?;
    Ok(db.last_insert_rowid())
}

fn new_task(spec: &Spec) -> Task {
    Task::new(spec.run.is_agent(), spec.max_attempts(), spec.retry.clone())
}

fn insert(db: &Connection, repo: i64, new: &NewTask, now: Now) -> Result<Stored, StoreError> {
    let spec = &new.spec;
    let later = spec.not_before.filter(|at| *at > now.wall).map(Hold::NotBefore);
    let mut stored = Stored {
        seq: 0,
        id: new.id,
        repo,
        priority: spec.priority,
        needs: spec.needs(),
        session: spec.session.as_ref().map(|session| session.as_str().to_owned()),
        writes: spec.session.is_some() && spec.session_mode == SessionMode::Write,
        on_success: spec.commit == Commit::OnSuccess,
        event_budget: 2 * spec.limits.output_bytes() + EVENT_BYTES,
        events: 0,
        lease_events: 0,
        lease_event_bytes: 0,
        created_at: now.at,
        task: new_task(spec),
    };
    stored.task.state = State::Queued { hold: later.or_else(|| session::starts_held(&stored)) };
    insert_row(db, &stored)?;
    stored.seq = db.last_insert_rowid();
    Ok(stored)
}

fn insert_row(db: &Connection, stored: &Stored) -> Result<(), StoreError> {
    let (hold, hold_until) = hold_columns(&stored.task.state);
    let retry = stored.task.retry.as_ref().map(serde_json::to_string).transpose();
    db.prepare_cached(
        "INSERT INTO tasks (id, repo, priority, needs, is_agent, session, writes, max_attempts, retry, event_budget, state, \
         hold, hold_until, created_at, on_success) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        stored.id.to_bytes(),
        stored.repo,
        priority_column(stored.priority),
        stored.needs,
        stored.task.is_agent,
        stored.session,
        stored.writes,
        stored.task.max_attempts,
        retry.map_err(|error| StoreError::Corrupt(error.to_string()))?,
        stored.event_budget.cast_signed(),
        hold,
        hold_until,
        stored.created_at.as_ms(),
        stored.on_success,
    ])?;
    Ok(())
}

/// Writes the spec twice, whole and brief, and the labels that it is found by.
fn insert_spec(db: &Connection, seq: i64, spec: &Spec) -> Result<Box<RawValue>, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
    let full = serde_json::value::to_raw_value(spec).map_err(corrupt)?;
    let brief = serde_json::to_string(&spec.brief()).map_err(corrupt)?;
    db.prepare_cached("INSERT INTO specs (task, brief, full) VALUES (?1, ?2, ?3)")?.execute((
        seq,
        brief,
        full.get(),
    ))?;
    for (name, value) in &spec.labels {
        db.prepare_cached("INSERT INTO labels (name, value, task) VALUES (?1, ?2, ?3)")?.execute((name, value, seq))?;
    }
    Ok(full)
}

fn remember(db: &Connection, idempotency: &Idempotency, seq: i64, now: Now) -> Result<(), StoreError> {
    // An old row may be left of a task that is gone.
    db.prepare_cached(
        "INSERT OR REPLACE INTO idempotency (key, name, body, task, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((idempotency.key.to_bytes(), &idempotency.name, idempotency.body, seq, now.at.as_ms()))?;
    Ok(())
}

/// The first answer to the same request: the task as it was submitted, whatever became of it.
fn find_first(db: &Connection, idempotency: &Idempotency) -> Result<Option<StoredTask>, StoreError> {
    let found: Option<([u8; 32], i64)> = db
        .prepare_cached("SELECT body, task FROM idempotency WHERE key = ?1 AND name = ?2")?
        .query_row((idempotency.key.to_bytes(), &idempotency.name), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((body, seq)) = found else { return Ok(None) };
    if body != idempotency.body {
        return Err(StoreError::IdempotencyMismatch);
    }
    let Some(mut stored) = row::by_seq(db, seq)? else { return Ok(None) };
    let full: String =
        db.prepare_cached("SELECT full FROM specs WHERE task = ?1")?.query_row([seq], |row| row.get(0))?;
    let spec: Spec = serde_json::from_str(&full).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    stored.task = new_task(&spec);
    let raw = RawValue::from_string(full).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(Some(StoredTask { row: stored.visible(spec.repo.clone(), &spec), spec: raw, result: None }))
}
