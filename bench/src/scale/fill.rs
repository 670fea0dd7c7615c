//! Stores very many tasks by copying one, while the coordinator is stopped: a million submissions would take longer than
//! everything that is measured with them.

use std::path::Path;

use anyhow::{Context as _, Result};
use protocol::TaskId;
use rusqlite::{Connection, params};

/// A number for each copy, from 1.
const NUMBERS: &str = "WITH RECURSIVE copy (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < ?2)";

/// Tables with one or a few rows for each task, and the column that names the task.
const TABLES: [(&str, &str); 4] = [("specs", "task"), ("results", "task"), ("labels", "task"), ("events", "task")];

/// How many tasks are stored.
pub(super) fn stored(db: &Path) -> Result<u32> {
    Ok(Connection::open(db)?.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))?)
}

/// Stores so many copies of a task with everything that belongs to it.
pub(super) fn copy(db: &Path, model: TaskId, copies: u32) -> Result<()> {
    if copies == 0 {
        return Ok(());
    }
    let mut db = Connection::open(db).context("opening the stopped coordinator's database")?;
    db.pragma_update(None, "synchronous", "OFF")?;
    db.pragma_update(None, "cache_size", -200_000)?;
    let tx = db.transaction()?;
    let find = "SELECT seq, (SELECT max(seq) FROM tasks), (SELECT max(feed) FROM events) FROM tasks WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (model_seq, last_seq, last_feed): (i64, i64, i64) =
        tx.query_row(find, [&model.to_bytes()[..]], read).context("finding the task to copy")?;
    for (table, key) in [("tasks", "seq")].into_iter().chain(TABLES) {
        tx.execute(&copy_rows(&tx, table, key)?, params![model_seq, copies, last_seq, last_feed])
            .with_context(|| format!("copying rows of {table}"))?;
    }
    tx.commit()?;
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").context("writing the copies back")
}

/// The statement that copies the rows of one table. It takes the model, the number of copies, the last task, the last event.
fn copy_rows(db: &Connection, table: &str, key: &str) -> Result<String> {
    let mut names = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names: Vec<String> = names.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let values: Vec<String> = names.iter().map(|name| value(name, key)).collect();
    let (into, from) = (names.join(", "), values.join(", "));
    // ?4 stands in each statement, so that all take the same values.
    let rows = format!("copy JOIN {table} model ON model.{key} = ?1 WHERE ?4 IS NOT NULL");
    Ok(format!("{NUMBERS} INSERT INTO {table} ({into}) SELECT {from} FROM {rows}"))
}

/// What a copy has in a column: what its model has, except where copies must differ.
fn value(name: &str, key: &str) -> String {
    match name {
        _ if name == key => "?3 + n".to_owned(),
        // As the program makes them: time first, then chance, so that newer ones sort last.
        "id" | "lease" if key == "seq" => {
            format!("iif(model.{name} IS NULL, NULL, unhex(printf('%012X', ?3 + n) || hex(randomblob(10))))")
        }
        "feed" => "iif(model.feed IS NULL, NULL, ?4 + (n - 1) * 64 + model.number)".to_owned(),
        _ => format!("model.{name}"),
    }
}
