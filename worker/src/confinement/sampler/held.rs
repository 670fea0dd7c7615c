//! Files that have no name any more, or never had one, and live because a process holds them open: deleted files on the
//! disk, and files in memory (memfd). Each thread may have descriptors of its own.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, MemfdFlags, Mode, OFlags, Stat, fstat, memfd_create, open, stat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::super::{Inside, Level};
use super::flood::Flood;
use super::processes::{has_lost_first_thread, has_memory, numbers, pids, threads};

/// A file by its device and inode.
pub(super) type FileId = (u64, u64);

/// What such files take.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) disk_bytes: u64,
    pub(super) memory_bytes: u64,
    /// Those in memory.
    pub(super) in_memory: HashSet<FileId>,
    on_disk: HashSet<FileId>,
    /// Whether a process hides what it holds. One without a namespace of ours can; inside gVisor one without a first
    /// thread that makes others faster than they are found.
    pub(super) is_hidden: bool,
}

/// The devices of files that may be held.
struct Places {
    disks: Vec<u64>,
    shared_memory: Option<u64>,
    memory: Option<u64>,
}

/// Looks at the descriptors of all threads of all processes, unless there is a flood of them.
pub(super) fn look(level: Level, inside: &Inside, flood: &mut Flood) -> Held {
    let device = |path: &str| stat(path).map(|file| file.st_dev).ok();
    let disks: Vec<u64> = inside.writable().into_iter().filter_map(device).collect();
    let shared_memory = if level.has_namespaces() { device("/dev/shm") } else { None };
    // Such a file of ours is where all of them are; not every kernel says that they have no name.
    let memory = memfd_create("look", MemfdFlags::CLOEXEC).and_then(|file| Ok(fstat(file)?.st_dev)).ok();
    let places = Places { disks, shared_memory, memory };
    let mut held = Held::default();
    for pid in pids(level).into_iter().take_while(|_| !flood.has_come()) {
        let threads = threads(pid);
        held.is_hidden |= threads.is_empty() && has_lost_first_thread(pid);
        for place in threads {
            held.is_hidden |= !level.has_namespaces() && is_closed(&place);
            each_file(pid, &place, |file| held.add(&file, &places));
        }
    }
    held
}

impl Held {
    fn add(&mut self, file: &Stat, places: &Places) {
        let is_file = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
        // What still stands on /dev/shm is counted there, with a name or without.
        let is_held = file.st_nlink == 0 || Some(file.st_dev) == places.memory;
        if !is_held || !is_file || Some(file.st_dev) == places.shared_memory {
            return;
        }
        let bytes = u64::try_from(file.st_blocks).unwrap_or(0) * 512;
        let id = (file.st_dev, file.st_ino);
        if places.disks.contains(&file.st_dev) {
            self.disk_bytes += if self.on_disk.insert(id) { bytes } else { 0 };
        } else {
            self.memory_bytes += if self.in_memory.insert(id) { bytes } else { 0 };
        }
    }
}

/// Whether the list of descriptors is refused even to the user whose process it is. So it is while a process dies, when it
/// has no memory any more.
fn is_closed(place: &str) -> bool {
    let opened = open(format!("{place}/fd"), OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty());
    matches!(opened, Err(Errno::ACCESS | Errno::PERM)) && has_memory(place)
}

fn each_file(pid: u32, place: &str, mut found: impl FnMut(Stat)) {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let listed = open(format!("{place}/fd"), flags, Mode::empty())
        .and_then(|directory| Ok((Dir::read_from(&directory)?, directory)));
    let Ok((entries, directory)) = listed else { return each_hidden(pid, place, found) };
    for entry in entries.flatten() {
        if let Ok(file) = statat(&directory, entry.file_name(), AtFlags::empty()) {
            found(file);
        }
    }
}

/// A process can close its list of descriptors to others, but not their numbers to us, nor the files themselves.
fn each_hidden(pid: u32, place: &str, mut found: impl FnMut(Stat)) {
    for number in numbers(&format!("{place}/fdinfo")) {
        if let Some(file) = fetch(pid, number).and_then(|file| fstat(file).ok()) {
            found(file);
        }
    }
}

fn fetch(pid: u32, number: u32) -> Option<OwnedFd> {
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, i32::try_from(number).ok()?, PidfdGetfdFlags::empty()).ok()
}
