//! Where tasks are kept. SQL selects and saves here, `lifecycle` decides: `update` loads a row under lock, lets the rules
//! change it, saves and commits. Nothing else in the coordinator knows SQL.
//!
//! An operation is either durable (acknowledged once it is on the disk) or not (a power loss may undo it, a crash of the
//! process may not).

mod migrate;
pub mod sqlite;
mod types;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use protocol::admin::{KeyView, RepoChange, RepoView};
use protocol::path::RelativePath;
use protocol::workspace::{Restored, SessionView, SnapshotView, Staged};
use protocol::{KeyId, RepoName, Report, SessionName, StageId, TaskId, Timestamp};

use crate::clock::Now;
use crate::key::KeyHash;
use crate::lifecycle::{Change, Holder, Rejected, Task};
use sqlite::Sqlite;
pub use types::{
    Appended, Ask, Changed, Checkout, Condition, Content, Durability, FileChange, Filter, Idempotency, Kept, Leased,
    ListedTask, NewTask, Notice, OutputPart, Prune, SessionFilter, SessionRules, SessionToMake, StageRoom, StagedRow,
    StoreError, StoredArtifact, StoredEntry, StoredEvent, StoredSession, StoredTask, StoredWorker, Submitted, Tag,
    Target, TaskEvents, Tree, Ttls, Updated, Upload, Uploads, WaitingFacts, What, WorkspaceError,
};

/// A place to keep tasks.
pub enum Store {
    /// A SQLite file that one coordinator owns.
    Sqlite(Sqlite),
}

type Result<T> = std::result::Result<T, StoreError>;

/// Who asks for a version of a session, by which rules, and when.
pub type Asked = (String, Arc<SessionRules>, Now);

/// One line for each operation: what every kind of store can do.
macro_rules! operations {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)+) => {
        impl Store {
            $($(#[$doc])*
            ///
            /// # Errors
            /// See `StoreError`; nothing changed.
            pub async fn $name(&self, $($arg: $type),*) -> Result<$answer> {
                match self { Self::Sqlite(store) => store.$name($($arg),*).await }
            })+
        }
    };
}

