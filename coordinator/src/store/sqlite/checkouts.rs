//! What a lease works on: the version that it was given, pinned until the lease is over, and what its manifest names.

use protocol::spec::SessionMode;
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, Stored};
use super::tree;
use super::workspaces::{self, SessionRow};
use crate::lifecycle::{Holder, Rejected};
use crate::store::types::{Checkout, Content, SessionRules, StoreError, StoredEntry, Tree, WorkspaceError};

/// The task of a live lease.
pub(super) fn task(db: &Connection, holder: Holder) -> Result<Stored, StoreError> {
    let mut stored = row::by_lease(db, holder.lease)?.ok_or(Rejected::LeaseLost)?;
    stored.task.current(holder)?;
    Ok(stored)
}

/// The session of a task; it is the task's repo's.
pub(super) fn session(db: &Connection, stored: &Stored) -> Result<SessionRow, StoreError> {
    let name = stored.session.as_deref().ok_or(WorkspaceError::NoStage("the task works in no session"))?;
    let name = name.parse().map_err(|_| StoreError::Corrupt(format!("a session is called {name:?}")))?;
    let found = workspaces::existing(db, &name)?;
    if found.repo == Some(stored.repo) { Ok(found) } else { Err(WorkspaceError::AnotherRepo(name).into()) }
}

/// Pins the newest version for a live lease.
pub(super) fn check_out(
    db: &Connection,
    holder: Holder,
    since: Option<u64>,
    rules: &SessionRules,
) -> Result<Checkout, StoreError> {
    let stored = task(db, holder)?;
    let session = session(db, &stored)?;
    // Before the pin is moved: the old one may be what makes the worker's version known.
    let is_since_known = since.map_or(Ok(false), |since| is_known(db, &session, since))?;
    db.prepare_cached("INSERT OR REPLACE INTO pins (lease, session, version) VALUES (?1, ?2, ?3)")?.execute((
        holder.lease.to_bytes(),
        session.place,
        session.version.cast_signed(),
    ))?;
    Ok(Checkout {
        tree: session.tree(),
        mode: if stored.writes { SessionMode::Write } else { SessionMode::Read },
        is_since_known,
        quota_left_bytes: session.allowed(rules).saturating_sub(session.used_bytes),
        session: session.name,
    })
}

/// Whether every row of a version is still there.
fn is_known(db: &Connection, session: &SessionRow, version: u64) -> Result<bool, StoreError> {
    if version > session.version {
        return Ok(false);
    }
    let is_used = || {
        db.prepare_cached(
            "SELECT 1 FROM snapshots WHERE session = ?1 AND version = ?2 \
             UNION ALL SELECT 1 FROM pins WHERE session = ?1 AND version = ?2",
        )?
        .exists((session.place, version.cast_signed()))
    };
    Ok(version >= session.known_from || is_used()?)
}

/// The version that a live lease works on.
pub(super) fn pinned(db: &Connection, holder: Holder) -> Result<Option<Tree>, StoreError> {
    let read =
        |row: &rusqlite::Row<'_>| Ok(Tree { session: row.get(0)?, version: row.get::<_, i64>(1)?.cast_unsigned() });
    Ok(db
        .prepare_cached("SELECT session, version FROM pins WHERE lease = ?1")?
        .query_row([holder.lease.to_bytes()], read)
        .optional()?)
}

/// Of the paths, those that differ between two versions, with what stands there at the newer one.
pub(super) fn compare(
    db: &Connection,
    tree: Tree,
    since: u64,
    paths: Vec<String>,
) -> Result<Vec<(String, Option<StoredEntry>)>, StoreError> {
    let old = Tree { version: since, ..tree };
    let mut differing = Vec::new();
    for path in paths {
        let (was, is) = (tree::at(db, old, &path)?, tree::at(db, tree, &path)?);
        let is_same = match (&was, &is) {
            (Some(was), Some(is)) => was.content.is_same(&is.content),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            differing.push((path, is));
        }
    }
    Ok(differing)
}

/// The blobs of the contents that a live lease's version names, each with its size; none for a content that it does not.
pub(super) fn contents(
    db: &Connection,
    holder: Holder,
    sums: &[String],
) -> Result<Vec<Option<(String, u64)>>, StoreError> {
    task(db, holder)?;
    let Some(tree) = pinned(db, holder)? else { return Ok(vec![None; sums.len()]) };
    let find = |sum: &String| {
        Ok(tree::by_content(db, tree, sum)?.and_then(|entry| match entry.content {
            Content::File { blob, size, .. } => Some((blob, size)),
            Content::Directory { .. } | Content::Symlink { .. } => None,
        }))
    };
    sums.iter().map(find).collect()
}
