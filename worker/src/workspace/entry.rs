//! What stands, or should stand, at a path of a workspace.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use protocol::path::WorkspacePath;
use protocol::workspace::{FileKind, MAX_TARGET_BYTES, MODE_BITS, ManifestEntry};
use rustix::fs::{Stat, Timespec, Timestamps};

/// The SHA-256 of a content.
pub(super) type Sum = [u8; 32];

/// A path from the root of a workspace, which was checked.
pub(super) type Path = Box<str>;

/// Something, without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    File { size: u64, sum: Sum, mode: u32 },
    Directory { mode: u32 },
    Symlink { target: Box<str> },
}

/// Something, and when its content was last changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) what: What,
    pub(super) modified_ms: i64,
}

/// What tells whether a file is still the one that it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: (i64, i64),
    pub(super) changed: (i64, i64),
}

/// Something that stands on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Laid {
    pub(super) entry: Entry,
    pub(super) mark: Mark,
}

/// All that stands below a root, by path.
pub(super) type Entries = BTreeMap<Path, Laid>;

impl Mark {
    #[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion, reason = "types differ by machine")]
    pub(super) fn of(stat: &Stat) -> Self {
        let ns = |part| i64::try_from(part).unwrap_or_default();
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: stat.st_mode,
            modified: (stat.st_mtime, ns(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, ns(stat.st_ctime_nsec)),
        }
    }

    /// The bits that a workspace keeps.
    pub(super) const fn permissions(&self) -> u32 {
        self.mode & MODE_BITS
    }

    /// Whether it has a bit that a workspace does not keep.
    pub(super) const fn is_special(&self) -> bool {
        self.mode & 0o7000 != 0
    }

    /// Whether it holds the same bytes, whatever became of its mode.
    pub(super) fn has_content_of(&self, other: &Self) -> bool {
        (self.inode, self.size, self.modified) == (other.inode, other.size, other.modified)
    }
}

impl What {
    pub(super) const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Whether only the mode differs, if anything.
    pub(super) fn has_content_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { size, sum, .. }, Self::File { size: other_size, sum: other_sum, .. }) => {
                (size, sum) == (other_size, other_sum)
            }
            (Self::Directory { .. }, Self::Directory { .. }) => true,
            (one, other) => one == other,
        }
    }

    /// Bytes that it takes on a disk, about: whatever it holds, it takes a block.
    pub(super) const fn disk_bytes(&self) -> u64 {
        const BLOCK: u64 = 4096;
        match self {
            Self::File { size, .. } => BLOCK + size.div_ceil(BLOCK) * BLOCK,
            // A directory has a block of its own.
            Self::Directory { .. } => 2 * BLOCK,
            Self::Symlink { .. } => BLOCK,
        }
    }
}

impl Entry {
    /// Checks what the coordinator says of a path.
    pub(super) fn new(told: &ManifestEntry) -> anyhow::Result<Self> {
        let mode = told.mode & MODE_BITS;
        let what = match told.kind {
            FileKind::File => {
                let sum = told.sha256.as_deref().and_then(sum).context("a file has no sum")?;
                What::File { size: told.size, sum, mode }
            }
            FileKind::Directory => What::Directory { mode },
            FileKind::Symlink => {
                let target = told.target.as_deref().context("a link has no target")?;
                let is_possible = (1..=MAX_TARGET_BYTES).contains(&target.len()) && !target.contains('\0');
                ensure!(is_possible, "a link has an impossible target");
                What::Symlink { target: target.into() }
            }
        };
        Ok(Self { what, modified_ms: told.modified_at.as_ms() })
    }

    /// Its time, as a file system takes it.
    pub(super) fn times(&self) -> Timestamps {
        let time = Timespec {
            tv_sec: self.modified_ms.div_euclid(1000),
            tv_nsec: (self.modified_ms.rem_euclid(1000) * 1_000_000) as _,
        };
        Timestamps { last_access: time, last_modification: time }
    }
}

/// A path as the coordinator keeps it.
pub(super) fn path(text: &str, overlay: bool) -> anyhow::Result<Path> {
    let path = WorkspacePath::from_relative(text)?;
    match path.overlay() {
        Some(found) if overlay && path.as_str().split('/').next() == Some(found.as_str()) => {}
        None if !overlay => {}
        Some(_) | None => bail!("`{path}` and what is said of overlays do not go together"),
    }
    Ok(path.as_str().into())
}

/// The directory that a path is in, and its name there.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The directories above a path.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

/// Reads a sum that is written in hexadecimal.
pub(super) fn sum(text: &str) -> Option<Sum> {
    if !protocol::artifact::is_sha256(text) {
        return None;
    }
    let mut sum = [0; 32];
    for (byte, digits) in sum.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(sum)
}

/// Writes a sum as it goes over the wire.
pub(super) fn hexadecimal(sum: &Sum) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    sum.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests;
