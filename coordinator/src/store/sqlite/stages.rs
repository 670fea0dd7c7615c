//! Changes that a lease uploaded: rows of the lease until its report publishes them, or nobody does.

use protocol::StageId;
use protocol::workspace::{MAX_STAGE_ENTRIES, Staged};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};

use super::tree::{kind_column, own_columns};
use super::{checkouts, workspaces};
use crate::lifecycle::Holder;
use crate::store::types::{Content, SessionRules, StageRoom, StagedRow, StoreError, WorkspaceError};

/// Bytes that a stage may have even where the quota is smaller: a report then says `quota`, and no work is lost.
const LEAST_ROOM_BYTES: u64 = 1 << 30;

/// The column of a path that is to be gone.
const DELETED: i64 = 3;

/// Rows of dead leases that one step takes.
const ROWS_AT_ONCE: u32 = 5_000;

/// A stage as it is stored.
pub(super) struct StoredStage {
    pub(super) session: i64,
    pub(super) base: u64,
    is_sealed: bool,
    id: [u8; 16],
}

/// Begins the stage of a live lease; an earlier one is gone.
pub(super) fn begin(
    db: &Connection,
    holder: Holder,
    stage: StageId,
    base: u64,
    rules: &SessionRules,
) -> Result<StageRoom, StoreError> {
    let task = checkouts::task(db, holder)?;
    let session = checkouts::session(db, &task)?;
    if !task.writes {
        return Err(WorkspaceError::NoStage("the task reads its session: it may not change it").into());
    }
    if checkouts::pinned(db, holder)? != Some(crate::store::types::Tree { session: session.place, version: base }) {
        return Err(WorkspaceError::NoStage("`base` is not the version that the lease was given last").into());
    }
    let lease = holder.lease.to_bytes();
    db.prepare_cached("DELETE FROM stage_entries WHERE lease = ?1")?.execute([lease])?;
    db.prepare_cached("INSERT OR REPLACE INTO stages (lease, id, session, base) VALUES (?1, ?2, ?3, ?4)")?
        .execute((lease, stage.to_bytes(), session.place, base.cast_signed()))?;
    Ok(StageRoom { bytes: session.allowed(rules).max(LEAST_ROOM_BYTES) })
}

/// The stage of a lease.
pub(super) fn find(db: &Connection, holder: Holder) -> Result<Option<StoredStage>, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(StoredStage {
            id: row.get(0)?,
            session: row.get(1)?,
            base: row.get::<_, i64>(2)?.cast_unsigned(),
            is_sealed: row.get(3)?,
        })
    };
    Ok(db
        .prepare_cached("SELECT id, session, base, sealed FROM stages WHERE lease = ?1")?
        .query_row([holder.lease.to_bytes()], read)
        .optional()?)
}

/// The whole stage that a report names.
pub(super) fn named(db: &Connection, holder: Holder, stage: StageId) -> Result<StoredStage, StoreError> {
    let whole = find(db, holder)?.filter(|found| found.id == stage.to_bytes() && found.is_sealed);
    Ok(whole.ok_or(WorkspaceError::NoStage("the lease has no such stage; upload it again, or report without it"))?)
}

fn open(db: &Connection, holder: Holder, stage: StageId) -> Result<(), StoreError> {
    checkouts::task(db, holder)?;
    let is_open = find(db, holder)?.is_some_and(|found| found.id == stage.to_bytes() && !found.is_sealed);
    if is_open {
        Ok(())
    } else {
        Err(WorkspaceError::NoStage("another upload of this lease has taken its place").into())
    }
}

/// Takes rows into the stage of a live lease.
pub(super) fn add(db: &Connection, holder: Holder, stage: StageId, rows: &[StagedRow]) -> Result<(), StoreError> {
    open(db, holder, stage)?;
    rows.iter().try_for_each(|row| add_row(db, holder.lease.to_bytes(), row))
}

fn add_row(db: &Connection, lease: [u8; 16], row: &StagedRow) -> Result<(), StoreError> {
    let path = row.path.as_str();
    let (kind, mode) = row.content.as_ref().map_or((DELETED, 0), |content| (kind_column(content), content.mode()));
    let (blob, sha256, target) = row.content.as_ref().map_or((None, None, None), own_columns);
    let size = row.content.as_ref().map_or(0, Content::size).cast_signed();
    let added = db
        .prepare_cached(
            "INSERT INTO stage_entries (lease, path, kind, blob, size, sha256, mode, target) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![lease, path, kind, blob, size, sha256, mode, target]);
    match added {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            return Err(WorkspaceError::BadStage(format!("`{path}` comes twice")).into());
        }
        added => added?,
    };
    check_nesting(db, lease, row, kind)
}

