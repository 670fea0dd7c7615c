//! Brings a database to the newest schema, one numbered step at a time, each in a transaction. A database that holds
//! something is copied first. One that is newer than this program is left alone.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

/// The steps; the number of a step is its place, from 1. A released step never changes.
pub(super) const STEPS: &[&str] =
    &[include_str!("sqlite/schema-1.sql"), include_str!("sqlite/schema-2.sql"), include_str!("sqlite/schema-3.sql")];

/// Takes all steps that the database has not taken, and says where the copy is that was made before.
pub(super) fn migrate(db: &mut Connection, path: &Path, steps: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let taken: u32 =
        db.pragma_query_value(None, "user_version", |row| row.get(0)).context("reading the schema's version")?;
    let taken = taken as usize;
    ensure!(
        taken <= steps.len(),
        "the database {} has schema {taken}, this program knows up to {}: use the newer cw-coordinator, or restore the \
         backup that it made before it migrated",
        path.display(),
        steps.len(),
    );
    let copy = (taken > 0 && taken < steps.len()).then(|| path.with_extension(format!("before-{}.db", steps.len())));
    if let Some(copy) = &copy {
        super::sqlite::copy(db, copy).with_context(|| format!("copying the database to {}", copy.display()))?;
    }
    for (place, step) in steps.iter().enumerate().skip(taken) {
        let number = place + 1;
        let tx = db.transaction()?;
        tx.execute_batch(step).with_context(|| format!("taking step {number} of the schema"))?;
        tx.pragma_update(None, "user_version", i64::try_from(number)?)?;
        tx.commit()?;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests;
