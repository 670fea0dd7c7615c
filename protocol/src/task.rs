//! What a client reads of a task.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, Skipped};
use crate::id::{TaskId, WorkerId};
use crate::name::{RepoName, SessionName};
use crate::outcome::{Reason, StreamBytes, TaskState, Usage};
use crate::spec::{Priority, Spec};
use crate::time::Timestamp;
use crate::workspace::Published;

/// A task without what was submitted and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task.
    pub id: TaskId,
    /// The queue that it waits or waited in.
    pub repo: RepoName,
    /// Where it is in its life.
    pub state: TaskState,
    /// Why it is done.
    pub reason: Option<Reason>,
    /// How urgent it is.
    pub priority: Priority,
    /// The newest attempt; 0 before the first.
    pub attempt: u32,
    /// How many counted attempts it has.
    pub max_attempts: u32,
    /// The workspace that it works in.
    pub session: Option<SessionName>,
    /// What the client wants to find it by.
    pub labels: BTreeMap<String, String>,
    /// The worker of the newest attempt.
    pub worker: Option<WorkerId>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When the newest attempt was leased.
    pub started_at: Option<Timestamp>,
    /// When it was done.
    pub finished_at: Option<Timestamp>,
    /// When a client asked to cancel it.
    pub cancel_requested_at: Option<Timestamp>,
}

/// A task with what was submitted and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Where it is.
    #[serde(flatten)]
    pub row: TaskRow,
    /// What was submitted; in lists without code, files and stdin.
    pub spec: Spec,
    /// What came of it, once it is done.
    #[serde(default)]
    pub result: Option<TaskResult>,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its exit code; null by signal, deadline or when it never ran.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Head and tail of standard output.
    pub stdout: String,
    /// Head and tail of standard error.
    pub stderr: String,
    /// Bytes of each stream that are missing from the two above.
    pub dropped_bytes: StreamBytes,
    /// Bytes that the process wrote in all.
    pub written_bytes: StreamBytes,
    /// What `handler(event)` returned.
    pub return_value: Option<serde_json::Value>,
    /// Files that came of it.
    pub artifacts: Vec<Artifact>,
    /// Files that are not among them, or not stored, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// What it used.
    pub usage: Option<Usage>,
    /// The confinement that was in force.
    pub confinement: Option<String>,
    /// What became of its changes of the workspace.
    pub published: Option<Published>,
    /// What the worker adds for a person when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The rows, newest first.
    pub items: Vec<T>,
    /// What to pass as `cursor` for the next page.
    pub next_cursor: Option<String>,
}
