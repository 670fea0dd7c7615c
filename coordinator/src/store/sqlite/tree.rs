//! The entries of a session at a version: what stands at a path, from which version on and until which. What a row means is
//! written here and in the schema, nowhere else.

use protocol::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::store::types::{Content, StoreError, StoredEntry, Tree};

const COLUMNS: &str = "path, kind, blob, size, sha256, mode, target, modified_at";

/// True of the rows that stand at version `?2` of session `?1`.
const AT: &str = "session = ?1 AND from_version <= ?2 AND (to_version IS NULL OR to_version > ?2)";

/// A row that stands now, with the version that it began with.
pub(super) struct Live {
    pub(super) entry: StoredEntry,
    pub(super) from: u64,
}

fn number(value: i64) -> u64 {
    value.cast_unsigned()
}

/// Reads `COLUMNS`.
fn read(row: &Row<'_>) -> rusqlite::Result<StoredEntry> {
    let (kind, mode): (i64, u32) = (row.get(1)?, row.get(5)?);
    let content = match kind {
        0 => Content::File { blob: row.get(2)?, size: number(row.get(3)?), sha256: row.get(4)?, mode },
        1 => Content::Directory { mode },
        _ => Content::Symlink { target: row.get(6)? },
    };
    Ok(StoredEntry { path: row.get(0)?, content, modified_at: Timestamp::from_ms(row.get(7)?) })
}

/// The column of a kind.
pub(super) const fn kind_column(content: &Content) -> i64 {
    match content {
        Content::File { .. } => 0,
        Content::Directory { .. } => 1,
        Content::Symlink { .. } => 2,
    }
}

/// The columns that only some kinds have: blob, sum, target.
pub(super) fn own_columns(content: &Content) -> (Option<&str>, Option<&str>, Option<&str>) {
    match content {
        Content::File { blob, sha256, .. } => (Some(blob), Some(sha256), None),
        Content::Directory { .. } => (None, None, None),
        Content::Symlink { target } => (None, None, Some(target)),
    }
}

/// The texts between which all paths below this one are; of the root, all.
fn range(path: &str) -> (String, String) {
    // `0` is the character after `/`.
    if path.is_empty() { (String::new(), "\u{10ffff}".into()) } else { (format!("{path}/"), format!("{path}0")) }
}

/// What stands at a path at a version.
pub(super) fn at(db: &Connection, tree: Tree, path: &str) -> Result<Option<StoredEntry>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM entries WHERE {AT} AND path = ?3");
    Ok(db.prepare_cached(&sql)?.query_row((tree.session, tree.version.cast_signed(), path), read).optional()?)
}

/// What is in a directory at a version, in no order.
pub(super) fn children(db: &Connection, tree: Tree, directory: &str) -> Result<Vec<StoredEntry>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM entries INDEXED BY entries_children WHERE {AT} AND parent = ?3");
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map((tree.session, tree.version.cast_signed(), directory), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What is below a directory at a version, by path, from behind a path on.
pub(super) fn walk(
    db: &Connection,
    tree: Tree,
    directory: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<StoredEntry>, StoreError> {
    let (low, high) = range(directory);
    let sql = format!(
        "SELECT {COLUMNS} FROM entries WHERE {AT} AND path >= ?3 AND path < ?4 AND path > ?5 ORDER BY path LIMIT ?6"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map(params![tree.session, tree.version.cast_signed(), low, high, after, limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The files with this content at a version; one is enough.
pub(super) fn by_content(db: &Connection, tree: Tree, sha256: &str) -> Result<Option<StoredEntry>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM entries INDEXED BY entries_content WHERE {AT} AND sha256 = ?3 LIMIT 1");
    Ok(db.prepare_cached(&sql)?.query_row((tree.session, tree.version.cast_signed(), sha256), read).optional()?)
}

/// What stands at a path now.
pub(super) fn live(db: &Connection, session: i64, path: &str) -> Result<Option<Live>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS}, from_version FROM entries WHERE session = ?1 AND path = ?2 AND to_version IS NULL");
    let read = |row: &Row<'_>| Ok(Live { entry: read(row)?, from: number(row.get(8)?) });
    Ok(db.prepare_cached(&sql)?.query_row((session, path), read).optional()?)
}

/// The paths below one that stand now, each with the version that it began with.
pub(super) fn live_below(db: &Connection, session: i64, path: &str) -> Result<Vec<Live>, StoreError> {
    let (low, high) = range(path);
    let sql = format!(
        "SELECT {COLUMNS}, from_version FROM entries WHERE session = ?1 AND to_version IS NULL AND path >= ?2 AND path < ?3 \
         ORDER BY path"
    );
    let read = |row: &Row<'_>| Ok(Live { entry: read(row)?, from: number(row.get(8)?) });
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map((session, low, high), read)?.collect::<Result<_, _>>()?)
}

/// The paths at which something began or ended between two versions, by path: more than really differ, never fewer.
pub(super) fn touched(db: &Connection, session: i64, since: u64, until: u64) -> Result<Vec<String>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT path FROM entries INDEXED BY entries_begun WHERE session = ?1 AND from_version > ?2 AND from_version <= ?3 \
         UNION SELECT path FROM entries INDEXED BY entries_ended WHERE session = ?1 AND to_version > ?2 AND to_version <= ?3 \
         ORDER BY 1",
    )?;
    let rows = statement.query_map((session, since.cast_signed(), until.cast_signed()), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Something stands at a path from a version on.
pub(super) fn begin(db: &Connection, tree: Tree, entry: &StoredEntry) -> Result<(), StoreError> {
    let (blob, sha256, target) = own_columns(&entry.content);
    let parent = entry.path.rsplit_once('/').map_or("", |(parent, _)| parent);
    db.prepare_cached(
        "INSERT INTO entries (session, path, from_version, parent, kind, blob, size, sha256, mode, target, modified_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        tree.session,
        entry.path,
        tree.version.cast_signed(),
        parent,
        kind_column(&entry.content),
        blob,
        entry.content.size().cast_signed(),
        sha256,
        entry.content.mode(),
        target,
        entry.modified_at.as_ms(),
    ])?;
    Ok(())
}

/// What stands at a path does so no longer, from a version on. What began with that very version never was.
pub(super) fn end(db: &Connection, tree: Tree, live: &Live) -> Result<(), StoreError> {
    let version = tree.version.cast_signed();
    if live.from == tree.version {
        db.prepare_cached("DELETE FROM entries WHERE session = ?1 AND path = ?2 AND from_version = ?3")?.execute((
            tree.session,
            &live.entry.path,
            version,
        ))?;
    } else {
        db.prepare_cached(
            "UPDATE entries SET to_version = ?3 WHERE session = ?1 AND path = ?2 AND to_version IS NULL",
        )?
        .execute((tree.session, &live.entry.path, version))?;
    }
    Ok(())
}
