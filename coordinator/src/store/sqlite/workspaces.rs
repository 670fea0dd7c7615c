//! Sessions as rows: made by their first use or on request, listed, forked, kept as snapshots and brought back, deleted.

use std::collections::BTreeMap;

use protocol::workspace::{Restored, SessionView, SnapshotView};
use protocol::{SessionName, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::draft::Draft;
use super::session::repo_name;
use super::submit::repo_id;
use super::{row, tree};
use crate::clock::Now;
use crate::store::types::{
    SessionFilter, SessionRules, SessionToMake, StoreError, StoredSession, Tree, WorkspaceError,
};

const COLUMNS: &str =
    "id, name, repo, labels, quota_bytes, version, known_from, used_bytes, entries, created_at, used_at";

/// A session's row.
pub(super) struct SessionRow {
    pub(super) place: i64,
    pub(super) name: SessionName,
    pub(super) repo: Option<i64>,
    labels: String,
    quota_bytes: Option<u64>,
    pub(super) version: u64,
    pub(super) known_from: u64,
    pub(super) used_bytes: u64,
    pub(super) entries: u64,
    created_at: Timestamp,
    used_at: Timestamp,
}

impl SessionRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let count = |place: usize| row.get::<_, i64>(place).map(i64::cast_unsigned);
        let name: String = row.get(1)?;
        let name = name.parse().map_err(|error: protocol::name::BadName| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
        })?;
        Ok(Self {
            place: row.get(0)?,
            name,
            repo: row.get(2)?,
            labels: row.get(3)?,
            quota_bytes: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
            version: count(5)?,
            known_from: count(6)?,
            used_bytes: count(7)?,
            entries: count(8)?,
            created_at: Timestamp::from_ms(row.get(9)?),
            used_at: Timestamp::from_ms(row.get(10)?),
        })
    }

    /// Bytes that it may have.
    pub(super) fn allowed(&self, rules: &SessionRules) -> u64 {
        self.quota_bytes.unwrap_or(rules.quota_bytes)
    }

    pub(super) const fn tree(&self) -> Tree {
        Tree { session: self.place, version: self.version }
    }

    fn stored(self, db: &Connection, rules: &SessionRules) -> Result<StoredSession, StoreError> {
        let labels = serde_json::from_str(&self.labels).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let repo = self.repo.map(|repo| repo_name(db, repo)).transpose()?;
        let holder = match self.repo {
            Some(repo) => super::session::writing(db, repo, self.name.as_str())?,
            None => None,
        };
        let holder = holder.map(|seq| row::by_seq(db, seq)).transpose()?.flatten().map(|task| task.id);
        let view = SessionView {
            allowed_bytes: self.allowed(rules),
            session: self.name,
            repo,
            version: self.version,
            labels,
            used_bytes: self.used_bytes,
            entries: self.entries,
            created_at: self.created_at,
            used_at: self.used_at,
            holder,
        };
        Ok(StoredSession { place: self.place, view })
    }
}

/// A session's row, if there is one.
pub(super) fn find(db: &Connection, name: &SessionName) -> Result<Option<SessionRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE name = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([name.as_str()], SessionRow::read).optional()?)
}

/// A session's row, which must be there.
pub(super) fn existing(db: &Connection, name: &SessionName) -> Result<SessionRow, StoreError> {
    Ok(find(db, name)?.ok_or(WorkspaceError::NoSession)?)
}

/// A session with what a client sees of it.
pub(super) fn session(
    db: &Connection,
    name: &SessionName,
    rules: &SessionRules,
) -> Result<Option<StoredSession>, StoreError> {
    find(db, name)?.map(|found| found.stored(db, rules)).transpose()
}

/// Makes a session that is not there.
pub(super) fn create(
    db: &Connection,
    new: &SessionToMake,
    rules: &SessionRules,
    now: Now,
) -> Result<StoredSession, StoreError> {
    if find(db, &new.name)?.is_some() {
        return Err(WorkspaceError::SessionExists.into());
    }
    insert(db, new, now)?;
    let made = existing(db, &new.name)?;
    let mut draft = Draft::begin(db, &made, now.at);
    for directory in &rules.layout {
        draft.make_parents(directory.as_str())?;
        draft.make_directory(directory.as_str(), 0o755)?;
    }
    draft.finish("layout", u64::MAX)?;
    existing(db, &new.name)?.stored(db, rules)
}

fn insert(db: &Connection, new: &SessionToMake, now: Now) -> Result<(), StoreError> {
    let repo = new.repo.as_ref().map(|repo| repo_id(db, repo)).transpose()?;
    let labels = serde_json::to_string(&new.labels).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    db.prepare_cached(
        "INSERT INTO sessions (name, repo, labels, quota_bytes, created_at, used_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
    )?
    .execute(params![new.name.as_str(), repo, labels, new.quota_bytes.map(u64::cast_signed), now.at.as_ms()])?;
    Ok(())
}

