//! The one thread that writes. It takes every operation that waits, runs them in one transaction, and answers all of
//! them after the commit.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::oneshot;

use crate::peers::SPEC;

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE task (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, leased_until INTEGER, exit_code INTEGER);
    CREATE INDEX queued ON task (id) WHERE state = 0;
    CREATE TABLE spec (task INTEGER PRIMARY KEY, spec TEXT NOT NULL);";

const TAKE: &str = "UPDATE task SET state = 1, leased_until = 30
    WHERE id = (SELECT id FROM task WHERE state = 0 ORDER BY id LIMIT 1) RETURNING id";

const FINISH: &str = "UPDATE task SET state = 2, exit_code = 0, leased_until = NULL WHERE id = ?1 AND state = 1";

/// The most operations in one commit.
const GROUP: usize = 256;

/// An operation and where its answer goes.
pub(super) enum Operation {
    Submit(oneshot::Sender<()>),
    Take(oneshot::Sender<Option<i64>>),
    Finish(i64, oneshot::Sender<()>),
}

/// The way to the thread; it ends when the last sender is gone.
pub(super) struct Writer {
    pub(super) operations: Sender<Operation>,
}

impl Writer {
    /// Makes the database and starts the thread.
    pub(super) fn start(file: &Path) -> Result<Self> {
        let db = Connection::open(file).context("making the database")?;
        db.execute_batch(TABLES)?;
        let (operations, waiting) = channel();
        std::thread::spawn(move || {
            if let Err(error) = write_groups(&db, &waiting) {
                eprintln!("writing failed: {error:#}");
            }
        });
        Ok(Self { operations })
    }
}

fn write_groups(db: &Connection, waiting: &Receiver<Operation>) -> Result<()> {
    while let Ok(first) = waiting.recv() {
        db.execute_batch("BEGIN IMMEDIATE")?;
        let mut answers = Vec::new();
        for operation in std::iter::once(first).chain(waiting.try_iter()).take(GROUP) {
            answers.push(run(db, operation)?);
        }
        db.execute_batch("COMMIT")?;
        answers.into_iter().for_each(|answer| answer());
    }
    Ok(())
}

/// Runs one operation; what it returns is to be called once that is kept. Whoever asked may be gone by then.
fn run(db: &Connection, operation: Operation) -> Result<Box<dyn FnOnce()>> {
    Ok(match operation {
        Operation::Submit(answer) => {
            db.prepare_cached("INSERT INTO task (state) VALUES (0)")?.execute([])?;
            db.prepare_cached("INSERT INTO spec VALUES (?1, ?2)")?.execute(params![db.last_insert_rowid(), SPEC])?;
            Box::new(|| answer.send(()).unwrap_or_default())
        }
        Operation::Take(answer) => {
            let taken = db.prepare_cached(TAKE)?.query_row([], |row| row.get(0)).optional()?;
            Box::new(move || answer.send(taken).unwrap_or_default())
        }
        Operation::Finish(task, answer) => {
            db.prepare_cached(FINISH)?.execute([task])?;
            Box::new(|| answer.send(()).unwrap_or_default())
        }
    })
}
