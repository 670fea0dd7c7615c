//! How much disk the task's directories take: bytes as the disk counts them, and a block for each file whatever it holds.

use std::collections::HashSet;
use std::ffi::CStr;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// What a file takes at least, its place in the directory and its inode together.
const FILE_BYTES: u64 = 4096;

/// Whether these directories take more than that. It stops counting as soon as it knows.
pub(super) fn is_over(roots: &[&str], limit: u64) -> bool {
    let mut count = Count { bytes: 0, limit, linked: HashSet::new() };
    let mut full: Vec<Vec<u8>> = roots.iter().map(|root| root.as_bytes().to_vec()).collect();
    while let Some(directory) = full.pop() {
        // A path that is too long to look at holds what nobody can count: that is over the limit, too. Any other error
        // means that it moved or went meanwhile.
        // So does one that is closed even to its owner, where this process is no more than that.
        if let Err(Errno::NAMETOOLONG | Errno::ACCESS) = count.directory(&directory, &mut full) {
            return true;
        }
        if count.bytes > limit {
            return true;
        }
    }
    false
}

struct Count {
    bytes: u64,
    limit: u64,
    linked: HashSet<(u64, u64)>,
}

impl Count {
    fn directory(&mut self, path: &[u8], found: &mut Vec<Vec<u8>>) -> rustix::io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = openat(CWD, path, flags, Mode::empty())?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(file) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_new = file.st_nlink < 2 || self.linked.insert((file.st_dev, file.st_ino));
            let is_directory = FileType::from_raw_mode(file.st_mode) == FileType::Directory;
            let blocks = if is_directory || is_new { u64::try_from(file.st_blocks).unwrap_or(0) } else { 0 };
            // Each further name counts as a file does: without end, they would make a look without end.
            self.bytes += FILE_BYTES + blocks * 512;
            if is_directory {
                found.push(join(path, name));
            }
            if self.bytes > self.limit {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn join(path: &[u8], name: &CStr) -> Vec<u8> {
    [path, b"/", name.to_bytes()].concat()
}