/// The session that a task of a repo works in: made by its first use, and the repo's from then on.
pub(super) fn claim(
    db: &Connection,
    name: &SessionName,
    repo: i64,
    rules: &SessionRules,
    now: Now,
) -> Result<(), StoreError> {
    match find(db, name)? {
        None => {
            let repo = Some(repo_name(db, repo)?);
            let new = SessionToMake { name: name.clone(), repo, labels: BTreeMap::new(), quota_bytes: None };
            create(db, &new, rules, now).map(drop)
        }
        Some(found) if found.repo.is_some_and(|owner| owner != repo) => {
            Err(WorkspaceError::AnotherRepo(name.clone()).into())
        }
        Some(found) => {
            db.prepare_cached("UPDATE sessions SET repo = ?2, used_at = max(used_at, ?3) WHERE id = ?1")?.execute((
                found.place,
                repo,
                now.at.as_ms(),
            ))?;
            Ok(())
        }
    }
}

/// A page of sessions by name, and whether there are more.
pub(super) fn list(
    db: &Connection,
    filter: &SessionFilter,
    rules: &SessionRules,
) -> Result<(Vec<SessionView>, bool), StoreError> {
    // A label's name is plain; what is not one names nothing, and must not become part of a path into JSON.
    if filter.label.as_ref().is_some_and(|(name, _)| name.contains(['"', '\\'])) {
        return Ok((Vec::new(), false));
    }
    let marks = vec!["?"; filter.repos.len()].join(", ");
    let repos = if filter.repos.is_empty() {
        String::new()
    } else {
        format!(" AND repo IN (SELECT id FROM repos WHERE name IN ({marks}))")
    };
    let label = if filter.label.is_some() { " AND json_extract(labels, ?) = ?" } else { "" };
    let mut values = vec![Value::Text(filter.after.clone().unwrap_or_default())];
    values.extend(filter.repos.iter().map(|repo| Value::Text(repo.as_str().to_owned())));
    if let Some((name, value)) = &filter.label {
        values.extend([Value::Text(format!("$.\"{name}\"")), Value::Text(value.clone())]);
    }
    // One more than asked for tells whether another page follows.
    let sql =
        format!("SELECT {COLUMNS} FROM sessions WHERE name > ?{repos}{label} ORDER BY name LIMIT {}", filter.limit + 1);
    let rows = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), SessionRow::read)?
        .collect::<Result<Vec<_>, _>>()?;
    let is_more = rows.len() > filter.limit as usize;
    let rows = rows.into_iter().take(filter.limit as usize);
    let views = rows.map(|found| found.stored(db, rules).map(|stored| stored.view)).collect::<Result<_, _>>()?;
    Ok((views, is_more))
}

/// Forgets a session in which no task works or waits. Its entries are swept later.
pub(super) fn delete(db: &Connection, name: &SessionName) -> Result<(), StoreError> {
    let found = existing(db, name)?;
    let busy: Option<[u8; 16]> = db
        .prepare_cached("SELECT id FROM tasks WHERE session = ?1 AND state < 2 ORDER BY state DESC, seq LIMIT 1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(holder) = busy {
        return Err(WorkspaceError::Busy { holder: protocol::TaskId::from_bytes(holder) }.into());
    }
    for sql in [
        "DELETE FROM snapshots WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
        "INSERT INTO gone_sessions (id) VALUES (?1)",
    ] {
        db.prepare_cached(sql)?.execute([found.place])?;
    }
    db.prepare_cached("DELETE FROM mirror WHERE session = ?1")?.execute([name.as_str()])?;
    db.prepare_cached("INSERT INTO mirror (session, path, changed) VALUES (?1, '', ?2)")?
        .execute((name.as_str(), found.version.cast_signed()))?;
    Ok(())
}

/// Remembers when sessions were last used.
pub(super) fn touch(db: &Connection, used: &[(SessionName, Timestamp)]) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached("UPDATE sessions SET used_at = max(used_at, ?2) WHERE name = ?1")?;
    for (name, at) in used {
        statement.execute((name.as_str(), at.as_ms()))?;
    }
    Ok(())
}

/// Sessions that were last used before an instant and in which no task works or waits; a bounded number.
pub(super) fn unused(db: &Connection, before: Timestamp) -> Result<Vec<SessionName>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE used_at < ?1 AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.session = \
         sessions.name AND state < 2) ORDER BY used_at LIMIT 50"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map([before.as_ms()], SessionRow::read)?;
    Ok(rows.map(|row| row.map(|found| found.name)).collect::<Result<_, _>>()?)
}

