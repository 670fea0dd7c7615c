//! The outbox of the published copy, and what the copy was when it was last written.

use protocol::SessionName;
use rusqlite::{Connection, Row, params};

use super::{Result as Answer, Sqlite};
use crate::store::types::{Done, Durability, MirrorFile, MirrorPart, Mirrored, StoreError, StoredCopy, ToMirror};

/// Rows that are taken at once.
const ROWS_AT_ONCE: u32 = 128;

/// Until a session that is gone is removed from the copy, nothing of a new one of its name is put there.
const ROWS: &str = "SELECT m.session, m.path, m.changed, e.kind, e.blob, e.sha256, c.problem, c.tag FROM mirror m
    LEFT JOIN sessions s ON s.name = m.session
    LEFT JOIN entries e ON e.session = s.id AND e.path = m.path AND e.to_version IS NULL
    LEFT JOIN copies c ON c.session = m.session AND c.path = m.path
    WHERE (m.path = '' OR NOT EXISTS (SELECT 1 FROM mirror w WHERE w.session = m.session AND w.path = ''))";

impl Sqlite {
    pub(in crate::store) async fn to_mirror(&self, part: MirrorPart) -> Answer<Vec<ToMirror>> {
        self.readers.run(move |db| rows(db, &part)).await
    }

    pub(in crate::store) async fn mirrored(&self, all: Vec<Mirrored>) -> Answer<()> {
        self.writer.run(Durability::Process, move |db| done(db, &all)).await
    }

    pub(in crate::store) async fn is_mirror_pending(&self, session: SessionName, path: String) -> Answer<bool> {
        self.readers.run(move |db| is_pending(db, &session, &path)).await
    }

    pub(in crate::store) async fn mirror_pending(&self) -> Answer<u64> {
        self.readers.run(pending).await
    }

    pub(in crate::store) async fn copies(&self, session: SessionName) -> Answer<Vec<StoredCopy>> {
        self.readers.run(move |db| copies(db, &session)).await
    }
}

fn rows(db: &Connection, part: &MirrorPart) -> Result<Vec<ToMirror>, StoreError> {
    let (condition, session, path) = match part {
        MirrorPart::After(session, path) => ("(m.session, m.path) > (?1, ?2)", session.as_str(), path),
        MirrorPart::One(session, path) => ("m.session = ?1 AND m.path = ?2", session.as_str(), path),
    };
    let sql = format!("{ROWS} AND {condition} ORDER BY m.session, m.path LIMIT ?3");
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map((session, path, ROWS_AT_ONCE), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ToMirror> {
    let file = match (row.get(3)?, row.get(4)?, row.get(5)?) {
        (Some(0), Some(blob), Some(sha256)) => Some(MirrorFile { blob, sha256 }),
        (_, _, _) => None,
    };
    let (is_there, has_copy) = (row.get::<_, Option<i64>>(3)?.is_some(), row.get::<_, Option<String>>(7)?.is_some());
    let changed = row.get::<_, i64>(2)?.cast_unsigned();
    let session = row.get::<_, String>(0)?.parse().map_err(|error: protocol::name::BadName| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(ToMirror {
        session,
        path: row.get(1)?,
        changed,
        file,
        may_have_copy: has_copy || !is_there,
        problem: row.get(6)?,
    })
}

/// Takes rows out of the outbox, unless what they say changed again meanwhile.
fn done(db: &Connection, all: &[Mirrored]) -> Result<(), StoreError> {
    for Mirrored { row, done } in all {
        remember(db, row, done)?;
        db.prepare_cached(
            "DELETE FROM mirror WHERE session = ?1 AND path = ?2 AND changed = ?3 AND (?2 = '' OR ?4 IS (
                SELECT e.blob FROM entries e JOIN sessions s ON s.id = e.session
                WHERE s.name = ?1 AND e.path = ?2 AND e.to_version IS NULL AND e.kind = 0))",
        )?
        .execute((
            row.session.as_str(),
            &row.path,
            row.changed.cast_signed(),
            row.file.as_ref().map(|file| file.blob.as_str()),
        ))?;
    }
    Ok(())
}

fn remember(db: &Connection, row: &ToMirror, done: &Done) -> Result<(), StoreError> {
    let session = row.session.as_str();
    let sha256 = row.file.as_ref().map_or("", |file| file.sha256.as_str());
    let put = |size: u64, tag: &str, problem: Option<&str>| {
        db.prepare_cached(
            "INSERT OR REPLACE INTO copies (session, path, size, tag, sha256, problem) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![session, row.path, size.cast_signed(), tag, sha256, problem])
    };
    match done {
        Done::Copied { size, tag } => put(*size, tag, None)?,
        Done::Refused(problem) => put(0, "", Some(problem))?,
        Done::Removed if row.path.is_empty() => {
            db.prepare_cached("DELETE FROM copies WHERE session = ?1")?.execute([session])?
        }
        Done::Removed => {
            db.prepare_cached("DELETE FROM copies WHERE session = ?1 AND path = ?2")?.execute((session, &row.path))?
        }
    };
    Ok(())
}

/// Whether a path is still to be copied.
fn is_pending(db: &Connection, session: &SessionName, path: &str) -> Result<bool, StoreError> {
    let mut statement = db.prepare_cached("SELECT 1 FROM mirror WHERE session = ?1 AND path IN (?2, '')")?;
    Ok(statement.exists((session.as_str(), path))?)
}

/// Rows that wait.
fn pending(db: &Connection) -> Result<u64, StoreError> {
    let count: i64 = db.prepare_cached("SELECT count(*) FROM mirror")?.query_row([], |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// The copies of a session as they were written, and what is about to change.
fn copies(db: &Connection, session: &SessionName) -> Result<Vec<StoredCopy>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT path, size, tag, sha256, problem, EXISTS (SELECT 1 FROM mirror m WHERE m.session = ?1 AND m.path = c.path)
             FROM copies c WHERE session = ?1
         UNION ALL
         SELECT path, 0, '', '', NULL, 1 FROM mirror m
             WHERE session = ?1 AND NOT EXISTS (SELECT 1 FROM copies c WHERE c.session = ?1 AND c.path = m.path)",
    )?;
    let rows = statement.query_map([session.as_str()], |row| {
        Ok(StoredCopy {
            path: row.get(0)?,
            size: row.get::<_, i64>(1)?.cast_unsigned(),
            tag: row.get(2)?,
            sha256: row.get(3)?,
            problem: row.get(4)?,
            is_pending: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
