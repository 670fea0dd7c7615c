//! The one thread that writes. It takes all operations that wait, runs each in a savepoint of one transaction, commits,
//! and only then answers: the price of an fsync is shared by everyone who waited for the one before.
//!
//! A WAL commit with `synchronous=FULL` is on the disk when it returns; with `NORMAL` it is in the WAL file, where a crash of
//! the process cannot hurt it. Power loss removes only a suffix of the WAL, so no durable commit is ever lost to a lazy one.

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::{mpsc, oneshot};

use crate::store::types::{Durability, StoreError};

/// Operations in one commit: enough to share an fsync widely, few enough to answer the first of them soon.
const MAX_BATCH: usize = 256;
/// Operations that may wait; whoever comes then waits before the door.
const MAX_WAITING: usize = 4096;

/// How long a batch waits for those who were just answered.
const LINGER: Duration = Duration::from_micros(200);
/// Bytes of the log between two checkpoints: few enough to keep it small, enough to make its fsyncs rare.
const CHECKPOINT_BYTES: usize = 16 << 20;
/// What an operation writes besides the bytes that it was given.
const OPERATION_BYTES: usize = 16 << 10;

type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

struct Operation {
    durability: Durability,
    bytes: usize,
    run: Box<dyn FnOnce(&Connection) -> Ran + Send>,
    is_last: bool,
}

/// What an operation did, and who waits to hear of it once it is committed.
struct Ran {
    is_kept: bool,
    answer: Answer,
}

/// The way to the writing thread.
pub(super) struct Writer {
    operations: mpsc::Sender<Operation>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread on its connection.
    pub(super) fn start(db: Connection) -> std::io::Result<Self> {
        let (operations, waiting) = mpsc::channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("writer".into()).spawn(move || write_all(&db, waiting))?;
        Ok(Self { operations, thread: Mutex::new(Some(thread)) })
    }

    /// Runs one operation in a transaction; answers when it is committed, or when it failed and left nothing behind.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        durability: Durability,
        operation: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_large(durability, 0, operation).await
    }

    /// The same for one that brings so many bytes to be kept.
    pub(super) async fn run_large<T: Send + 'static>(
        &self,
        durability: Durability,
        bytes: usize,
        operation: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let run = Box::new(move |db: &Connection| {
            let outcome = in_savepoint(db, operation);
            let is_kept = outcome.is_ok();
            let answer: Answer = Box::new(move |committed| {
                // Whoever asked may be gone; what was done stays done.
                drop(sender.send(committed.and(outcome)));
            });
            Ran { is_kept, answer }
        });
        self.operations
            .send(Operation { durability, bytes, run, is_last: false })
            .await
            .map_err(|_| StoreError::Closed)?;
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// Lets what waits finish, then ends the thread. Whoever comes later is told that the store is closed.
    pub(super) async fn close(&self) {
        let answer: Answer = Box::new(|_| {});
        let run = Box::new(|_: &Connection| Ran { is_kept: false, answer });
        // A thread that is gone needs no word.
        drop(self.operations.send(Operation { durability: Durability::Process, bytes: 0, run, is_last: true }).await);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let joined = tokio::task::spawn_blocking(move || thread.map_or(Ok(()), JoinHandle::join)).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the writing thread panicked");
        }
    }
}

fn in_savepoint<T>(
    db: &Connection,
    operation: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // A full disk rolls back the whole transaction. What comes after in its batch must not begin another.
    if db.is_autocommit() {
        return Err(StoreError::DiskFull);
    }
    db.prepare_cached("SAVEPOINT operation")?.execute([])?;
    let outcome = operation(db);
    if !db.is_autocommit() {
        if outcome.is_err() {
            db.prepare_cached("ROLLBACK TO operation")?.execute([])?;
        }
        db.prepare_cached("RELEASE operation")?.execute([])?;
    }
    outcome.map_err(classify)
}

