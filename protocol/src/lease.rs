//! What a worker and the coordinator say to each other about one attempt. Durations, never instants: clocks differ.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{LeaseId, TaskId, WorkerId};
use crate::name::RepoName;

/// The longest that a lease request may wait, in seconds.
pub const MAX_LEASE_WAIT_S: u32 = 60;

/// How long a lease lives until its first renewal, in seconds.
pub const FIRST_TTL_S: u32 = 10;

/// How long a lease lives after a renewal, in seconds, for code and for agents.
pub const TTL_S: u32 = 30;
/// How long a lease of an agent lives after a renewal, in seconds.
pub const AGENT_TTL_S: u32 = 120;

/// A worker asks for work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// Who asks, and what it can do.
    pub worker: WorkerInfo,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// How long to wait for a task, in seconds; 60 at most.
    #[serde(default)]
    pub wait_s: u32,
}

/// Who a worker is, and what it can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// This start of the worker.
    pub id: WorkerId,
    /// Its program's version.
    #[serde(default)]
    pub version: String,
    /// The words for what it can run: `python`, `shell`, `agent:claude`, `handler`, `limits`, …
    #[serde(default)]
    pub runs: Vec<String>,
    /// The confinement levels that it proved.
    #[serde(default)]
    pub confinement: Vec<String>,
    /// How many attempts it has room for.
    #[serde(default = "one_slot")]
    pub slots: u32,
    /// Whether it takes work at all.
    #[serde(default)]
    pub state: WorkerState,
    /// Why it does not, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

const fn one_slot() -> u32 {
    1
}

impl WorkerInfo {
    /// Whether this worker can run a task with these needs (see `Spec::needs`).
    #[must_use]
    pub fn fits(&self, needs: &str) -> bool {
        needs.split(' ').all(|word| self.offers(word))
    }

    /// The words of `needs` that this worker does not offer.
    #[must_use]
    pub fn lacks<'needs>(&self, needs: &'needs str) -> Vec<&'needs str> {
        needs.split(' ').filter(|word| !self.offers(word)).collect()
    }

    fn offers(&self, word: &str) -> bool {
        match word.strip_prefix("confinement:") {
            Some(level) => self.confinement.iter().any(|proved| proved == level),
            None => self.runs.iter().any(|can| can == word),
        }
    }
}

/// Whether a worker takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It does.
    #[default]
    Ready,
    /// It finishes what it has and takes no more.
    Draining,
    /// It left, or was not heard of for too long.
    Gone,
}

impl WorkerState {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Gone => "gone",
        }
    }
}

/// A worker may try a task once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeaseGrant {
    /// The right itself.
    pub lease: LeaseId,
    /// The task.
    pub task: TaskId,
    /// The queue that it waited in.
    pub repo: RepoName,
    /// Which attempt this is.
    pub attempt: u32,
    /// Seconds until the lease lapses unless it is renewed.
    pub ttl_s: u32,
    /// The spec as it was submitted, for the worker to decode strictly.
    pub spec: Box<RawValue>,
}

/// A worker extends its lease, then waits to hear that it must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Renew {
    /// How long the answer may be held, in seconds; a third of the ttl at most.
    #[serde(default)]
    pub wait_s: u32,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Seconds that the lease lives, counted from when the worker sent the renewal.
    pub ttl_s: u32,
    /// Why the worker must stop the attempt now.
    pub stop: Option<Stop>,
}

/// Why an attempt must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// A client cancelled the task.
    Cancel,
}

/// A worker gives a task back untried.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Release {
    /// Why, for a person: `drain`, `unsupported: …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a report or a release; a repeat gets the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEnded {
    /// The task.
    pub task: TaskId,
    /// The lease that ended.
    pub lease: LeaseId,
}
