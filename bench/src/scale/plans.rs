//! How the database finds what the hot operations ask for.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use rusqlite::Connection;

/// What is asked, and how.
const QUESTIONS: [(&str, &str); 4] = [
    ("a task by its id", "SELECT * FROM tasks WHERE id = ?1"),
    ("a task by its lease", "SELECT * FROM tasks WHERE lease = ?1"),
    ("leases that lapsed", "SELECT seq FROM tasks WHERE state = 1 AND lease_expires_at <= ?1 LIMIT ?2"),
    ("the newest state change", "SELECT max(feed) FROM events WHERE feed IS NOT NULL"),
];

/// One line for each step of each question.
pub(super) fn show(db: &Path) -> Result<String> {
    let db = Connection::open(db)?;
    let mut shown = String::new();
    for (question, sql) in QUESTIONS {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).with_context(|| format!("planning: {sql}"))?;
        let steps: Vec<String> = plan.query_map([], |row| row.get("detail"))?.collect::<Result<_, _>>()?;
        writeln!(shown, "  {question}: {}", steps.join("; "))?;
    }
    Ok(shown)
}
