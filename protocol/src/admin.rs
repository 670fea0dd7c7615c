//! What an operator says and reads: keys, repos, workers.

use serde::{Deserialize, Serialize};

use crate::id::{KeyId, WorkerId};
use crate::lease::WorkerState;
use crate::name::RepoName;
use crate::outcome::TaskState;
use crate::time::Timestamp;

/// What the bearer of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything but leases.
    Admin,
    /// Submit, read and cancel tasks of its repos.
    Client,
    /// Take and report leases of its repos.
    Worker,
}

impl Role {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Client => "client",
            Self::Worker => "worker",
        }
    }
}

/// A key is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What its bearer may do.
    pub role: Role,
    /// The repos that it is for; all when empty, which a worker's may not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repos: Vec<RepoName>,
    /// What a person calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds until it expires; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
}

/// A key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// What it is listed and revoked by.
    pub id: KeyId,
    /// What its bearer may do.
    pub role: Role,
    /// The repos that it is for; all when empty.
    pub repos: Vec<RepoName>,
    /// What a person calls it.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A key, the one time that its secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedKey {
    /// The key as it is listed from now on.
    #[serde(flatten)]
    pub view: KeyView,
    /// The secret.
    pub key: String,
}

/// How a repo is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoView {
    /// The repo.
    pub repo: RepoName,
    /// The agent that a bare prompt goes to; the coordinator's default when null.
    pub agent: Option<String>,
    /// How many of its tasks may run at one time; any number when null.
    pub max_running: Option<u32>,
    /// Whether its tasks wait although workers are there.
    pub paused: bool,
    /// Tasks that wait.
    pub queued: u64,
    /// Tasks that run.
    pub running: u64,
}

/// What changes about a repo. Absent: stays as it is; null: back to the default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepoChange {
    /// The agent that a bare prompt goes to.
    #[serde(default, with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<Option<String>>,
    /// How many of its tasks may run at one time.
    #[serde(default, with = "present", skip_serializing_if = "Option::is_none")]
    pub max_running: Option<Option<u32>>,
    /// Whether its tasks wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Tells a null from an absent field.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Option<Option<T>>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(to)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Option::<T>::deserialize(from).map(Some)
    }
}

/// A worker as the coordinator knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerView {
    /// This start of the worker.
    pub id: WorkerId,
    /// The repos that it serves.
    pub repos: Vec<RepoName>,
    /// Its program's version.
    pub version: String,
    /// How many attempts it has room for.
    pub slots: u32,
    /// How many it has.
    pub running: u32,
    /// What it can run.
    pub runs: Vec<String>,
    /// The confinement levels that it proved.
    pub confinement: Vec<String>,
    /// When it was last heard of.
    pub last_seen_at: Timestamp,
    /// Whether it takes work.
    pub state: WorkerState,
    /// Why it does not.
    pub why: Option<String>,
}

/// What runs here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The program's version.
    pub version: String,
    /// The generation of messages that it speaks.
    pub protocol: u32,
    /// The oldest generation that it understands.
    pub oldest_protocol: u32,
}

/// A change of state of any task, as the queue-wide feed tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeedEvent {
    /// The task.
    pub task: crate::TaskId,
    /// Its queue.
    pub repo: RepoName,
    /// Its new state.
    pub state: TaskState,
    /// Why.
    #[serde(default)]
    pub reason: Option<crate::Reason>,
    /// The attempt.
    pub attempt: u32,
    /// The worker that has or had it.
    #[serde(default)]
    pub worker: Option<WorkerId>,
    /// When.
    pub at: Timestamp,
}
