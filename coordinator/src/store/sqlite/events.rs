//! What happened to a task, appended in order under numbers without gaps. Every state change is also numbered for the
//! queue-wide feed.

use protocol::event::{EventBody, OutputBytes, StateEvent, Stream, WorkerEvent};
use protocol::{RepoName, TaskId, TaskState, Timestamp};
use rusqlite::{Connection, Row};

use super::row::{self, Stored};
use crate::clock::Now;
use crate::lifecycle::{Change, Holder, Rejected};
use crate::store::types::{Appended, OutputPart, StoreError, StoredEvent, TaskEvents};

/// What an event costs of its lease's budget besides its bytes.
const EVENT_COST: u64 = 64;
/// Bytes that are read at once, so that a slow reader holds few of them.
const OUTPUT_PAGE_BYTES: usize = 256 << 10;

const KINDS: [&str; 8] = ["state", "output", "output", "progress", "tool", "message", "usage", "error"];
const STATE: i64 = 0;

/// The column of a stream's events.
pub(super) const fn stream_column(stream: Stream) -> i64 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

struct NewEvent<'a> {
    feed: Option<i64>,
    kind: i64,
    data: &'a [u8],
}

fn insert(db: &Connection, stored: &mut Stored, at: Timestamp, event: &NewEvent<'_>) -> Result<(), StoreError> {
    stored.events += 1;
    db.prepare_cached(
        "INSERT INTO events (task, number, feed, attempt, kind, at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        stored.seq,
        stored.events.cast_signed(),
        event.feed,
        stored.task.attempt,
        event.kind,
        at.as_ms(),
        event.data,
    ))?;
    Ok(())
}

/// Numbers a state change; the caller saves the row.
pub(super) fn add_state(db: &Connection, stored: &mut Stored, change: Change, at: Timestamp) -> Result<(), StoreError> {
    let (state, reason) = match change {
        Change::None => return Ok(()),
        Change::Queued(reason) => (TaskState::Queued, reason),
        Change::Running => (TaskState::Running, None),
        Change::Done(reason) => (reason.state(), Some(reason)),
    };
    let event = StateEvent { state, reason, attempt: stored.task.attempt, worker: stored.worker(), at };
    let data = serde_json::to_vec(&event).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let feed = newest_feed(db)?.cast_signed() + 1;
    insert(db, stored, at, &NewEvent { feed: Some(feed), kind: STATE, data: &data })
}

/// About how many bytes an event brings.
pub(super) fn weight(event: &WorkerEvent) -> usize {
    match &event.body {
        EventBody::Output { bytes: OutputBytes::Text(text) | OutputBytes::Base64(text), .. } => text.len(),
        EventBody::Progress { .. }
        | EventBody::Tool { .. }
        | EventBody::Message { .. }
        | EventBody::Usage { .. }
        | EventBody::Error { .. } => 0,
    }
}

/// Keeps what is new of a batch, if the lease is the current one.
pub(super) fn append(
    db: &Connection,
    holder: Holder,
    events: Vec<WorkerEvent>,
    now: Now,
) -> Result<Appended, StoreError> {
    let mut stored = row::by_lease(db, holder.lease)?.ok_or(Rejected::LeaseLost)?;
    stored.task.current(holder)?;
    for event in events {
        let expected = stored.lease_events + 1;
        if event.number > expected {
            return Err(StoreError::EventGap { expected });
        }
        if event.number == expected {
            append_one(db, &mut stored, event.body, now.at)?;
        }
    }
    stored.save_events(db)?;
    Ok(Appended { task: stored.id, accepted: stored.lease_events })
}

fn append_one(db: &Connection, stored: &mut Stored, body: EventBody, at: Timestamp) -> Result<(), StoreError> {
    let (kind, data) = match body {
        EventBody::Output { stream, bytes } => {
            (stream_column(stream), bytes.into_bytes().map_err(|_| StoreError::BadEvent("not valid base64".into()))?)
        }
        EventBody::Progress { data } => (3, data.to_string().into_bytes()),
        EventBody::Tool { data } => (4, data.to_string().into_bytes()),
        EventBody::Message { data } => (5, data.to_string().into_bytes()),
        EventBody::Usage { data } => (6, data.to_string().into_bytes()),
        EventBody::Error { data } => (7, data.to_string().into_bytes()),
    };
    stored.lease_events += 1;
    stored.lease_event_bytes += data.len() as u64 + EVENT_COST;
    if stored.lease_event_bytes > stored.event_budget {
        return Err(StoreError::TooManyEvents);
    }
    insert(db, stored, at, &NewEvent { feed: None, kind, data: &data })
}