/// Nothing is below a file, a link or what is to be gone.
fn check_nesting(db: &Connection, lease: [u8; 16], row: &StagedRow, kind: i64) -> Result<(), StoreError> {
    let path = row.path.as_str();
    let nested = |above: &str, below: &str| {
        Err(WorkspaceError::BadStage(format!("`{below}` is below `{above}`, which is no directory")).into())
    };
    if kind != DELETED {
        for above in row.path.ancestors() {
            let is_in_the_way = db
                .prepare_cached("SELECT 1 FROM stage_entries WHERE lease = ?1 AND path = ?2 AND kind <> 1")?
                .exists((lease, above))?;
            if is_in_the_way {
                return nested(above, path);
            }
        }
    }
    if kind == 1 {
        return Ok(());
    }
    let below: Option<String> = db
        .prepare_cached(
            "SELECT path FROM stage_entries WHERE lease = ?1 AND path > ?2 AND path < ?3 AND kind <> 3 LIMIT 1",
        )?
        .query_row((lease, format!("{path}/"), format!("{path}0")), |row| row.get(0))
        .optional()?;
    below.map_or(Ok(()), |below| nested(path, &below))
}

/// All of the stage has come.
pub(super) fn seal(db: &Connection, holder: Holder, stage: StageId) -> Result<Staged, StoreError> {
    open(db, holder, stage)?;
    let lease = holder.lease.to_bytes();
    let (entries, deletes, bytes): (i64, i64, i64) = db
        .prepare_cached(
            "SELECT coalesce(sum(kind <> 3), 0), coalesce(sum(kind = 3), 0), coalesce(sum(size), 0) FROM stage_entries \
             WHERE lease = ?1",
        )?
        .query_row([lease], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    db.prepare_cached("UPDATE stages SET sealed = 1, entries = ?2, deletes = ?3, bytes = ?4 WHERE lease = ?1")?
        .execute((lease, entries, deletes, bytes))?;
    let base: i64 =
        db.prepare_cached("SELECT base FROM stages WHERE lease = ?1")?.query_row([lease], |row| row.get(0))?;
    let [base, entries, deletes, bytes] = [base, entries, deletes, bytes].map(i64::cast_unsigned);
    Ok(Staged { stage, base, entries, deletes, bytes })
}

/// The rows of a stage by path; none of content is a path to be gone.
pub(super) fn rows(db: &Connection, holder: Holder) -> Result<Vec<(String, Option<Content>)>, StoreError> {
    let read = |row: &Row<'_>| {
        let mode: u32 = row.get(5)?;
        let content = match row.get::<_, i64>(1)? {
            0 => {
                let size = row.get::<_, i64>(3)?.cast_unsigned();
                Some(Content::File { blob: row.get(2)?, size, sha256: row.get(4)?, mode })
            }
            1 => Some(Content::Directory { mode }),
            2 => Some(Content::Symlink { target: row.get(6)? }),
            _ => None,
        };
        Ok((row.get(0)?, content))
    };
    let sql = format!(
        "SELECT path, kind, blob, size, sha256, mode, target FROM stage_entries WHERE lease = ?1 ORDER BY path LIMIT {MAX_STAGE_ENTRIES}"
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([holder.lease.to_bytes()], read)?.collect::<Result<_, _>>()?)
}

/// Forgets what leases brought and pinned that are over, a bounded number; says how many rows went.
pub(super) fn drop_dead(db: &Connection) -> Result<u64, StoreError> {
    let dead =
        |table: &str| format!("NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.lease = {table}.lease AND state = 1)");
    let mut gone = db.prepare_cached(&format!("DELETE FROM pins WHERE {}", dead("pins")))?.execute([])?;
    let leases: Vec<[u8; 16]> = db
        .prepare_cached(&format!("SELECT lease FROM stages WHERE {} LIMIT 100", dead("stages")))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for lease in leases {
        let rows = db
            .prepare_cached(
                "DELETE FROM stage_entries WHERE lease = ?1 AND path IN \
                 (SELECT path FROM stage_entries WHERE lease = ?1 LIMIT ?2)",
            )?
            .execute((lease, ROWS_AT_ONCE))?;
        gone += rows;
        if rows < ROWS_AT_ONCE as usize {
            gone += db.prepare_cached("DELETE FROM stages WHERE lease = ?1")?.execute([lease])?;
        }
        if gone >= ROWS_AT_ONCE as usize {
            break;
        }
    }
    Ok(gone as u64)
}

/// Whether there is anything to forget.
pub(super) fn has_dead(db: &Connection) -> Result<bool, StoreError> {
    let dead = "NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.lease = held.lease AND state = 1)";
    let sql = format!(
        "SELECT 1 FROM (SELECT lease FROM pins UNION ALL SELECT lease FROM stages) AS held WHERE {dead} LIMIT 1"
    );
    Ok(db.prepare_cached(&sql)?.exists([])?)
}

/// The session of a stage.
pub(super) fn session_of(
    db: &Connection,
    stage: &StoredStage,
    task: &super::row::Stored,
) -> Result<workspaces::SessionRow, StoreError> {
    let session = checkouts::session(db, task)?;
    if session.place == stage.session {
        return Ok(session);
    }
    Err(WorkspaceError::NoStage("the session was deleted since the stage was uploaded").into())
}
