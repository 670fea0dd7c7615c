//! How the database finds what the hot operations ask for.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use coordinator::store::sqlite::select::{COUNT_RUNNING, NEXT_NEEDS, NEXT_PRIORITY};
use rusqlite::Connection;

/// What is asked, and how. The first three are the coordinator's own words; the others are what the rest comes down to.
const QUESTIONS: [(&str, &str); 8] = [
    ("the next kind of ready task that is as urgent", NEXT_NEEDS),
    ("the next kind of ready task that is less urgent", NEXT_PRIORITY),
    ("whether a repo is full", COUNT_RUNNING),
    ("a task by its id", "SELECT * FROM tasks WHERE id = ?1"),
    ("a task by its lease", "SELECT * FROM tasks WHERE lease = ?1"),
    ("leases that lapsed", "SELECT seq FROM tasks WHERE state = 1 AND lease_expires_at <= ?1 LIMIT ?2"),
    (
        "holds that are over",
        "SELECT seq FROM tasks WHERE state = 0 AND hold_until IS NOT NULL AND hold = 0 AND hold_until <= ?1",
    ),
    ("the newest state change", "SELECT max(feed) FROM events WHERE feed IS NOT NULL"),
];

/// One line for each step of each question.
pub(super) fn show(db: &Path) -> Result<String> {
    let db = Connection::open(db)?;
    let mut shown = String::new();
    for (question, sql) in QUESTIONS {
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).with_context(|| format!("planning: {sql}"))?;
        // Without values for its parameters: the plan must not depend on them.
        let steps: Vec<String> = plan.raw_query().mapped(|row| row.get("detail")).collect::<Result<_, _>>()?;
        writeln!(shown, "  {question}: {}", steps.join("; "))?;
    }
    Ok(shown)
}
