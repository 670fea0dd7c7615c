//! Files that came of a task: what is said of each, and what its name alone says about it. The worker and the coordinator
//! both ask here, so that neither must believe the other.

use serde::{Deserialize, Serialize};

use crate::path::RelativePath;

/// Files of one attempt that are listed at most; more are counted among the skipped.
pub const MAX_ARTIFACTS: usize = 1000;

/// Skipped files that are named at most.
pub const MAX_SKIPPED: usize = 100;

/// Bytes of all listed paths together: with the rest of it, a report stays far below its cap.
pub const MAX_LISTED_PATH_BYTES: usize = 256 << 10;

/// One file of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it was, relative to the working directory.
    pub path: RelativePath,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// What kind of content it has.
    pub media_type: String,
    /// `output`, `log` or `artifact`.
    pub kind: String,
    /// Whether its bytes can be fetched; absent means that they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<bool>,
}

impl Artifact {
    /// A file of this name, with what the name says about it.
    #[must_use]
    pub fn new(path: RelativePath, size: u64, sha256: String, stored: bool) -> Self {
        let (media_type, kind) = (media_type(&path).into(), kind(&path).into());
        Self { path, size, sha256, media_type, kind, stored: Some(stored) }
    }

    /// Whether its bytes can be fetched.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.stored.unwrap_or(true)
    }
}

/// A file that is not listed, or not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Where it was, as far as it can be written.
    pub path: String,
    /// Why, for a person.
    pub why: String,
}

/// The answer to an upload: what the coordinator itself counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// Bytes that arrived.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Whether this is a SHA-256 as it is written here: 64 hexadecimal digits, lower case.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a file is, by where it is.
#[must_use]
pub fn kind(path: &RelativePath) -> &'static str {
    let path = path.as_str();
    if path.starts_with("output/") {
        "output"
    } else if path.starts_with("logs/") || suffix(path) == "log" {
        "log"
    } else {
        "artifact"
    }
}

fn suffix(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or_else(String::new, |(_, suffix)| suffix.to_ascii_lowercase())
}

/// What kind of content a file has, by its suffix.
#[must_use]
pub fn media_type(path: &RelativePath) -> &'static str {
    media_type_of(path.as_str())
}

/// The same for a path that was checked as another type.
#[must_use]
pub fn media_type_of(path: &str) -> &'static str {
    match suffix(path).as_str() {
        "txt" | "log" | "rst" | "ini" | "cfg" | "diff" | "patch" => "text/plain",
        "py" | "rs" | "c" | "h" | "cc" | "cpp" | "go" | "java" | "rb" | "sh" | "sql" | "ts" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "xml" => "application/xml",
        "json" | "ipynb" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "pdf" => "application/pdf",
        "zip" | "whl" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "zst" => "application/zstd",
        "sqlite" | "db" => "application/vnd.sqlite3",
        "parquet" => "application/vnd.apache.parquet",
        "wasm" => "application/wasm",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}