operations! {
    /// Keeps a new task, or finds the one that the same idempotency key made. Durable.
    fn submit(new: NewTask, now: Now) -> Submitted;
    /// Gives the worker the task that is next for it, if there is one.
    fn lease(ask: Ask, now: Now) -> Option<Leased>;
    /// Ends an attempt and publishes its files. A repeat changes nothing. Durable.
    fn report(holder: Holder, report: Box<Report>, rules: Arc<SessionRules>, now: Now) -> Updated;
    /// Keeps the events of a lease, of which some may be known already.
    fn append(holder: Holder, events: Vec<protocol::WorkerEvent>, now: Now) -> Appended;
    /// Lapses leases whose time is over and lets go of holds whose time has come; a bounded number at once.
    fn tend(now: Now) -> Kept;
    /// Gives every live lease at least this much time from now, and says how many there are.
    fn rearm(now: Now, ttls: Ttls) -> usize;
    /// Tasks that are ready, one for each repo and need: for waiters that missed their wake-up.
    fn ready(repos: Vec<RepoName>) -> Vec<Notice>;
    /// A task with what was submitted and what came of it.
    fn task(id: TaskId) -> Option<StoredTask>;
    /// A page of tasks, newest first, with the cursor of the next.
    fn list(filter: Filter) -> (Vec<ListedTask>, Option<i64>);
    /// Events of a task after a number, in order.
    fn events(id: TaskId, after: u64, limit: u32) -> TaskEvents;
    /// State changes of all tasks after a number, in order.
    fn feed(repos: Vec<RepoName>, after: u64, limit: u32) -> Vec<StoredEvent>;
    /// The number of the newest state change.
    fn newest_feed() -> u64;
    /// Output of the newest attempt after an event's number.
    fn output(part: OutputPart) -> Vec<(u64, Vec<u8>)>;
    /// What a live lease uploaded besides this path.
    fn uploads(holder: Holder, path: RelativePath) -> Uploads;
    /// Names a blob as the upload of a live lease, within so many bytes for all of them; gives the blob that it replaces.
    fn keep_upload(holder: Holder, upload: Upload, limit_bytes: u64) -> Option<String>;
    /// A published file of a task.
    fn artifact(id: TaskId, path: RelativePath) -> Option<StoredArtifact>;
    /// Whether there are uploads of leases that are over.
    fn has_dead_uploads() -> bool;
    /// Forgets uploads of leases that are over, a bounded number; gives their blobs. Durable.
    fn drop_dead_uploads() -> Vec<String>;
    /// Those of the blobs that an upload, a task, a stage or a session names.
    fn named(blobs: Vec<String>) -> HashSet<String>;
    /// Notes since when these blobs are nobody's, and gives those that have been so since an instant.
    fn orphaned(nobodys: Vec<String>, now: Timestamp, before: Timestamp) -> Vec<String>;
    /// Makes a session that is not there. Durable.
    fn create_session(new: SessionToMake, rules: Arc<SessionRules>, now: Now) -> StoredSession;
    /// A session.
    fn session(name: SessionName, rules: Arc<SessionRules>) -> Option<StoredSession>;
    /// A page of sessions by name, and whether there are more.
    fn sessions(filter: SessionFilter, rules: Arc<SessionRules>) -> (Vec<SessionView>, bool);
    /// Forgets a session in which no task works or waits. Durable.
    fn delete_session(name: SessionName) -> ();
    /// Remembers when sessions were last used.
    fn touch_sessions(used: Vec<(SessionName, Timestamp)>) -> ();
    /// Sessions that were last used before an instant and in which no task works or waits; a bounded number.
    fn unused_sessions(before: Timestamp) -> Vec<SessionName>;
    /// Makes a session that begins as another is, or was. Durable.
    fn fork_session(of: SessionName, new: SessionToMake, snapshot: Option<String>, asked: Asked) -> StoredSession;
    /// A session's snapshots, the oldest first.
    fn snapshots(of: SessionName) -> Vec<SnapshotView>;
    /// The version that a snapshot keeps.
    fn snapshot_tree(of: SessionName, name: String) -> Tree;
    /// Keeps the newest version under a name. Durable.
    fn keep_snapshot(of: SessionName, name: String, now: Now) -> SnapshotView;
    /// Forgets a snapshot. Durable.
    fn forget_snapshot(of: SessionName, name: String) -> ();
    /// Makes a new version that equals a snapshot. Durable.
    fn restore(of: SessionName, snapshot: String, asked: Asked) -> Restored;
    /// What stands at a path.
    fn entry(tree: Tree, path: String) -> Option<StoredEntry>;
    /// What is in a directory, in no order.
    fn children(tree: Tree, directory: String) -> Vec<StoredEntry>;
    /// What is below a directory, by path, from behind a path on.
    fn walk(tree: Tree, below: String, after: String, limit: u32) -> Vec<StoredEntry>;
    /// Makes a version by a client's change. Durable.
    fn change_files(change: FileChange, rules: Arc<SessionRules>, now: Now) -> Changed;
    /// Pins the newest version for a live lease.
    fn check_out(holder: Holder, since: Option<u64>, rules: Arc<SessionRules>) -> Checkout;
    /// The paths that may differ from an older version.
    fn touched(tree: Tree, since: u64) -> Vec<String>;
    /// Of the paths, those that differ from an older version, with what stands there now.
    fn compare(tree: Tree, since: u64, paths: Vec<String>) -> Vec<(String, Option<StoredEntry>)>;
    /// The blobs of the contents that a live lease's version names, with their sizes.
    fn contents(holder: Holder, sums: Vec<String>) -> Vec<Option<(String, u64)>>;
    /// Begins the stage of a live lease; an earlier one is gone.
    fn begin_stage(holder: Holder, stage: StageId, base: u64, rules: Arc<SessionRules>) -> StageRoom;
    /// Takes rows into the stage of a live lease.
    fn add_to_stage(holder: Holder, stage: StageId, rows: Vec<StagedRow>) -> ();
    /// All of a stage has come. Durable.
    fn seal_stage(holder: Holder, stage: StageId) -> Staged;
    /// Whether there are stages or pins of leases that are over.
    fn has_dead_stages() -> bool;
    /// Forgets stages and pins of leases that are over, a bounded number of rows.
    fn drop_dead_stages() -> u64;
    /// What keeps a queued task from being leased, as far as the database knows.
    fn waiting(id: TaskId) -> WaitingFacts;
    /// Keeps a key. Durable.
    fn add_key(key: KeyView, hash: KeyHash) -> ();
    /// Takes a key back. Durable. None when there is no such key.
    fn revoke_key(id: KeyId, at: Timestamp) -> Option<KeyView>;
    /// All keys with their hashes.
    fn keys() -> Vec<(KeyView, KeyHash)>;
    /// All repos.
    fn repos() -> Vec<RepoView>;
    /// One repo; one that was never used has nothing but its name.
    fn repo(name: RepoName) -> RepoView;
    /// Changes how a repo is served. Durable.
    fn change_repo(name: RepoName, change: RepoChange) -> RepoView;
    /// Remembers the workers that were seen.
    fn save_workers(workers: Vec<StoredWorker>) -> ();
    /// The workers that were seen after an instant.
    fn workers(since: Timestamp) -> Vec<StoredWorker>;
    /// The live leases' workers, once for each lease.
    fn running_workers() -> Vec<protocol::WorkerId>;
    /// Deletes what is older than it must be kept; a bounded number of rows at once.
    fn prune(prune: Prune) -> u64;
    /// Whether the database answers.
    fn check() -> ();
}

impl Store {
    /// Loads a task under lock, lets `verb` change it, saves it and commits.
    ///
    /// # Errors
    /// What the verb refused, or what went wrong; nothing changed.
    pub async fn update(
        &self,
        target: Target,
        durability: Durability,
        now: Now,
        verb: impl FnOnce(&mut Task) -> std::result::Result<Change, Rejected> + Send + 'static,
    ) -> Result<Updated> {
        match self {
            Self::Sqlite(store) => store.update(target, durability, now, Box::new(verb)).await,
        }
    }

    /// The newest instant that is stored.
    #[must_use]
    pub fn newest_instant(&self) -> Option<Timestamp> {
        match self {
            Self::Sqlite(store) => store.newest_instant(),
        }
    }

    /// Copies everything into a new file while work goes on.
    ///
    /// # Errors
    /// When the copy cannot be made.
    pub fn backup(database: &Path, to: &Path) -> anyhow::Result<()> {
        sqlite::backup(database, to)
    }

    /// Answers what waits, writes everything back and closes.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
        }
    }
}

#[cfg(test)]
mod tests;
