//! What is said about the files of a session: by clients about files and sessions, by workers about a checkout and what
//! became of it.

mod files;
pub mod frames;
mod manifest;
mod sessions;

use serde::{Deserialize, Serialize};

pub use files::{
    Deleted, Edit, EditRequest, Edited, Entry, FileContent, FileList, GlobMatches, GrepMatches, Line, Made,
    MakeDirectory, Move, Moved, Written, language,
};
pub use manifest::{BlobsRequest, Difference, Head, ManifestEntry, ManifestLine, Published, Staged};
pub use sessions::{
    Exec, ExecDone, Fork, NewSession, NewSnapshot, Restore, Restored, SessionView, SnapshotView, Usage,
};

/// Bytes of a file that is read as JSON at most.
pub const MAX_TEXT_BYTES: u64 = 2 << 20;
/// Entries of one page of a directory at most.
pub const MAX_PAGE_ENTRIES: u32 = 500;
/// Hits of one search at most.
pub const MAX_GREP_MATCHES: u32 = 200;
/// Files, directories and links of one session at most.
pub const MAX_SESSION_ENTRIES: u64 = 1_000_000;
/// Changes that one stage may hold.
pub const MAX_STAGE_ENTRIES: u64 = 250_000;
/// Bytes of a symlink's target at most.
pub const MAX_TARGET_BYTES: usize = 4095;
/// Files that a result or a problem names at most.
pub const MAX_NAMED: usize = 100;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Bytes.
    File,
    /// A place for more.
    Directory,
    /// A target that is kept as it is and never followed by the coordinator.
    Symlink,
}

/// The bits of a mode that are kept: no setuid, setgid or sticky bit ever is.
pub const MODE_BITS: u32 = 0o777;