fn write_all(db: &Connection, mut waiting: mpsc::Receiver<Operation>) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut level = None;
    let mut unchecked = 0;
    let mut answered = 0;
    let mut is_last = false;
    while !is_last && waiting.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        if needs_sync(&batch) {
            linger(&mut waiting, &mut batch, answered);
        }
        answered = batch.len();
        is_last = batch.iter().any(|operation| operation.is_last);
        let durability = if needs_sync(&batch) { Durability::Power } else { Durability::Process };
        if level != Some(durability) {
            level = set_level(db, durability).then_some(durability);
        }
        unchecked += batch.iter().map(|operation| operation.bytes).sum::<usize>();
        unchecked += OPERATION_BYTES * write_batch(db, batch.drain(..));
        if unchecked >= CHECKPOINT_BYTES {
            checkpoint(db, "PRAGMA wal_checkpoint(PASSIVE)");
            unchecked = 0;
        }
    }
    // What a crash would have to recover is written back now.
    checkpoint(db, "PRAGMA wal_checkpoint(TRUNCATE)");
}

fn needs_sync(batch: &[Operation]) -> bool {
    batch.iter().any(|operation| operation.durability == Durability::Power)
}

/// Those who were just answered tend to ask again at once. To wait for them a moment, far shorter than an fsync, lets them
/// share the next one; else they would meet it half-way and wait for two.
fn linger(waiting: &mut mpsc::Receiver<Operation>, batch: &mut Vec<Operation>, answered: usize) {
    let expected = (batch.len() + answered).min(MAX_BATCH);
    let deadline = Instant::now() + LINGER;
    while answered > 1 && batch.len() < expected && Instant::now() < deadline {
        match waiting.try_recv() {
            Ok(operation) => batch.push(operation),
            Err(_) => std::thread::sleep(LINGER / 8),
        }
    }
}

/// Writes the log back into the database. SQLite would do so by itself, but keep a failed fsync to itself too.
fn checkpoint(db: &Connection, how: &str) {
    if let Err(error) = db.query_row(how, [], |_| Ok(())) {
        tracing::warn!(%error, "could not write the log back into the database; tried again later");
        die_of_failed_sync(&error);
    }
}

/// Chooses between the two ways of committing. It can only be done between transactions.
fn set_level(db: &Connection, durability: Durability) -> bool {
    let level = match durability {
        Durability::Power => "FULL",
        Durability::Process => "NORMAL",
    };
    db.pragma_update(None, "synchronous", level)
        .inspect_err(|error| tracing::error!(%error, level, "could not choose how to commit"))
        .is_ok()
}

/// Runs and commits a batch, answers everyone, and says how many operations were kept.
fn write_batch(db: &Connection, batch: impl Iterator<Item = Operation>) -> usize {
    let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
    let mut answers = Vec::with_capacity(MAX_BATCH);
    let mut kept = 0usize;
    for operation in batch {
        let ran = (operation.run)(db);
        kept += usize::from(ran.is_kept);
        answers.push(ran.answer);
    }
    let committed = begun.map(drop).and_then(|()| commit(db));
    if let Err(error) = &committed {
        tracing::error!(%error, kept, "could not commit; nothing of this batch happened");
        die_of_failed_sync(error);
        if !db.is_autocommit()
            && let Err(error) = db.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "could not roll back");
        }
    }
    for answer in answers {
        answer(match &committed {
            Ok(()) => Ok(()),
            Err(error) => Err(classify(StoreError::Database(copy_of(error)))),
        });
    }
    kept
}

fn commit(db: &Connection) -> Result<(), rusqlite::Error> {
    if db.is_autocommit() {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None));
    }
    db.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// After a failed fsync nobody knows what is on the disk: the kernel may have dropped the pages and forgotten the error. The
/// only safe reader of the database is a new start.
#[expect(clippy::exit, reason = "going on would acknowledge what may be lost")]
fn die_of_failed_sync(error: &rusqlite::Error) {
    const SYNC_FAILURES: [i32; 3] = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_IOERR_TRUNCATE];
    if error.sqlite_error().is_some_and(|error| SYNC_FAILURES.contains(&error.extended_code)) {
        tracing::error!("the disk refused to keep data (fsync failed): stopping; check the disk, then start again");
        std::process::exit(74);
    }
}

fn classify(error: StoreError) -> StoreError {
    let is_full =
        matches!(&error, StoreError::Database(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull));
    if is_full { StoreError::DiskFull } else { error }
}

/// Every one of a failed batch is told; the error itself cannot be cloned.
fn copy_of(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().copied().unwrap_or_else(|| ffi::Error::new(ffi::SQLITE_ERROR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
