//! Deletes what is older than it must be kept, a bounded number of rows at a time, so that the queue never waits for it.

use rusqlite::Connection;

use crate::store::types::{Prune, StoreError};

const TASKS_AT_ONCE: u32 = 20;
const ROWS_AT_ONCE: u32 = 5_000;

/// One step; says how many rows went. 0 means that nothing is left to do.
pub(super) fn prune(db: &Connection, prune: Prune) -> Result<u64, StoreError> {
    let mut gone = old_tasks(db, prune.tasks_before.as_ms())?;
    gone += old_output(db, prune.output_before.as_ms())?;
    gone += delete(
        db,
        "DELETE FROM idempotency WHERE (key, name) IN \
         (SELECT key, name FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
        prune.idempotency_before.as_ms(),
    )?;
    gone += delete(
        db,
        "DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE last_seen_at < ?1 LIMIT ?2)",
        prune.workers_before.as_ms(),
    )?;
    Ok(gone + super::history::sweep(db, prune.history_before)?)
}

fn delete(db: &Connection, sql: &str, before: i64) -> Result<u64, StoreError> {
    Ok(db.prepare_cached(sql)?.execute((before, ROWS_AT_ONCE))? as u64)
}

fn places(db: &Connection, sql: &str, before: i64) -> Result<Vec<i64>, StoreError> {
    Ok(db.prepare_cached(sql)?.query_map((before, TASKS_AT_ONCE), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Done tasks go with everything that is kept of them.
fn old_tasks(db: &Connection, before: i64) -> Result<u64, StoreError> {
    let old =
        places(db, "SELECT seq FROM tasks WHERE state = 2 AND finished_at < ?1 ORDER BY finished_at LIMIT ?2", before)?;
    if !old.is_empty() {
        db.prepare_cached("UPDATE feed_floor SET number = ?1")?
            .execute([super::events::newest_feed(db)?.cast_signed()])?;
    }
    for seq in &old {
        labels(db, *seq)?;
        for sql in [
            "DELETE FROM events WHERE task = ?1",
            "DELETE FROM artifacts WHERE task = ?1",
            "DELETE FROM results WHERE task = ?1",
            "DELETE FROM specs WHERE task = ?1",
            "DELETE FROM tasks WHERE seq = ?1",
        ] {
            db.prepare_cached(sql)?.execute([seq])?;
        }
    }
    Ok(old.len() as u64)
}

/// The spec knows which labels to look for; to look for the task among all labels would cost more with each one kept.
fn labels(db: &Connection, seq: i64) -> Result<(), StoreError> {
    let brief: String =
        db.prepare_cached("SELECT brief FROM specs WHERE task = ?1")?.query_row([seq], |row| row.get(0))?;
    let spec: protocol::Spec = serde_json::from_str(&brief).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    for (name, value) in &spec.labels {
        db.prepare_cached("DELETE FROM labels WHERE name = ?1 AND value = ?2 AND task = ?3")?
            .execute((name, value, seq))?;
    }
    Ok(())
}

/// Output goes earlier than its task; what the result shows of it stays.
fn old_output(db: &Connection, before: i64) -> Result<u64, StoreError> {
    let old = places(
        db,
        "SELECT seq FROM tasks WHERE state = 2 AND lease_events > 0 AND finished_at < ?1 ORDER BY finished_at LIMIT ?2",
        before,
    )?;
    for seq in &old {
        db.prepare_cached("DELETE FROM events WHERE task = ?1 AND kind IN (1, 2)")?.execute([seq])?;
        db.prepare_cached("UPDATE tasks SET lease_events = 0 WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(old.len() as u64)
}
