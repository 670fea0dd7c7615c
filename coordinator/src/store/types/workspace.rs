//! What the store is asked about workspaces and what it answers.

use std::collections::BTreeMap;

use protocol::path::WorkspacePath;
use protocol::spec::SessionMode;
use protocol::workspace::{FileKind, SessionView};
use protocol::{KeyId, RepoName, SessionName, TaskId, Timestamp};

/// Why something about a workspace did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is no such session.
    #[error("no such session; its first write or task makes it, or create it")]
    NoSession,
    /// The name is taken.
    #[error("there is a session of this name already; choose another name")]
    SessionExists,
    /// The session belongs to another repo. Which one is nobody's business.
    #[error("the session {0} belongs to another repo; choose another name")]
    AnotherRepo(SessionName),
    /// Another task works in the session, or is about to.
    #[error("task {holder} works in the session; wait for it, or cancel it")]
    Busy {
        /// The task.
        holder: TaskId,
    },
    /// The session would have more bytes than it may.
    #[error("the session would have {used} bytes, it may have {allowed}; delete something, or ask for a larger quota")]
    Quota {
        /// Bytes that it would have.
        used: u64,
        /// Bytes that it may have.
        allowed: u64,
    },
    /// The session would have more entries than any may.
    #[error("a session has at most 1,000,000 files, directories and links; delete something")]
    TooManyEntries,
    /// The file is another than the caller thinks.
    #[error("the file is another than you think; read it again, then decide")]
    Precondition,
    /// Nothing is there.
    #[error("there is no `{0}`")]
    NoEntry(String),
    /// Something is there already.
    #[error("there is a `{0}` already; delete it first, or choose another path")]
    Exists(String),
    /// A directory would end up inside itself.
    #[error("a directory cannot be moved into itself; choose another path")]
    IntoItself,
    /// A file or a link stands where a directory must be.
    #[error("`{0}` is not a directory")]
    NotADirectory(String),
    /// A directory stands where a file must be.
    #[error("`{0}` is a directory")]
    IsADirectory(String),
    /// A symlink stands where a file must be.
    #[error("`{path}` is a symlink to `{target}`, and none is followed; name the file itself")]
    IsASymlink {
        /// Where it is.
        path: String,
        /// Where it points.
        target: String,
    },
    /// A path that would come about is not one.
    #[error(transparent)]
    Path(#[from] protocol::path::PathRefusal),
    /// There is no such snapshot.
    #[error("there is no snapshot `{0}` of this session")]
    NoSnapshot(String),
    /// The lease's task has no session, or may not change it.
    #[error("{0}")]
    NoStage(&'static str),
    /// A stage holds something that it may not.
    #[error("the stage is refused: {0}")]
    BadStage(String),
}

/// What holds for every session that says nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    /// Bytes that its files may have.
    pub quota_bytes: u64,
    /// Directories that a new one begins with.
    pub layout: Vec<WorkspacePath>,
}

/// A session as it is stored.
#[derive(Debug, Clone)]
pub struct StoredSession {
    /// Its place.
    pub place: i64,
    /// What a client sees of it.
    pub view: SessionView,
}

/// A version of a session's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// The session's place.
    pub session: i64,
    /// The version.
    pub version: u64,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// The path.
    pub path: String,
    /// What it is.
    pub content: Content,
    /// When its content was last changed.
    pub modified_at: Timestamp,
}

/// What an entry is, with what is true of that kind alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Bytes in a blob.
    File {
        /// The blob.
        blob: String,
        /// How many bytes.
        size: u64,
        /// Their SHA-256, in hexadecimal.
        sha256: String,
        /// Permission bits.
        mode: u32,
    },
    /// A place for more.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A link that is never followed.
    Symlink {
        /// Where it points.
        target: String,
    },
}

impl Content {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> FileKind {
        match self {
            Self::File { .. } => FileKind::File,
            Self::Directory { .. } => FileKind::Directory,
            Self::Symlink { .. } => FileKind::Symlink,
        }
    }

    /// Bytes of a file; nothing else has any.
    #[must_use]
    pub const fn size(&self) -> u64 {
        if let Self::File { size, .. } = self { *size } else { 0 }
    }

    /// Permission bits.
    #[must_use]
    pub const fn mode(&self) -> u32 {
        match self {
            Self::File { mode, .. } | Self::Directory { mode } => *mode,
            Self::Symlink { .. } => 0o777,
        }
    }

    /// Whether both are the same to a reader, whichever blobs hold them.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { sha256, mode, .. }, Self::File { sha256: other, mode: other_mode, .. }) => {
                sha256 == other && mode == other_mode
            }
            _ => self == other,
        }
    }
}

/// What a client asks to change.
pub struct FileChange {
    /// The session; it is made if it is not there.
    pub session: SessionName,
    /// The repo that it belongs to when it is made.
    pub repo: Option<RepoName>,
    /// Who asks.
    pub by: KeyId,
    /// What is changed.
    pub what: What,
}

/// A change of files.
pub enum What {
    /// Puts bytes at a path. What is there keeps its mode unless one is given.
    Write {
        /// Where.
        path: WorkspacePath,
        /// The blob that has the bytes.
        blob: String,
        /// How many these are.
        size: u64,
        /// Their SHA-256, in hexadecimal.
        sha256: String,
        /// Permission bits.
        mode: Option<u32>,
        /// What must be true of what is there.
        condition: Condition,
    },
    /// Makes a directory.
    MakeDirectory(WorkspacePath),
    /// Moves a path with all below it to where nothing is.
    Move {
        /// From here.
        from: WorkspacePath,
        /// To here.
        to: WorkspacePath,
    },
    /// Deletes a path with all below it.
    Delete {
        /// What.
        path: WorkspacePath,
        /// What must be true of what is there.
        condition: Condition,
    },
}

/// What must be true of an entry before it is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// It is one of these; empty: whatever it is.
    pub is_one_of: Vec<Tag>,
    /// It is none of these.
    pub is_none_of: Vec<Tag>,
}

/// A tag that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    /// Anything that is there.
    Any,
    /// This content.
    Content(String),
}

/// What a change left behind.
pub struct Changed {
    /// The session's version.
    pub version: u64,
    /// How many entries are others now.
    pub entries: u64,
}

/// Which sessions a list shows.
#[derive(Default)]
pub struct SessionFilter {
    /// Only of these repos; of all when empty.
    pub repos: Vec<RepoName>,
    /// Only with this label.
    pub label: Option<(String, String)>,
    /// Only after this name.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// A session to be made.
pub struct SessionToMake {
    /// Its name.
    pub name: SessionName,
    /// Its repo.
    pub repo: Option<RepoName>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its own quota.
    pub quota_bytes: Option<u64>,
}

/// What a lease works on.
pub struct Checkout {
    /// The session.
    pub session: SessionName,
    /// The version, pinned as long as the lease lives.
    pub tree: Tree,
    /// Whether the task may change it.
    pub mode: SessionMode,
    /// Whether all differences from the version that the worker has are known.
    pub is_since_known: bool,
    /// Bytes that the session may grow by.
    pub quota_left_bytes: u64,
}

/// A change that a lease uploaded.
pub struct StagedRow {
    /// The path.
    pub path: WorkspacePath,
    /// What it is to be; none: it is to be gone.
    pub content: Option<Content>,
}

/// What a stage may hold.
pub struct StageRoom {
    /// Bytes of its files.
    pub bytes: u64,
}
