//! One writing task a session. A session belongs to one repo, so its tasks are found by both. Of the tasks that want to write in a session only the first may be ready, and only while
//! none writes; the others carry a hold, so that nobody ever scans them.

use protocol::RepoName;
use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, Stored};
use crate::lifecycle::{Hold, State};
use crate::store::types::{Notice, StoreError};

/// Restores the rule for the session of a task that came, went or changed; says whom to wake for the one that is ready now.
pub(super) fn settle(db: &Connection, stored: &Stored) -> Result<Option<Notice>, StoreError> {
    let Some(session) = stored.session.as_deref().filter(|_| stored.writes) else { return Ok(None) };
    let next = if writing(db, stored.repo, session)?.is_some() { None } else { first(db, stored.repo, session)? };
    db.prepare_cached(
        "UPDATE tasks INDEXED BY tasks_leading SET hold = 2 WHERE repo = ?1 AND session = ?2 AND state = 0 AND writes = 1 \
         AND hold IS NULL AND seq IS NOT ?3",
    )?
    .execute((stored.repo, session, next))?;
    let Some(next) = next else { return Ok(None) };
    let freed = db.prepare_cached("UPDATE tasks SET hold = NULL WHERE seq = ?1 AND hold = 2")?.execute([next])?;
    if freed == 0 {
        return Ok(None);
    }
    row::by_seq(db, next)?.map(|ready| notice(db, &ready)).transpose()
}

/// The task that writes in a session now.
pub(super) fn writing(db: &Connection, repo: i64, session: &str) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached("SELECT seq FROM tasks WHERE repo = ?1 AND session = ?2 AND state = 1 AND writes = 1")?
        .query_row((repo, session), |row| row.get(0))
        .optional()?)
}

/// The task that goes next in a session: the most urgent, then the oldest, that does not wait for an instant.
fn first(db: &Connection, repo: i64, session: &str) -> Result<Option<i64>, StoreError> {
    Ok(db
        .prepare_cached(
            "SELECT seq FROM tasks WHERE repo = ?1 AND session = ?2 AND state = 0 AND writes = 1 AND hold_until IS NULL \
             ORDER BY priority, seq LIMIT 1",
        )?
        .query_row((repo, session), |row| row.get(0))
        .optional()?)
}

/// The task that works in a task's session, or goes first there.
pub(super) fn holder(db: &Connection, stored: &Stored) -> Result<Option<protocol::TaskId>, StoreError> {
    let Some(session) = &stored.session else { return Ok(None) };
    let holder = match writing(db, stored.repo, session)? {
        Some(writing) => Some(writing),
        None => first(db, stored.repo, session)?,
    };
    let Some(holder) = holder.filter(|seq| *seq != stored.seq) else { return Ok(None) };
    Ok(row::by_seq(db, holder)?.map(|holder| holder.id))
}

/// Whom to wake for a task, if it is ready.
pub(super) fn notice_if_ready(db: &Connection, stored: &Stored) -> Result<Option<Notice>, StoreError> {
    let State::Queued { hold: None } = stored.task.state else { return Ok(None) };
    notice(db, stored).map(Some)
}

fn notice(db: &Connection, stored: &Stored) -> Result<Notice, StoreError> {
    Ok(Notice { task: Some(stored.id), repo: repo_name(db, stored.repo)?, needs: stored.needs.clone() })
}

/// Whether a task of a session that wants to write must queue behind another before it can be ready.
pub(super) const fn starts_held(stored: &Stored) -> Option<Hold> {
    if stored.writes { Some(Hold::Session) } else { None }
}

/// A repo's name.
pub(super) fn repo_name(db: &Connection, repo: i64) -> Result<RepoName, StoreError> {
    let name: String =
        db.prepare_cached("SELECT name FROM repos WHERE id = ?1")?.query_row([repo], |row| row.get(0))?;
    name.parse().map_err(|_| StoreError::Corrupt(format!("a repo is called {name:?}")))
}