/// Events of a task after a number, in order.
pub(super) fn after(db: &Connection, id: TaskId, after: u64, limit: u32) -> Result<TaskEvents, StoreError> {
    let Some(stored) = row::by_id(db, id)? else { return Err(StoreError::NotFound) };
    let last = stored.task.visible().is_done().then_some(stored.events);
    let read = |row: &Row<'_>| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let kind: i64 = row.get(1)?;
        let data = row.get_ref(2)?.as_bytes()?;
        Ok(StoredEvent { number, kind: kind_word(kind), data: client_data(kind, data) })
    };
    let mut statement = db.prepare_cached(
        "SELECT number, kind, data FROM events WHERE task = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut events = Vec::new();
    let mut bytes = 0;
    for event in statement.query_map((stored.seq, after.cast_signed(), limit), read)? {
        let event = event?;
        bytes += event.data.len();
        events.push(event);
        if bytes >= OUTPUT_PAGE_BYTES {
            break;
        }
    }
    let told = events.last().map_or(after, |event: &StoredEvent| event.number);
    Ok(TaskEvents { events, is_over: last.is_some_and(|last| told >= last) })
}

fn kind_word(kind: i64) -> &'static str {
    usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind)).copied().unwrap_or("error")
}

/// The `data:` of an event: what was stored, or output as JSON.
fn client_data(kind: i64, data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let output = |stream: Stream| serde_json::json!({"stream": stream, "text": text}).to_string();
    match kind {
        1 => output(Stream::Stdout),
        2 => output(Stream::Stderr),
        _ => text.into_owned(),
    }
}

/// State changes of all tasks of these repos (of all when empty) after a number.
pub(super) fn feed(
    db: &Connection,
    repos: &[RepoName],
    after: u64,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let read = |row: &Row<'_>| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let id = TaskId::from_bytes(row.get(1)?);
        let repo: String = row.get(2)?;
        Ok((number, id, repo, row.get_ref(3)?.as_bytes()?.to_vec()))
    };
    let mut statement = db.prepare_cached(
        "SELECT feed, tasks.id, repos.name, data FROM events JOIN tasks ON seq = task JOIN repos ON repos.id = repo \
         WHERE feed > ?1 ORDER BY feed LIMIT ?2",
    )?;
    let mut found = Vec::new();
    for row in statement.query_map((after.cast_signed(), limit), read)? {
        let (number, id, repo, data) = row?;
        let is_wanted = repos.is_empty() || repos.iter().any(|wanted| wanted.as_str() == repo);
        let data = if is_wanted { feed_data(id, &repo, &data)? } else { String::new() };
        found.push(StoredEvent { number, kind: "state", data });
    }
    Ok(found)
}

fn feed_data(id: TaskId, repo: &str, data: &[u8]) -> Result<String, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
    let mut event: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(data).map_err(corrupt)?;
    event.insert("task".into(), id.to_string().into());
    event.insert("repo".into(), repo.into());
    serde_json::to_string(&event).map_err(corrupt)
}

/// The number of the newest state change.
pub(super) fn newest_feed(db: &Connection) -> Result<u64, StoreError> {
    let newest: i64 = db
        .prepare_cached(
            "SELECT max(number, coalesce((SELECT max(feed) FROM events WHERE feed IS NOT NULL), 0)) FROM feed_floor",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(newest.cast_unsigned())
}

/// Raw output of the newest attempt, a bounded piece at a time.
pub(super) fn output(db: &Connection, part: OutputPart) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
    let Some(stored) = row::by_id(db, part.id)? else { return Err(StoreError::NotFound) };
    let mut statement = db.prepare_cached(
        "SELECT number, data FROM events WHERE task = ?1 AND number > ?2 AND attempt = ?3 AND kind = ?4 ORDER BY number",
    )?;
    let key = (stored.seq, part.after.cast_signed(), stored.task.attempt, stream_column(part.stream));
    let mut rows = statement.query(key)?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let data: Vec<u8> = row.get(1)?;
        bytes += data.len();
        found.push((row.get::<_, i64>(0)?.cast_unsigned(), data));
        if bytes >= OUTPUT_PAGE_BYTES {
            break;
        }
    }
    Ok(found)
}
