//! Sessions themselves: made, listed, forked, kept as snapshots and brought back; and a command that runs in one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::name::{RepoName, SessionName};
use crate::outcome::Reason;
use crate::time::Timestamp;

/// Makes a session. Its first use makes one too, without labels and with the usual quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// Its name; no other session has it.
    pub session: SessionName,
    /// The repo whose tasks work in it; that of the first task when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// What the client wants to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Bytes that its files may have; the coordinator's default when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its name.
    pub session: SessionName,
    /// The repo whose tasks work in it; null before it belongs to one.
    pub repo: Option<RepoName>,
    /// The newest version.
    pub version: u64,
    /// What the client wants to find it by.
    pub labels: BTreeMap<String, String>,
    /// Bytes of its files.
    pub used_bytes: u64,
    /// Bytes that they may have.
    pub allowed_bytes: u64,
    /// How many files, directories and links it has.
    pub entries: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used.
    pub used_at: Timestamp,
    /// The task that writes in it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<TaskId>,
}

/// How much of its quota a session uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The session.
    pub session: SessionName,
    /// The newest version.
    pub version: u64,
    /// Bytes of its files.
    pub used_bytes: u64,
    /// Bytes that they may have.
    pub allowed_bytes: u64,
    /// How many files, directories and links it has.
    pub entries: u64,
}

/// Makes a session that begins as another is, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The new session's name.
    pub session: SessionName,
    /// The snapshot to begin from; the newest version when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the client wants to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Keeps the newest version under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// The name; it follows the rules of a session's name.
    pub name: String,
}

/// A version that is kept under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotView {
    /// Its name; that of a task when its files could not be published.
    pub name: String,
    /// The version.
    pub version: u64,
    /// Bytes of its files.
    pub used_bytes: u64,
    /// How many files, directories and links it has.
    pub entries: u64,
    /// When it was kept.
    pub created_at: Timestamp,
}

/// Makes a new version that equals a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// The snapshot.
    pub snapshot: String,
}

/// A session is as a snapshot was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The snapshot.
    pub snapshot: String,
    /// The new version.
    pub version: u64,
    /// How many paths changed.
    pub changed: u64,
}

/// Runs a command in a session and waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// A line for the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, with no shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// The directory to run in; the root when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Seconds from process start to the deadline: 1 to 300, 120 when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
    /// The repo whose workers run it, when the session belongs to none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecDone {
    /// The task that it was.
    pub task: TaskId,
    /// Why it ended.
    pub reason: Option<Reason>,
    /// Its exit code; null by signal, deadline or when it never ran.
    pub exit_code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// From process start to its end, as far as the worker says.
    pub duration_ms: u64,
    /// Whether something of the output is missing.
    pub truncated: bool,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// What the worker adds for a person when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
