//! The file API: what clients ask of a session's files and what they read.

use serde::{Deserialize, Serialize};

use super::FileKind;
use crate::time::Timestamp;

/// One file, directory or symlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The last component of its path.
    pub name: String,
    /// Where it is, from the root, without a leading slash.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file; 0 of others.
    pub size: u64,
    /// When its content was last changed.
    pub modified_at: Timestamp,
    /// What `If-Match` compares; null for a directory.
    pub etag: Option<String>,
    /// Permission bits.
    pub mode: u32,
    /// Where a symlink points, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether it belongs to the operator.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// One page of a directory: directories first, then by name without regard to case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileList {
    /// The directory; empty for the root.
    pub path: String,
    /// The version of the session that was read.
    pub version: u64,
    /// What is in it.
    pub entries: Vec<Entry>,
    /// Whether there is more.
    pub truncated: bool,
    /// What to pass as `cursor` for the next page.
    pub next_cursor: Option<String>,
}

/// A file as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Where it is.
    pub path: String,
    /// The last component of its path.
    pub name: String,
    /// The lines that were asked for.
    pub content: String,
    /// Bytes of the whole file.
    pub size: u64,
    /// Its language, by its name; `plaintext` when nothing says.
    pub language: String,
    /// What kind of content it has, by its name.
    pub mime_type: String,
    /// What `If-Match` compares.
    pub etag: String,
    /// The first line of `content`, counted from 0.
    pub offset: u64,
    /// Lines of the whole file.
    pub total_lines: u64,
    /// Whether lines after these were left out.
    pub truncated: bool,
}

/// A file was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Always true; a refusal is a problem.
    pub written: bool,
    /// Where it is.
    pub path: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// What `If-Match` compares.
    pub etag: String,
    /// The session's version that has it.
    pub version: u64,
}

/// Replaces text in a file: one edit, or several one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The file.
    pub path: String,
    /// What to replace; it must occur exactly once unless `all` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// What to put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Whether to replace every occurrence.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
    /// Several edits; all of them or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// What to replace.
    pub old: String,
    /// What to put in its place.
    pub new: String,
    /// Whether to replace every occurrence.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
}

/// A file was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// Where it is.
    pub path: String,
    /// How many occurrences were replaced.
    pub replaced: u64,
    /// Its bytes now.
    pub size_bytes: u64,
    /// What `If-Match` compares.
    pub etag: String,
    /// The session's version that has it.
    pub version: u64,
}

/// Moves a file or a directory with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// What to move.
    pub from: String,
    /// Where to; nothing may be there.
    pub to: String,
}

/// Something was moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Where it was.
    pub from: String,
    /// Where it is.
    pub to: String,
    /// How many files, directories and links moved.
    pub moved: u64,
    /// The session's version that has it.
    pub version: u64,
}

/// Makes a directory and those above it; one that is there stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// The directory.
    pub path: String,
}

/// A directory is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Where it is.
    pub path: String,
    /// Whether it is new.
    pub created: bool,
    /// The session's version that has it.
    pub version: u64,
}

/// Something was deleted, with all that was in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// Where it was.
    pub path: String,
    /// How many files, directories and links went.
    pub deleted: u64,
    /// The session's version that is without it.
    pub version: u64,
}

/// What a pattern of paths found, by path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobMatches {
    /// The pattern.
    pub pattern: String,
    /// Files, directories and links that fit.
    pub entries: Vec<Entry>,
    /// How many were found; no more are looked for than are listed.
    pub total: u64,
    /// Whether there may be more.
    pub truncated: bool,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepMatches {
    /// What was searched for.
    pub pattern: String,
    /// The lines, by path and line.
    pub matches: Vec<Line>,
    /// How many were found; no more are looked for than are listed.
    pub total: u64,
    /// Whether there may be more.
    pub truncated: bool,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The file.
    pub file: String,
    /// Its number, from 1.
    pub line: u64,
    /// The line itself; a long one is cut.
    pub content: String,
}

/// What language a file is in, by its name.
#[must_use]
pub fn language(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let suffix = name.rsplit_once('.').map_or(name.as_str(), |(_, suffix)| suffix);
    match suffix {
        "py" => "python",
        "js" | "jsx" => "javascript",
        "ts" | "tsx" => "typescript",
        "json" => "json",
        "yaml" | "yml" => "yaml",
        "md" => "markdown",
        "html" | "htm" => "html",
        "css" => "css",
        "scss" => "scss",
        "sql" => "sql",
        "sh" | "bash" | "zsh" => "shell",
        "rs" => "rust",
        "go" => "go",
        "java" => "java",
        "c" | "h" => "c",
        "cpp" | "hpp" | "cc" => "cpp",
        "rb" => "ruby",
        "php" => "php",
        "xml" => "xml",
        "toml" => "toml",
        "ini" | "cfg" => "ini",
        "dockerfile" => "dockerfile",
        "r" => "r",
        "swift" => "swift",
        "kt" => "kotlin",
        "lua" => "lua",
        _ => "plaintext",
    }
}
