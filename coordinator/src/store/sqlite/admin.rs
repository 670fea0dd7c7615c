//! Keys, repos and workers: small tables that operators look after.

use protocol::admin::{KeyView, RepoChange, RepoView, Role};
use protocol::{KeyId, RepoName, Timestamp, WorkerInfo};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::submit::repo_id;
use crate::key::KeyHash;
use crate::store::types::{StoreError, StoredWorker};

/// Workers that are remembered over a restart at most.
const MAX_WORKERS: u32 = 2_000;

fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}

/// Keeps a key.
pub(super) fn add_key(db: &Connection, key: &KeyView, hash: &KeyHash) -> Result<(), StoreError> {
    let repos = serde_json::to_string(&key.repos).map_err(corrupt)?;
    db.prepare_cached(
        "INSERT INTO keys (id, hash, role, repos, name, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        key.id.to_bytes(),
        hash,
        key.role.as_str(),
        repos,
        &key.name,
        key.created_at.as_ms(),
        key.expires_at.map(Timestamp::as_ms),
    ))?;
    Ok(())
}

/// Takes a key back; a second time changes nothing.
pub(super) fn revoke_key(db: &Connection, id: KeyId, at: Timestamp) -> Result<Option<KeyView>, StoreError> {
    db.prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?1) WHERE id = ?2")?
        .execute((at.as_ms(), id.to_bytes()))?;
    Ok(keys(db)?.into_iter().map(|(key, _)| key).find(|key| key.id == id))
}

/// All keys, the oldest first.
pub(super) fn keys(db: &Connection) -> Result<Vec<(KeyView, KeyHash)>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, role, repos, name, created_at, expires_at, revoked_at, hash FROM keys ORDER BY id",
    )?;
    Ok(statement.query_map([], read_key)?.collect::<Result<_, _>>()?)
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<(KeyView, KeyHash)> {
    let role: String = row.get(1)?;
    let role = [Role::Admin, Role::Client, Role::Worker].into_iter().find(|known| known.as_str() == role);
    let repos: String = row.get(2)?;
    let instant = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_ms));
    let key = KeyView {
        id: KeyId::from_bytes(row.get(0)?),
        role: role.ok_or(rusqlite::Error::InvalidQuery)?,
        repos: serde_json::from_str(&repos).map_err(unreadable)?,
        name: row.get(3)?,
        created_at: Timestamp::from_ms(row.get(4)?),
        expires_at: instant(5)?,
        revoked_at: instant(6)?,
    };
    Ok((key, row.get(7)?))
}

const REPO: &str = "SELECT name, agent, max_running, paused, \
     (SELECT count(*) FROM tasks WHERE repo = repos.id AND state = 0 AND hold IS NULL) \
     + (SELECT count(*) FROM tasks WHERE repo = repos.id AND state = 0 AND hold IS NOT NULL), \
     (SELECT count(*) FROM tasks WHERE repo = repos.id AND state = 1) FROM repos";

/// All repos, by name.
pub(super) fn repos(db: &Connection) -> Result<Vec<RepoView>, StoreError> {
    let mut statement = db.prepare_cached(&format!("{REPO} ORDER BY name"))?;
    Ok(statement.query_map([], read_repo)?.collect::<Result<_, _>>()?)
}

/// One repo; one that was never used has nothing but its name.
pub(super) fn repo(db: &Connection, name: &RepoName) -> Result<RepoView, StoreError> {
    let found =
        db.prepare_cached(&format!("{REPO} WHERE name = ?1"))?.query_row([name.as_str()], read_repo).optional()?;
    Ok(found.unwrap_or_else(|| RepoView {
        repo: name.clone(),
        agent: None,
        max_running: None,
        paused: false,
        queued: 0,
        running: 0,
    }))
}

fn read_repo(row: &Row<'_>) -> rusqlite::Result<RepoView> {
    let name: String = row.get(0)?;
    Ok(RepoView {
        repo: name.parse().map_err(unreadable)?,
        agent: row.get(1)?,
        max_running: row.get(2)?,
        paused: row.get(3)?,
        queued: row.get::<_, i64>(4)?.cast_unsigned(),
        running: row.get::<_, i64>(5)?.cast_unsigned(),
    })
}

/// Changes how a repo is served.
pub(super) fn change_repo(db: &Connection, name: &RepoName, change: &RepoChange) -> Result<RepoView, StoreError> {
    let id = repo_id(db, name)?;
    if let Some(agent) = &change.agent {
        db.prepare_cached("UPDATE repos SET agent = ?1 WHERE id = ?2")?.execute((agent, id))?;
    }
    if let Some(most) = change.max_running {
        db.prepare_cached("UPDATE repos SET max_running = ?1 WHERE id = ?2")?.execute((most, id))?;
    }
    if let Some(is_paused) = change.paused {
        db.prepare_cached("UPDATE repos SET paused = ?1 WHERE id = ?2")?.execute((is_paused, id))?;
    }
    repo(db, name)
}

/// Remembers the workers that were seen.
pub(super) fn save_workers(db: &Connection, workers: &[StoredWorker]) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(
        "INSERT INTO workers (id, info, repos, last_seen_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET \
         info = excluded.info, repos = excluded.repos, last_seen_at = excluded.last_seen_at",
    )?;
    for worker in workers {
        let info = serde_json::to_string(&worker.info).map_err(corrupt)?;
        let repos = serde_json::to_string(&worker.repos).map_err(corrupt)?;
        statement.execute((worker.info.id.to_bytes(), info, repos, worker.last_seen_at.as_ms()))?;
    }
    db.prepare_cached(
        "DELETE FROM workers WHERE id NOT IN (SELECT id FROM workers ORDER BY last_seen_at DESC LIMIT ?1)",
    )?
    .execute([MAX_WORKERS])?;
    Ok(())
}

/// The workers that were seen after an instant.
pub(super) fn workers(db: &Connection, since: Timestamp) -> Result<Vec<StoredWorker>, StoreError> {
    let read = |row: &Row<'_>| {
        let (info, repos): (String, String) = (row.get(0)?, row.get(1)?);
        let info: WorkerInfo = serde_json::from_str(&info).map_err(unreadable)?;
        let repos = serde_json::from_str(&repos).map_err(unreadable)?;
        Ok(StoredWorker { info, repos, last_seen_at: Timestamp::from_ms(row.get(2)?) })
    };
    let mut statement = db.prepare_cached("SELECT info, repos, last_seen_at FROM workers WHERE last_seen_at >= ?1")?;
    Ok(statement.query_map([since.as_ms()], read)?.collect::<Result<_, _>>()?)
}
