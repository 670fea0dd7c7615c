//! Looks at every file below a directory without following a link. Directories are opened one name at a time from the
//! root, so that any depth takes two descriptors and no stack; what is deeper than a path may be long is not looked at.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};

/// Bytes of the longest path that can be named.
const MAX_PATH_BYTES: usize = 1024;
/// Entries that are looked at, in all.
const MAX_ENTRIES: usize = 100_000;

/// Directories that hold what tools can make again.
const CACHES: [&[u8]; 4] = [b"__pycache__", b"node_modules", b"__pypackages__", b"bower_components"];

/// What tells whether a file is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    inode: u64,
    pub(super) size: u64,
    changed_at: [(i64, i64); 2],
    pub(super) kind: FileType,
    pub(super) has_other_names: bool,
}

impl Mark {
    #[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion, reason = "types differ by machine")]
    pub(super) fn of(stat: &Stat) -> Self {
        let ns = |part| i64::try_from(part).unwrap_or_default();
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            changed_at: [(stat.st_mtime, ns(stat.st_mtime_nsec)), (stat.st_ctime, ns(stat.st_ctime_nsec))],
            kind: FileType::from_raw_mode(stat.st_mode),
            has_other_names: stat.st_nlink > 1,
        }
    }
}

/// A file, or what is none.
pub(super) struct Entry {
    /// From the root, with `/`.
    pub(super) path: Vec<u8>,
    pub(super) mark: Mark,
}

/// Something that was not looked at.
pub(super) struct Unseen {
    pub(super) path: Vec<u8>,
    pub(super) why: String,
}

/// Shows every file to `visit`; says what could not be seen.
pub(super) fn walk(root: &Path, mut visit: impl FnMut(Entry)) -> Vec<Unseen> {
    let mut unseen = Vec::new();
    let mut pending = vec![Vec::new()];
    let mut entries = 0;
    let root = match openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(root) => root,
        Err(error) => return vec![Unseen { path: b".".to_vec(), why: error.to_string() }],
    };
    while let Some(directory) = pending.pop() {
        let listed = list(&root, &directory, &mut |name, mark| {
            entries += 1;
            let path = joined(&directory, name);
            if mark.kind != FileType::Directory {
                visit(Entry { path, mark });
            } else if path.len() > MAX_PATH_BYTES {
                unseen.push(Unseen { path, why: "its path is too long".into() });
            } else {
                pending.push(path);
            }
            entries < MAX_ENTRIES
        });
        if let Err(error) = listed {
            unseen.push(Unseen { path: directory, why: error.to_string() });
        }
        if entries >= MAX_ENTRIES {
            unseen.push(Unseen { path: "…".into(), why: format!("only {MAX_ENTRIES} entries are looked at") });
            return unseen;
        }
    }
    unseen
}

/// Opens a file that may have been anything a moment ago: never through a link, never waiting for a pipe's other end.
pub(super) fn open(root: &Path, path: &str) -> io::Result<(std::fs::File, Mark)> {
    let root = openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directory = open_directory(&root, directory.as_bytes())?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let mark = Mark::of(&fstat(&file)?);
    Ok((file.into(), mark))
}

fn open_directory(root: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = openat(root, ".", flags, Mode::empty())?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        here = openat(&here, name, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Shows the entries of one directory until `visit` has enough.
fn list(root: &OwnedFd, path: &[u8], visit: &mut dyn FnMut(&CStr, Mark) -> bool) -> io::Result<()> {
    let directory = open_directory(root, path)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") || CACHES.contains(&name.to_bytes()) {
            continue;
        }
        // What is gone meanwhile was never there.
        let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if !visit(name, Mark::of(&stat)) {
            break;
        }
    }
    Ok(())
}

fn joined(directory: &[u8], name: &CStr) -> Vec<u8> {
    let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    [directory, separator, name.to_bytes()].concat()
}
