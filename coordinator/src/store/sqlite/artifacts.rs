//! Which blobs belong to which lease or task. An upload is a row of its lease until the lease's report makes it the task's.

use std::collections::{BTreeMap, HashSet};

use protocol::artifact::{Artifact, MAX_ARTIFACTS, MAX_SKIPPED, Skipped, is_sha256};
use protocol::path::RelativePath;
use protocol::{Report, TaskId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, Stored};
use crate::lifecycle::{Holder, Rejected};
use crate::store::types::{StoreError, StoredArtifact, Upload, Uploads};

/// Rows of dead leases that one step takes.
const ROWS_AT_ONCE: u32 = 500;

fn check_lease(db: &Connection, holder: Holder) -> Result<(), StoreError> {
    let stored = row::by_lease(db, holder.lease)?;
    stored.ok_or(Rejected::LeaseLost)?.task.current(holder)?;
    Ok(())
}

/// What a live lease uploaded besides this path.
pub(super) fn uploads(db: &Connection, holder: Holder, path: &RelativePath) -> Result<Uploads, StoreError> {
    check_lease(db, holder)?;
    let (count, bytes): (i64, i64) = db
        .prepare_cached("SELECT count(*), coalesce(sum(size), 0) FROM uploads WHERE lease = ?1 AND path <> ?2")?
        .query_row((holder.lease.to_bytes(), path.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Uploads { count: count.cast_unsigned(), bytes: bytes.cast_unsigned() })
}

/// Names a blob as the upload of a live lease; gives the blob that it replaces.
pub(super) fn keep(
    db: &Connection,
    holder: Holder,
    upload: &Upload,
    limit_bytes: u64,
) -> Result<Option<String>, StoreError> {
    let others = uploads(db, holder, &upload.path)?;
    if others.count >= MAX_ARTIFACTS as u64 || others.bytes.saturating_add(upload.size) > limit_bytes {
        return Err(StoreError::TooManyUploads);
    }
    let lease = holder.lease.to_bytes();
    let replaced = db
        .prepare_cached("DELETE FROM uploads WHERE lease = ?1 AND path = ?2 RETURNING blob")?
        .query_row((lease, upload.path.as_str()), |row| row.get(0))
        .optional()?;
    db.prepare_cached("INSERT INTO uploads (lease, path, blob, size, sha256) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((lease, upload.path.as_str(), &upload.blob, upload.size.cast_signed(), &upload.sha256))?;
    Ok(replaced)
}

/// Makes the uploads of the lease that just reported the task's own, and lists them with what the worker only names.
pub(super) fn publish(db: &Connection, stored: &Stored, report: &Report) -> Result<Vec<Artifact>, StoreError> {
    let Some(lease) = stored.task.ended.map(|ended| ended.id.to_bytes()) else { return Ok(Vec::new()) };
    db.prepare_cached(
        "INSERT INTO artifacts (task, path, blob, size, sha256) SELECT ?1, path, blob, size, sha256 FROM uploads WHERE lease = ?2",
    )?
    .execute((stored.seq, lease))?;
    db.prepare_cached("DELETE FROM uploads WHERE lease = ?1")?.execute([lease])?;
    let mut listed = BTreeMap::new();
    for (path, size, sha256) in published(db, stored.seq)? {
        listed.insert(path.clone(), Artifact::new(path, size, sha256, true));
    }
    // What the worker says counts only for what it did not bring.
    for named in report.artifacts.iter().filter(|named| is_sha256(&named.sha256)) {
        if listed.len() < MAX_ARTIFACTS {
            let unstored = || Artifact::new(named.path.clone(), named.size, named.sha256.clone(), false);
            listed.entry(named.path.clone()).or_insert_with(unstored);
        }
    }
    Ok(listed.into_values().collect())
}

fn published(db: &Connection, seq: i64) -> Result<Vec<(RelativePath, u64, String)>, StoreError> {
    let mut statement = db.prepare_cached("SELECT path, size, sha256 FROM artifacts WHERE task = ?1")?;
    let rows = statement.query_map([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.map(|row| {
        let (path, size, sha256): (String, i64, String) = row?;
        let path = path.parse().map_err(|error| StoreError::Corrupt(format!("an artifact's path: {error}")))?;
        Ok((path, size.cast_unsigned(), sha256))
    })
    .collect()
}

/// What the worker left out, cut to what a result may hold. A file whose answer alone was lost is not missing.
pub(super) fn skipped(report: &Report, listed: &[Artifact]) -> Vec<Skipped> {
    let cut = |text: &str| text.chars().take(1024).collect();
    let is_stored = |path: &str| listed.iter().any(|file| file.path.as_str() == path && file.is_stored());
    let named = report.skipped.iter().filter(|skipped| !is_stored(&skipped.path)).take(MAX_SKIPPED);
    named.map(|skipped| Skipped { path: cut(&skipped.path), why: cut(&skipped.why) }).collect()
}

/// A published file of a task.
pub(super) fn find(db: &Connection, id: TaskId, path: &RelativePath) -> Result<Option<StoredArtifact>, StoreError> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(StoredArtifact { blob: row.get(0)?, size: row.get::<_, i64>(1)?.cast_unsigned(), sha256: row.get(2)? })
    };
    Ok(db
        .prepare_cached(
            "SELECT blob, size, sha256 FROM artifacts WHERE task = (SELECT seq FROM tasks WHERE id = ?1) AND path = ?2",
        )?
        .query_row((id.to_bytes(), path.as_str()), read)
        .optional()?)
}

const DEAD: &str = "NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.lease = uploads.lease AND state = 1)";

/// Whether there are uploads of leases that are over.
pub(super) fn has_dead(db: &Connection) -> Result<bool, StoreError> {
    Ok(db.prepare_cached(&format!("SELECT 1 FROM uploads WHERE {DEAD} LIMIT 1"))?.exists([])?)
}

/// Forgets uploads of leases that are over, a bounded number; gives their blobs.
pub(super) fn drop_dead(db: &Connection) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "DELETE FROM uploads WHERE blob IN (SELECT blob FROM uploads WHERE {DEAD} LIMIT {ROWS_AT_ONCE}) RETURNING blob"
    );
    Ok(db.prepare_cached(&sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Those of the blobs that an upload, a task, a stage or a session names.
pub(super) fn named(db: &Connection, names: &[String]) -> Result<HashSet<String>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM uploads WHERE blob = ?1) OR EXISTS (SELECT 1 FROM artifacts WHERE blob = ?1) \
         OR EXISTS (SELECT 1 FROM entries WHERE blob = ?1) OR EXISTS (SELECT 1 FROM stage_entries WHERE blob = ?1)",
    )?;
    let mut found = HashSet::new();
    for name in names {
        if statement.exists([name])? {
            found.insert(name.clone());
        }
    }
    Ok(found)
}

/// Notes since when these blobs are nobody's, and gives those that have been so since `before`: they may go now.
pub(super) fn orphaned(
    db: &Connection,
    nobodys: &[String],
    now: Timestamp,
    before: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let mut due = Vec::new();
    for blob in nobodys {
        db.prepare_cached("INSERT OR IGNORE INTO orphans (blob, since) VALUES (?1, ?2)")?
            .execute((blob, now.as_ms()))?;
        let gone = db
            .prepare_cached("DELETE FROM orphans WHERE blob = ?1 AND since <= ?2")?
            .execute((blob, before.as_ms()))?;
        if gone > 0 {
            due.push(blob.clone());
        }
    }
    Ok(due)
}
