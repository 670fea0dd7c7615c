//! Tasks in a SQLite file: one thread writes, a few connections read, and each question or change is a file below.
//!
//! WAL mode: readers see the last commit and never wait. One coordinator owns the file; `lock` in the state directory
//! keeps others out.

mod admin;
mod artifacts;
mod checkouts;
mod draft;
mod events;
mod files;
mod history;
mod prune;
mod publish;
mod read;
mod readers;
mod result;
mod row;
pub mod select;
mod session;
mod stages;
mod submit;
mod tree;
mod verbs;
mod workspace;
mod workspaces;
mod writer;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use protocol::admin::{KeyView, RepoChange, RepoView};
use protocol::path::RelativePath;
use protocol::{KeyId, RepoName, Report, TaskId, Timestamp, WorkerEvent, WorkerId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::migrate::{STEPS, migrate};
use super::types::{
    Appended, Ask, Durability, Filter, Kept, Leased, ListedTask, NewTask, Notice, OutputPart, Prune, SessionRules,
    StoreError, StoredArtifact, StoredEvent, StoredTask, StoredWorker, Submitted, Target, TaskEvents, Ttls, Updated,
    Upload, Uploads, WaitingFacts,
};
use crate::clock::Now;
use crate::key::KeyHash;
use crate::lifecycle::Holder;
use readers::Readers;
use verbs::Verb;
use writer::Writer;

/// The queue in a SQLite file.
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    newest_instant: Option<Timestamp>,
}

type Result<T> = std::result::Result<T, StoreError>;

impl Sqlite {
    /// Opens the file, makes or migrates its tables, and starts the writing thread.
    ///
    /// # Errors
    /// When the file cannot be opened, is not a database, or is of a newer program.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut db = Connection::open(path)
            .and_then(|db| configure(&db).map(|()| db))
            .with_context(|| format!("opening the database {}", path.display()))?;
        if let Some(copy) = migrate(&mut db, path, STEPS)? {
            tracing::info!(copy = %copy.display(), "migrated the database; the copy is as it was before");
        }
        let newest_instant = newest_instant(&db)?;
        let readers = Readers::open(path).context("opening the database for reading")?;
        let writer = Writer::start(db).context("starting the writing thread")?;
        Ok(Self { writer, readers, newest_instant })
    }

    pub(super) fn newest_instant(&self) -> Option<Timestamp> {
        self.newest_instant
    }

    pub(super) async fn close(&self) {
        self.writer.close().await;
    }

    pub(super) async fn submit(&self, new: NewTask, now: Now) -> Result<Submitted> {
        let bytes = new.spec.weight();
        self.writer.run_large(Durability::Power, bytes, move |db| submit::submit(db, &new, now)).await
    }

    pub(super) async fn lease(&self, ask: Ask, now: Now) -> Result<Option<Leased>> {
        self.writer.run(Durability::Process, move |db| verbs::lease(db, &ask, now)).await
    }

    pub(super) async fn update(&self, target: Target, durability: Durability, now: Now, verb: Verb) -> Result<Updated> {
        self.writer.run(durability, move |db| verbs::update(db, &target, verb, now)).await
    }

    pub(super) async fn report(
        &self,
        holder: Holder,
        report: Box<Report>,
        rules: Arc<SessionRules>,
        now: Now,
    ) -> Result<Updated> {
        self.writer.run(Durability::Power, move |db| verbs::report(db, holder, &report, &rules, now)).await
    }

    pub(super) async fn append(&self, holder: Holder, events: Vec<WorkerEvent>, now: Now) -> Result<Appended> {
        let bytes = events.iter().map(events::weight).sum();
        self.writer.run_large(Durability::Process, bytes, move |db| events::append(db, holder, events, now)).await
    }

    pub(super) async fn tend(&self, now: Now) -> Result<Kept> {
        self.writer.run(Durability::Power, move |db| verbs::tend(db, now)).await
    }

    pub(super) async fn rearm(&self, now: Now, ttls: Ttls) -> Result<usize> {
        self.writer.run(Durability::Process, move |db| verbs::rearm(db, now, ttls)).await
    }

    pub(super) async fn ready(&self, repos: Vec<RepoName>) -> Result<Vec<Notice>> {
        self.readers.run(move |db| select::ready(db, &repos)).await
    }

    pub(super) async fn task(&self, id: TaskId) -> Result<Option<StoredTask>> {
        self.readers.run(move |db| read::task(db, id)).await
    }

    pub(super) async fn list(&self, filter: Filter) -> Result<(Vec<ListedTask>, Option<i64>)> {
        self.readers.run(move |db| read::list(db, &filter)).await
    }

    pub(super) async fn events(&self, id: TaskId, after: u64, limit: u32) -> Result<TaskEvents> {
        self.readers.run(move |db| events::after(db, id, after, limit)).await
    }

    pub(super) async fn feed(&self, repos: Vec<RepoName>, after: u64, limit: u32) -> Result<Vec<StoredEvent>> {
        self.readers.run(move |db| events::feed(db, &repos, after, limit)).await
    }

    pub(super) async fn newest_feed(&self) -> Result<u64> {
        self.readers.run(events::newest_feed).await
    }

    pub(super) async fn output(&self, part: OutputPart) -> Result<Vec<(u64, Vec<u8>)>> {
        self.readers.run(move |db| events::output(db, part)).await
    }

    pub(super) async fn uploads(&self, holder: Holder, path: RelativePath) -> Result<Uploads> {
        self.readers.run(move |db| artifacts::uploads(db, holder, &path)).await
    }

    pub(super) async fn keep_upload(&self, holder: Holder, upload: Upload, limit: u64) -> Result<Option<String>> {
        self.writer.run(Durability::Process, move |db| artifacts::keep(db, holder, &upload, limit)).await
    }

    pub(super) async fn artifact(&self, id: TaskId, path: RelativePath) -> Result<Option<StoredArtifact>> {
        self.readers.run(move |db| artifacts::find(db, id, &path)).await
    }

    pub(super) async fn has_dead_uploads(&self) -> Result<bool> {
        self.readers.run(artifacts::has_dead).await
    }

    pub(super) async fn drop_dead_uploads(&self) -> Result<Vec<String>> {
        self.writer.run(Durability::Power, artifacts::drop_dead).await
    }

    pub(super) async fn named(&self, blobs: Vec<String>) -> Result<HashSet<String>> {
        self.readers.run(move |db| artifacts::named(db, &blobs)).await
    }

    pub(super) async fn orphaned(
        &self,
        nobodys: Vec<String>,
        now: Timestamp,
        before: Timestamp,
    ) -> Result<Vec<String>> {
        self.writer.run(Durability::Process, move |db| artifacts::orphaned(db, &nobodys, now, before)).await
    }

    pub(super) async fn waiting(&self, id: TaskId) -> Result<WaitingFacts> {
        self.readers.run(move |db| read::waiting(db, id)).await
    }

    pub(super) async fn add_key(&self, key: KeyView, hash: KeyHash) -> Result<()> {
        self.writer.run(Durability::Power, move |db| admin::add_key(db, &key, &hash)).await
    }

    pub(super) async fn revoke_key(&self, id: KeyId, at: Timestamp) -> Result<Option<KeyView>> {
        self.writer.run(Durability::Power, move |db| admin::revoke_key(db, id, at)).await
    }

    pub(super) async fn keys(&self) -> Result<Vec<(KeyView, KeyHash)>> {
        self.readers.run(admin::keys).await
    }

    pub(super) async fn repos(&self) -> Result<Vec<RepoView>> {
        self.readers.run(admin::repos).await
    }

    pub(super) async fn repo(&self, name: RepoName) -> Result<RepoView> {
        self.readers.run(move |db| admin::repo(db, &name)).await
    }

    pub(super) async fn change_repo(&self, name: RepoName, change: RepoChange) -> Result<RepoView> {
        self.writer.run(Durability::Power, move |db| admin::change_repo(db, &name, &change)).await
    }

    pub(super) async fn save_workers(&self, workers: Vec<StoredWorker>) -> Result<()> {
        self.writer.run(Durability::Process, move |db| admin::save_workers(db, &workers)).await
    }

    pub(super) async fn workers(&self, since: Timestamp) -> Result<Vec<StoredWorker>> {
        self.readers.run(move |db| admin::workers(db, since)).await
    }

    pub(super) async fn running_workers(&self) -> Result<Vec<WorkerId>> {
        self.readers.run(verbs::running_workers).await
    }

    pub(super) async fn prune(&self, prune: Prune) -> Result<u64> {
        self.writer.run(Durability::Process, move |db| prune::prune(db, prune)).await
    }

    pub(super) async fn check(&self) -> Result<()> {
        self.readers.run(|db| Ok(db.query_row("SELECT 1", [], |_| Ok(()))?)).await
    }
}

fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(128);
    // Plans by the schema alone: else a statement is prepared anew whenever other values are bound to it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // The writer checkpoints itself, because it must hear of a failed fsync.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    db.pragma_update(None, "cache_size", -8 * 1024)?;
    db.pragma_update(None, "temp_store", "MEMORY")
}

/// The newest instant that is stored, found by the ends of two indexes and by what runs.
fn newest_instant(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let newest: Option<i64> = db.query_row(
        "SELECT max(coalesce((SELECT created_at FROM tasks ORDER BY seq DESC LIMIT 1), 0), \
         coalesce((SELECT max(finished_at) FROM tasks WHERE state = 2), 0), \
         coalesce((SELECT max(started_at) FROM tasks WHERE state = 1), 0))",
        [],
        |row| row.get(0),
    )?;
    Ok(newest.filter(|at| *at > 0).map(Timestamp::from_ms))
}

/// Copies a database that may be in use into a new file.
///
/// # Errors
/// When there is none, or the copy cannot be written.
pub(super) fn backup(database: &Path, to: &Path) -> anyhow::Result<()> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening the database {}", database.display()))?;
    copy(&db, to)
}

/// Copies everything that is committed; the copy appears whole or not at all.
pub(super) fn copy(db: &Connection, to: &Path) -> anyhow::Result<()> {
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = std::path::PathBuf::from(partial);
    let _ = std::fs::remove_file(&partial);
    let mut target = Connection::open(&partial).with_context(|| format!("creating {}", partial.display()))?;
    // In one step: between two, every write would begin the copy anew. Nobody waits for it in WAL mode.
    let copied = rusqlite::backup::Backup::new(db, &mut target).and_then(|backup| backup.step(-1));
    let copied = copied.map_err(anyhow::Error::from).and_then(|_| {
        drop(target);
        std::fs::File::open(&partial)?.sync_all()?;
        Ok(std::fs::rename(&partial, to)?)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied.with_context(|| format!("writing {}", to.display()))
}
