//! What the store is asked about the published copy and what it answers.

use protocol::SessionName;

/// Which rows of the outbox are wanted.
#[derive(Debug, Clone)]
pub enum MirrorPart {
    /// Those behind a session and a path, in order; empty texts are before all.
    After(String, String),
    /// This path of this session.
    One(SessionName, String),
}

/// Something that changed and must be copied, or removed from the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToMirror {
    /// Whose path it is.
    pub session: SessionName,
    /// What changed; empty when the whole session is gone.
    pub path: String,
    /// The version that changed it.
    pub changed: u64,
    /// The file that is there now; none when there is none.
    pub file: Option<MirrorFile>,
    /// Whether there may be a copy: not of a directory or a link that was never anything else.
    pub may_have_copy: bool,
    /// Why it could not be copied the last time.
    pub problem: Option<String>,
}

/// A file that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorFile {
    /// Its bytes.
    pub blob: String,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// What became of a row of the outbox.
#[derive(Debug)]
pub struct Mirrored {
    /// The row.
    pub row: ToMirror,
    /// What was done.
    pub done: Done,
}

/// What was done for a row of the outbox.
#[derive(Debug)]
pub enum Done {
    /// The file is copied.
    Copied {
        /// The copy's bytes.
        size: u64,
        /// What changes whenever somebody writes the copy.
        tag: String,
    },
    /// There is no copy any more, of the path or of the whole session.
    Removed,
    /// There can be no copy, for this reason.
    Refused(String),
}

/// A copy as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCopy {
    /// The path in its session.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// What changes whenever somebody writes it.
    pub tag: String,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Why there is no copy; none when there is one.
    pub problem: Option<String>,
    /// Whether the path is in the outbox, so that the copy is about to change.
    pub is_pending: bool,
}
