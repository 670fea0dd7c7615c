//! Which files an attempt made or changed, and which of them can be listed at all.

use std::path::PathBuf;

use protocol::artifact::{MAX_ARTIFACTS, MAX_LISTED_PATH_BYTES, Skipped};
use protocol::path::RelativePath;
use rustix::fs::FileType;

use super::Snapshot;
use super::walk::{Mark, walk};

/// A file to be listed.
#[derive(Clone)]
pub(super) struct File {
    pub(super) work: PathBuf,
    pub(super) path: RelativePath,
    pub(super) size: u64,
    /// What it was when it was found.
    pub(super) mark: Mark,
}

/// What an attempt left.
#[derive(Default)]
pub(super) struct Changed {
    /// By path.
    pub(super) files: Vec<File>,
    pub(super) skipped: Vec<Skipped>,
}

/// Compares the working directory with what it was.
pub(super) fn changed(before: &Snapshot) -> Changed {
    if before.work.as_os_str().is_empty() {
        return Changed::default();
    }
    let mut found = Vec::new();
    let unseen = walk(&before.work, |entry| {
        if before.marks.get(&entry.path) != Some(&entry.mark) {
            found.push(entry);
        }
    });
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let mut changed = Changed::default();
    let mut path_bytes = 0;
    for entry in found {
        path_bytes += entry.path.len();
        let is_full = changed.files.len() >= MAX_ARTIFACTS || path_bytes > MAX_LISTED_PATH_BYTES;
        match listable(&entry.path, &entry.mark) {
            Ok(_) if is_full => changed.skip(&entry.path, "there are too many files"),
            Ok(path) => {
                let (size, mark) = (entry.mark.size, entry.mark);
                changed.files.push(File { work: before.work.clone(), path, size, mark });
            }
            Err(why) => changed.skip(&entry.path, why),
        }
    }
    unseen.into_iter().for_each(|unseen| changed.skip(&unseen.path, unseen.why));
    changed
}

impl Changed {
    fn skip(&mut self, path: &[u8], why: impl Into<String>) {
        let shown: String = String::from_utf8_lossy(path).chars().filter(|c| !c.is_control()).take(256).collect();
        self.skipped.push(Skipped { path: shown, why: why.into() });
    }
}

fn listable(path: &[u8], mark: &Mark) -> Result<RelativePath, String> {
    if mark.kind == FileType::Symlink {
        return Err("a symbolic link".into());
    } else if mark.kind != FileType::RegularFile {
        return Err("not a file".into());
    } else if mark.has_other_names {
        return Err("it has another name (a hard link)".into());
    }
    let text = std::str::from_utf8(path).map_err(|_| "its name is not UTF-8")?;
    if text.chars().any(char::is_control) {
        return Err("its name has control characters".into());
    }
    text.parse().map_err(|error: protocol::path::BadPath| error.to_string())
}