/// Makes a session of the same repo that begins as another is, or was: rows, and no bytes.
pub(super) fn fork(
    db: &Connection,
    of: &SessionName,
    new: &SessionToMake,
    snapshot: Option<&str>,
    (rules, now): (&SessionRules, Now),
) -> Result<StoredSession, StoreError> {
    let parent = existing(db, of)?;
    if find(db, &new.name)?.is_some() {
        return Err(WorkspaceError::SessionExists.into());
    }
    let source = snapshot.map_or(Ok(parent.tree()), |name| snapshot_tree(db, &parent, name))?;
    insert(db, new, now)?;
    let made = existing(db, &new.name)?;
    db.prepare_cached("UPDATE sessions SET repo = ?2, quota_bytes = ?3 WHERE id = ?1")?.execute((
        made.place,
        parent.repo,
        new.quota_bytes.or(parent.quota_bytes).map(u64::cast_signed),
    ))?;
    let mut draft = Draft::begin(db, &made, now.at);
    let mut after = String::new();
    loop {
        let page = tree::walk(db, source, "", &after, 1000)?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.path);
        page.into_iter().try_for_each(|entry| draft.put_entry(entry))?;
    }
    draft.finish(of.as_str(), u64::MAX)?;
    existing(db, &new.name)?.stored(db, rules)
}

/// The version that a snapshot keeps.
pub(super) fn snapshot_tree(db: &Connection, of: &SessionRow, name: &str) -> Result<Tree, StoreError> {
    let version: Option<i64> = db
        .prepare_cached("SELECT version FROM snapshots WHERE session = ?1 AND name = ?2")?
        .query_row((of.place, name), |row| row.get(0))
        .optional()?;
    let version = version.ok_or_else(|| WorkspaceError::NoSnapshot(name.to_owned()))?;
    Ok(Tree { session: of.place, version: version.cast_unsigned() })
}

/// Keeps a version under a name.
pub(super) fn keep(db: &Connection, of: &SessionRow, name: &str, now: Now) -> Result<SnapshotView, StoreError> {
    let is_new = db
        .prepare_cached(
            "INSERT OR IGNORE INTO snapshots (session, name, version, used_bytes, entries, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            of.place,
            name,
            of.version.cast_signed(),
            of.used_bytes.cast_signed(),
            of.entries.cast_signed(),
            now.at.as_ms(),
        ))?;
    if is_new == 0 {
        return Err(WorkspaceError::Exists(name.to_owned()).into());
    }
    let (used_bytes, entries) = (of.used_bytes, of.entries);
    Ok(SnapshotView { name: name.to_owned(), version: of.version, used_bytes, entries, created_at: now.at })
}

/// A session's snapshots, the oldest first.
pub(super) fn snapshots(db: &Connection, of: &SessionName) -> Result<Vec<SnapshotView>, StoreError> {
    let found = existing(db, of)?;
    let mut statement = db.prepare_cached(
        "SELECT name, version, used_bytes, entries, created_at FROM snapshots WHERE session = ?1 ORDER BY created_at, name",
    )?;
    let count = |row: &Row<'_>, place: usize| row.get::<_, i64>(place).map(i64::cast_unsigned);
    let read = |row: &Row<'_>| {
        Ok(SnapshotView {
            name: row.get(0)?,
            version: count(row, 1)?,
            used_bytes: count(row, 2)?,
            entries: count(row, 3)?,
            created_at: Timestamp::from_ms(row.get(4)?),
        })
    };
    Ok(statement.query_map([found.place], read)?.collect::<Result<_, _>>()?)
}

/// Forgets a snapshot.
pub(super) fn forget(db: &Connection, of: &SessionName, name: &str) -> Result<(), StoreError> {
    let found = existing(db, of)?;
    let gone =
        db.prepare_cached("DELETE FROM snapshots WHERE session = ?1 AND name = ?2")?.execute((found.place, name))?;
    if gone == 0 { Err(WorkspaceError::NoSnapshot(name.to_owned()).into()) } else { Ok(()) }
}

/// Makes a new version that equals a snapshot.
pub(super) fn restore(
    db: &Connection,
    of: &SessionName,
    name: &str,
    by: &str,
    (rules, now): (&SessionRules, Now),
) -> Result<Restored, StoreError> {
    let found = existing(db, of)?;
    let wanted = snapshot_tree(db, &found, name)?;
    let mut draft = Draft::begin(db, &found, now.at);
    draft.become_version(wanted.version)?;
    let version = draft.finish(by, found.allowed(rules))?;
    Ok(Restored { snapshot: name.to_owned(), version, changed: draft.tally.paths() })
}
