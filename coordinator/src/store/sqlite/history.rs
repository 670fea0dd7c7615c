//! Sweeps what no version in use needs: old rows of entries, versions that nobody can ask for, deleted sessions.

use protocol::Timestamp;
use rusqlite::Connection;

use crate::store::types::StoreError;

const ROWS_AT_ONCE: u32 = 5_000;

/// One step; says how many rows went. Versions that were newest after `before` stay whole, so that a worker that has one of
/// them is told only the differences.
pub(super) fn sweep(db: &Connection, before: Timestamp) -> Result<u64, StoreError> {
    db.prepare_cached(
        "UPDATE sessions SET known_from = floor.number FROM (SELECT session, max(number) AS number FROM versions \
         WHERE made_at < ?1 GROUP BY session) AS floor WHERE floor.session = id AND floor.number > known_from",
    )?
    .execute([before.as_ms()])?;
    let rows = db
        .prepare_cached(
            "DELETE FROM entries WHERE (session, path, from_version) IN (SELECT e.session, e.path, e.from_version \
             FROM sessions CROSS JOIN entries AS e INDEXED BY entries_ended ON e.session = sessions.id \
             AND e.to_version <= sessions.known_from AND e.to_version IS NOT NULL WHERE \
             NOT EXISTS (SELECT 1 FROM snapshots AS s WHERE s.session = e.session AND s.version >= e.from_version \
             AND s.version < e.to_version) AND \
             NOT EXISTS (SELECT 1 FROM pins AS p WHERE p.session = e.session AND p.version >= e.from_version \
             AND p.version < e.to_version) LIMIT ?1)",
        )?
        .execute([ROWS_AT_ONCE])?;
    let versions = db
        .prepare_cached(
            "DELETE FROM versions WHERE (session, number) IN (SELECT v.session, v.number FROM versions AS v \
             JOIN sessions ON sessions.id = v.session WHERE v.number < known_from LIMIT ?1)",
        )?
        .execute([ROWS_AT_ONCE])?;
    Ok((rows + versions) as u64 + gone_sessions(db)?)
}

fn gone_sessions(db: &Connection) -> Result<u64, StoreError> {
    let mut total = 0;
    let gone: Vec<i64> = db
        .prepare_cached("SELECT id FROM gone_sessions LIMIT 10")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for session in gone {
        let entries = db
            .prepare_cached(
                "DELETE FROM entries WHERE session = ?1 AND (path, from_version) IN \
                 (SELECT path, from_version FROM entries WHERE session = ?1 LIMIT ?2)",
            )?
            .execute((session, ROWS_AT_ONCE))?;
        if entries == 0 {
            db.prepare_cached("DELETE FROM versions WHERE session = ?1")?.execute([session])?;
            db.prepare_cached("DELETE FROM gone_sessions WHERE id = ?1")?.execute([session])?;
        }
        total += entries + 1;
    }
    Ok(total as u64)
}
