//! What clients read: one task, pages of tasks, and what a waiting task waits for.

use protocol::{RepoName, Spec, TaskId, TaskRow, TaskState};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};
use serde_json::value::RawValue;

use super::row::{self, Stored, VISIBLE, priority_column};
use super::session;
use crate::lifecycle::State;
use crate::store::types::{Filter, ListedTask, StoreError, StoredTask, WaitingFacts};

fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

fn raw(json: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(json).map_err(corrupt)
}

/// A task with what was submitted and what came of it.
pub(super) fn task(db: &Connection, id: TaskId) -> Result<Option<StoredTask>, StoreError> {
    let Some(stored) = row::by_id(db, id)? else { return Ok(None) };
    let (brief, full): (String, String) = db
        .prepare_cached("SELECT brief, full FROM specs WHERE task = ?1")?
        .query_row([stored.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let result: Option<String> = db
        .prepare_cached("SELECT json FROM results WHERE task = ?1")?
        .query_row([stored.seq], |row| row.get(0))
        .optional()?;
    let row = stored.visible(session::repo_name(db, stored.repo)?, &parse_brief(&brief)?);
    Ok(Some(StoredTask { row, spec: raw(full)?, result: result.map(raw).transpose()? }))
}

fn parse_brief(brief: &str) -> Result<Spec, StoreError> {
    serde_json::from_str(brief).map_err(corrupt)
}

/// A page of tasks, newest first, and where the next begins.
pub(super) fn list(db: &Connection, filter: &Filter) -> Result<(Vec<ListedTask>, Option<i64>), StoreError> {
    let (sql, values) = query(filter);
    let read = |row: &Row<'_>| Ok((Stored::read(row)?, row.get("name")?, row.get("brief")?));
    let mut rows = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), read)?
        .collect::<Result<Vec<(Stored, String, String)>, _>>()?;
    let is_more = rows.len() > filter.limit as usize;
    rows.truncate(filter.limit as usize);
    let next = rows.last().filter(|_| is_more).map(|(stored, ..)| stored.seq);
    let items =
        rows.into_iter().map(|(stored, repo, brief)| listed(&stored, &repo, brief)).collect::<Result<_, _>>()?;
    Ok((items, next))
}

fn listed(stored: &Stored, repo: &str, brief: String) -> Result<ListedTask, StoreError> {
    let repo: RepoName = repo.parse().map_err(corrupt)?;
    Ok(ListedTask { row: stored.visible(repo, &parse_brief(&brief)?), spec: raw(brief)? })
}

/// Only constant text goes into the statement; what a client said goes in as values.
fn query(filter: &Filter) -> (String, Vec<Value>) {
    let mut wheres = Vec::new();
    let mut values = Vec::new();
    let mut add = |condition: String, wanted: Vec<Value>| {
        wheres.push(condition);
        values.extend(wanted);
    };
    if let [repo] = filter.repos.as_slice() {
        // Of one repo the index gives the order.
        add("repo = (SELECT id FROM repos WHERE name = ?)".into(), vec![Value::Text(repo.as_str().to_owned())]);
    } else if !filter.repos.is_empty() {
        let names = filter.repos.iter().map(|repo| Value::Text(repo.as_str().to_owned())).collect();
        add(format!("repo IN (SELECT id FROM repos WHERE name IN ({}))", marks(filter.repos.len())), names);
    }
    if let Some(state) = filter.state {
        let (condition, words) = state_condition(state);
        add(condition, words);
    }
    if let Some(session) = &filter.session {
        add("session = ?".into(), vec![Value::Text(session.as_str().to_owned())]);
    }
    if let Some((name, value)) = &filter.label {
        let wanted = vec![Value::Text(name.clone()), Value::Text(value.clone())];
        add("seq IN (SELECT task FROM labels WHERE name = ? AND value = ?)".into(), wanted);
    }
    if let Some(worker) = filter.worker {
        add("worker = ?".into(), vec![Value::Blob(worker.to_bytes().to_vec())]);
    }
    if let Some(before) = filter.before {
        add("seq < ?".into(), vec![Value::Integer(before)]);
    }
    let wheres = if wheres.is_empty() { String::new() } else { format!(" WHERE {}", wheres.join(" AND ")) };
    // One more than asked for tells whether another page follows.
    (format!("{VISIBLE}{wheres} ORDER BY seq DESC LIMIT {}", filter.limit + 1), values)
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// The column of a state knows only done; its reason says which way.
fn state_condition(state: TaskState) -> (String, Vec<Value>) {
    match state {
        TaskState::Queued => ("state = 0".into(), Vec::new()),
        TaskState::Running => ("state = 1".into(), Vec::new()),
        TaskState::Completed | TaskState::TimedOut | TaskState::Cancelled | TaskState::Failed => {
            let reasons = protocol::Reason::ALL.iter().filter(|reason| reason.state() == state);
            let words: Vec<_> = reasons.map(|reason| Value::Text(reason.as_str().to_owned())).collect();
            (format!("state = 2 AND reason IN ({})", marks(words.len())), words)
        }
    }
}

/// What keeps a queued task from being leased, as far as the database knows.
pub(super) fn waiting(db: &Connection, id: TaskId) -> Result<WaitingFacts, StoreError> {
    let stored = row::by_id(db, id)?.ok_or(StoreError::NotFound)?;
    let (is_paused, max_running) = db
        .prepare_cached("SELECT paused, max_running FROM repos WHERE id = ?1")?
        .query_row([stored.repo], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let count = |sql: &str, values: &[i64]| -> Result<u64, StoreError> {
        let count: i64 = db.prepare_cached(sql)?.query_row(params_from_iter(values), |row| row.get(0))?;
        Ok(count.cast_unsigned())
    };
    let running = count("SELECT count(*) FROM tasks WHERE repo = ?1 AND state = 1", &[stored.repo])?;
    let ahead = count(
        "SELECT count(*) FROM tasks WHERE repo = ?1 AND state = 0 AND hold IS NULL AND (priority < ?2 OR (priority = ?2 AND \
         seq < ?3))",
        &[stored.repo, priority_column(stored.priority), stored.seq],
    )?;
    let hold = match stored.task.state {
        State::Queued { hold } => hold,
        State::Leased(_) | State::Done { .. } => None,
    };
    let session_holder = session::holder(db, &stored)?;
    let row = visible_row(db, &stored)?;
    Ok(WaitingFacts { row, needs: stored.needs, hold, is_paused, max_running, running, ahead, session_holder })
}

fn visible_row(db: &Connection, stored: &Stored) -> Result<TaskRow, StoreError> {
    let brief: String =
        db.prepare_cached("SELECT brief FROM specs WHERE task = ?1")?.query_row([stored.seq], |row| row.get(0))?;
    Ok(stored.visible(session::repo_name(db, stored.repo)?, &parse_brief(&brief)?))
}
