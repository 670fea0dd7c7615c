//! What the store is asked and what it answers.

mod workspace;

use std::sync::Arc;

use protocol::path::RelativePath;
use protocol::{
    LeaseGrant, LeaseId, RepoName, SessionName, Spec, TaskId, TaskRow, TaskState, Timestamp, WorkerId, WorkerInfo,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::lifecycle::{Hold, Holder, Rejected, Task};
pub use workspace::{
    Changed, Checkout, Condition, Content, FileChange, SessionFilter, SessionRules, SessionToMake, StageRoom,
    StagedRow, StoredEntry, StoredSession, Tag, Tree, What, WorkspaceError,
};

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such task.
    #[error("no such task")]
    NotFound,
    /// The rules refused it.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Another key speaks for this worker.
    #[error(transparent)]
    NotItsKey(#[from] crate::workers::NotItsKey),
    /// Events are missing before these.
    #[error("events are missing: expected number {expected}")]
    EventGap {
        /// The number that must come next.
        expected: u64,
    },
    /// An event holds something that it may not.
    #[error("not a valid event: {0}")]
    BadEvent(String),
    /// The lease added more events than it may.
    #[error("the lease added more events than it may")]
    TooManyEvents,
    /// The lease uploaded more files, or more bytes of them, than it may.
    #[error("the lease uploaded more files, or more bytes of them, than it may")]
    TooManyUploads,
    /// Something about a workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The object store failed.
    #[error("the object store failed: {0}")]
    Objects(#[from] std::io::Error),
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used with another request")]
    IdempotencyMismatch,
    /// The disk is full.
    #[error("the coordinator's disk is full")]
    DiskFull,
    /// The store is closing.
    #[error("the coordinator is stopping")]
    Closed,
    /// The database failed in another way.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// What is stored is not what was written.
    #[error("the database holds something unexpected: {0}")]
    Corrupt(String),
}

/// Whether an operation is on the disk before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It survives a crash of the process.
    Process,
    /// It survives a loss of power too.
    Power,
}

/// A task to be kept.
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// What was submitted, checked, the agent resolved.
    pub spec: Spec,
    /// The client's idempotency key, with who sent it and a hash of the request.
    pub idempotency: Option<Idempotency>,
    /// What holds for a session that the task is the first to use.
    pub rules: Arc<SessionRules>,
    /// Whether it is refused when another task works in its session, or is about to.
    pub only_if_free: bool,
}

/// What makes a repeated submission find the first.
pub struct Idempotency {
    /// The key that the request came with.
    pub key: protocol::KeyId,
    /// The client's name for the request.
    pub name: String,
    /// SHA-256 of the request.
    pub body: [u8; 32],
}

/// What became of a submission.
pub struct Submitted {
    /// The task as it was when it was first submitted.
    pub first_answer: Box<StoredTask>,
    /// Whom to wake.
    pub notices: Vec<Notice>,
}

/// A worker asks for a task.
pub struct Ask {
    /// What the worker can do.
    pub worker: WorkerInfo,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// The key that it came with.
    pub key: protocol::KeyId,
    /// The id of the lease that it may get.
    pub lease: LeaseId,
    /// How long leases live.
    pub ttls: Ttls,
}

/// How long leases live, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttls {
    /// Until the first renewal.
    pub first_s: u32,
    /// Of code.
    pub code_s: u32,
    /// Of agents.
    pub agent_s: u32,
}

impl Ttls {
    /// How long a renewed lease lives.
    #[must_use]
    pub const fn renewed_s(&self, is_agent: bool) -> u32 {
        if is_agent { self.agent_s } else { self.code_s }
    }
}

/// A task that was just leased.
pub struct Leased {
    /// What the worker gets.
    pub grant: LeaseGrant,
}

/// A task that a worker could take now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The task; none when a repo has room again for any of its tasks.
    pub task: Option<TaskId>,
    /// Its queue.
    pub repo: RepoName,
    /// What its worker must offer.
    pub needs: String,
}

/// Which task an update is about.
pub enum Target {
    /// This task.
    Task(TaskId),
    /// The task that this lease is or was the newest of.
    Lease(Holder),
}

