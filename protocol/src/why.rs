//! Why a task is where it is: one sentence for a person, and a closed list of codes for programs.

use serde::{Deserialize, Serialize};

use crate::outcome::TaskState;

/// Why a task waits, runs or ended as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Where the task is.
    pub state: TaskState,
    /// The kind of answer.
    pub code: WhyCode,
    /// The answer as a sentence.
    pub summary: String,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Tasks of the same repo that go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
}

/// The kinds of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyCode {
    /// Its repo is paused.
    RepoPaused,
    /// It waits for an instant.
    NotBefore,
    /// It waits to be tried again.
    Backoff,
    /// Another task works in its session.
    SessionBusy,
    /// As many tasks of its repo run as may.
    RepoFull,
    /// No worker serves its repo.
    NoWorker,
    /// Workers serve its repo, but none can run it.
    NoFittingWorker,
    /// The workers that could run it are full.
    WorkersBusy,
    /// It is about to be leased.
    Next,
    /// A worker has it.
    Running,
    /// A worker has it and was told to stop.
    Stopping,
    /// It is done.
    Done,
}
