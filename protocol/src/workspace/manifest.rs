//! A checkout: what a worker must lay out, what it brings back, and what became of that.

use serde::{Deserialize, Serialize};

use super::FileKind;
use crate::id::StageId;
use crate::name::SessionName;
use crate::spec::SessionMode;
use crate::time::Timestamp;

/// One line of a manifest, each a JSON object. The first is the head, the last the end: without it the rest is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ManifestLine {
    /// What all of it is about.
    Head(Head),
    /// What stands at a path, by path.
    Entry(ManifestEntry),
    /// A path that is gone, among differences.
    Removed {
        /// The path.
        path: String,
    },
    /// Nothing comes after it.
    End {
        /// How many lines of entries and removed paths there were.
        lines: u64,
    },
}

/// What a manifest is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session.
    pub session: SessionName,
    /// Which session of this name it is: one that was deleted and made again is another, and begins to count anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// The version; it is kept as long as the lease lives, and a stage is based on it.
    pub version: u64,
    /// Whether the task may change it.
    pub mode: SessionMode,
    /// Whether these are all entries, or only what differs from the version that the worker has.
    pub difference: Difference,
    /// Bytes that the session may grow by.
    pub quota_left_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// How much of a tree a manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// All of it.
    Whole,
    /// What differs from the version that the worker named; overlays are always whole.
    Since,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// The path, from the root, without a leading slash.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    #[serde(default)]
    pub size: u64,
    /// SHA-256 of a file's bytes: its content, and what to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Where a symlink points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// When its content was last changed.
    pub modified_at: Timestamp,
    /// Whether it belongs to an overlay: to be mounted read-only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overlay: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Contents that a worker lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobsRequest {
    /// The sums of the contents, as the manifest named them; each once.
    pub sha256: Vec<String>,
}

/// A stage was taken in. A report publishes it; a later one of the same lease replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Its id, for the report.
    pub stage: StageId,
    /// The version that it is based on.
    pub base: u64,
    /// Files, directories and links that it brings.
    pub entries: u64,
    /// Paths that it deletes.
    pub deletes: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// What became of the files of a task that worked in a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Published {
    /// The session's version that holds them; null when nothing was published.
    pub version: Option<u64>,
    /// Paths that are new.
    #[serde(default)]
    pub added: u64,
    /// Paths that are another than before.
    #[serde(default)]
    pub changed: u64,
    /// Paths that are gone.
    #[serde(default)]
    pub deleted: u64,
    /// Bytes of files that are new or another.
    #[serde(default)]
    pub bytes: u64,
    /// Paths that a client changed meanwhile, a hundred of them at most: nothing was published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The snapshot that holds the task's files when they could not be published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Bytes that the session would have, when that is over its quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes that it may have, then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_bytes: Option<u64>,
}