/// What an update left behind.
pub struct Updated {
    /// The task.
    pub id: TaskId,
    /// The rules' view of it.
    pub task: Task,
    /// Whether a client sees another state now.
    pub has_changed: bool,
    /// Whom to wake.
    pub notices: Vec<Notice>,
}

/// What became of a batch of events.
pub struct Appended {
    /// The task.
    pub task: TaskId,
    /// The number of the lease's last kept event.
    pub accepted: u64,
}

/// What a pass of housekeeping did.
#[derive(Default)]
pub struct Kept {
    /// Tasks whose state changed.
    pub changed: Vec<TaskId>,
    /// Whom to wake.
    pub notices: Vec<Notice>,
    /// Whether there may be more to do at once.
    pub is_partial: bool,
}

/// A task as it is stored; spec and result stay text that nobody needs to read here.
#[derive(Serialize)]
pub struct StoredTask {
    /// Where it is.
    #[serde(flatten)]
    pub row: TaskRow,
    /// What was submitted.
    pub spec: Box<RawValue>,
    /// What came of it.
    pub result: Option<Box<RawValue>>,
}

/// A task as a list shows it.
#[derive(Serialize)]
pub struct ListedTask {
    /// Where it is.
    #[serde(flatten)]
    pub row: TaskRow,
    /// What was submitted, without code, files and stdin.
    pub spec: Box<RawValue>,
}

/// Which tasks a list shows.
#[derive(Default)]
pub struct Filter {
    /// Only of these repos; of all when empty.
    pub repos: Vec<RepoName>,
    /// Only in this state.
    pub state: Option<TaskState>,
    /// Only of this session.
    pub session: Option<SessionName>,
    /// Only with this label.
    pub label: Option<(String, String)>,
    /// Only of this worker.
    pub worker: Option<WorkerId>,
    /// Only older than this position.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// An event as it is stored.
pub struct StoredEvent {
    /// Its number: in the task, or in the feed.
    pub number: u64,
    /// What kind it is: the `event:` of a stream.
    pub kind: &'static str,
    /// The `data:` of a stream, JSON.
    pub data: String,
}

/// What a lease uploaded.
pub struct Uploads {
    /// So many files.
    pub count: u64,
    /// Their bytes in all.
    pub bytes: u64,
}

/// A file that a lease uploaded.
pub struct Upload {
    /// Where it was.
    pub path: RelativePath,
    /// The blob that has its bytes.
    pub blob: String,
    /// How many these are.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// A published file of a task.
pub struct StoredArtifact {
    /// The blob that has its bytes.
    pub blob: String,
    /// How many these are.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Events of a task, a page of them.
pub struct TaskEvents {
    /// The events, in order.
    pub events: Vec<StoredEvent>,
    /// Whether the task is done and has no more.
    pub is_over: bool,
}

/// A piece of the newest attempt's output.
#[derive(Clone, Copy)]
pub struct OutputPart {
    /// The task.
    pub id: TaskId,
    /// Which stream.
    pub stream: protocol::Stream,
    /// Only events after this number.
    pub after: u64,
}

/// What keeps a queued task from being leased, as far as the database knows.
pub struct WaitingFacts {
    /// Where the task is.
    pub row: TaskRow,
    /// What a worker must offer.
    pub needs: String,
    /// What it waits for besides a worker.
    pub hold: Option<Hold>,
    /// Whether its repo is paused.
    pub is_paused: bool,
    /// How many of its repo may run.
    pub max_running: Option<u32>,
    /// How many of its repo run.
    pub running: u64,
    /// Tasks of its repo that go first.
    pub ahead: u64,
    /// The task that works in its session or goes first there.
    pub session_holder: Option<TaskId>,
}

/// A worker as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorker {
    /// What it said of itself.
    pub info: WorkerInfo,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// When it was last heard of.
    pub last_seen_at: Timestamp,
}

/// What is too old, each as the instant before which it goes.
#[derive(Debug, Clone, Copy)]
pub struct Prune {
    /// Tasks that were done before.
    pub tasks_before: Timestamp,
    /// Output of tasks that were done before.
    pub output_before: Timestamp,
    /// Idempotency keys that were used before.
    pub idempotency_before: Timestamp,
    /// Workers that were last seen before.
    pub workers_before: Timestamp,
    /// Versions of sessions that were made before, as far as nothing needs them.
    pub history_before: Timestamp,
}
