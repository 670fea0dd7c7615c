//! How much memory is in use, each page counted once: what processes have of their own, and what belongs to none: files in
//! memory, shared memory of System V. Pages of ordinary files do not count: the kernel takes them back when it needs them.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{stat, statvfs};

use super::held::{FileId, Held};
use super::processes::Process;

/// Where files in memory can be made.
const SHARED_MEMORY: &str = "/dev/shm";
/// Text about mappings that is read of one process: some six thousand of them.
const MOST_MAPS_BYTES: u64 = 4 << 20;
/// What a file in memory takes of the kernel's memory beside its content, about.
const INODE_BYTES: u64 = 1024;

/// What the files in memory take that have a name, or had one.
pub(super) fn files() -> u64 {
    statvfs(SHARED_MEMORY).map_or(0, |files| {
        let bytes = files.f_blocks.saturating_sub(files.f_bfree) * files.f_frsize;
        bytes + files.f_files.saturating_sub(files.f_ffree) * INODE_BYTES
    })
}

/// What a process has of its own, without what is counted elsewhere. All that it has, where that is not told, or where so
/// many mappings tell it that to read them would keep whoever watches from watching.
pub(super) fn own(process: &Process, held: &Held) -> u64 {
    let device = stat(SHARED_MEMORY).map(|files| files.st_dev).unwrap_or(0);
    let is_counted =
        |(file, path): (FileId, &str)| file.0 == device || path.starts_with("/SYSV") || held.in_memory.contains(&file);
    let maps = mappings(process).unwrap_or_default();
    if maps.is_empty() { process.resident_bytes } else { sum(&maps, is_counted) }
}

/// Its mappings, unless they are too many. Names of files may be no text.
fn mappings(process: &Process) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(format!("{}/smaps", process.place))?.take(MOST_MAPS_BYTES + 1).read_to_end(&mut text)?;
    let is_whole = text.len() as u64 <= MOST_MAPS_BYTES;
    Ok(if is_whole { String::from_utf8_lossy(&text).into_owned() } else { String::new() })
}

/// Adds up mappings: of files their changed pages, of all else each page by the number of those who share it.
fn sum(maps: &str, is_counted: impl Fn((FileId, &str)) -> bool) -> u64 {
    let (mut kib, mut field) = (0, "Pss:");
    for line in maps.lines() {
        if let Some((file, path)) = mapping(line) {
            let is_in_memory = file.1 == 0 || is_shared_memory(path);
            field = match () {
                () if is_counted((file, path)) => "",
                () if is_in_memory => "Pss:",
                () => "Anonymous:",
            };
        } else if let (false, Some(value)) = (field.is_empty(), line.strip_prefix(field)) {
            kib += value.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        }
    }
    kib * 1024
}

/// What the kernel calls memory that processes share and that is in no directory; one name is the task's own choice.
fn is_shared_memory(path: &str) -> bool {
    ["/dev/zero", "/memfd:", "/SYSV", "[anon_shmem:"].iter().any(|name| path.starts_with(name))
}

/// The file of a line that begins a mapping: `from-to rwxp offset major:minor inode path`.
fn mapping(line: &str) -> Option<(FileId, &str)> {
    let mut fields = line.splitn(6, ' ');
    fields.next().filter(|range| range.contains('-'))?;
    let (device, inode) = (fields.nth(2)?, fields.next()?);
    let (major, minor) = device.split_once(':')?;
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok();
    let device = rustix::fs::makedev(number(major)?, number(minor)?);
    Some(((device, inode.trim().parse().ok()?), fields.next().unwrap_or_default().trim_start()))
}

#[cfg(test)]
mod tests;
