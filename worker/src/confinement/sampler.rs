//! Looks now and then at what the task's processes use, where no cgroup holds them to it: memory, processor time, disk.
//!
//! It runs in pid 1 of the task's namespaces, so /proc shows just these processes and the mounts just these files.

use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::limits::{Enforced, Passed};
use super::{HOME, TEMPORARY, WORK};

mod disk;
mod processes;

/// Between two looks at the processes.
const PACE: Duration = Duration::from_millis(100);
/// Between two looks at the disk, at least; looking takes a tenth of the time at most.
const DISK_PACE: Duration = Duration::from_millis(250);
/// Where files in memory can be made.
const SHARED_MEMORY: &str = "/dev/shm";
/// What a file in memory takes of the kernel's memory beside its content, about.
const INODE_BYTES: u64 = 1024;

/// What is watched, and when to look again.
pub(super) struct Sampler {
    limits: Enforced,
    look_at: Instant,
    disk_at: Instant,
    peak_bytes: u64,
}

impl Sampler {
    pub(super) fn new(limits: Enforced) -> Self {
        let now = Instant::now();
        Self { limits, look_at: now + PACE, disk_at: now + DISK_PACE, peak_bytes: 0 }
    }

    /// How long there is nothing to look at.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        self.look_at.min(self.disk_at).saturating_duration_since(now)
    }

    /// The most memory that was seen at one time.
    pub(super) const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Looks if it is time; names the limit that was passed.
    pub(super) fn look(&mut self, now: Instant) -> Option<Passed> {
        if now >= self.look_at {
            self.look_at = now + PACE;
            if let Some(passed) = self.look_at_processes() {
                return Some(passed);
            }
        }
        if now < self.disk_at {
            return None;
        }
        let is_passed = self.is_disk_passed();
        let took = now.elapsed();
        self.disk_at = Instant::now() + DISK_PACE.max(took * 10);
        is_passed.then_some(Passed::Disk)
    }

    fn look_at_processes(&mut self) -> Option<Passed> {
        let used = processes::used();
        let held = files_in_memory() + processes::detached_shared_memory();
        let memory_bytes = used.memory_bytes + held;
        self.peak_bytes = self.peak_bytes.max(memory_bytes);
        // Pages that several processes share were counted for each: before it kills, it looks closely.
        if memory_bytes > self.limits.memory_bytes && processes::exact_memory() + held > self.limits.memory_bytes {
            return Some(Passed::Memory);
        }
        let is_over = |cpu_s: u32| used.cpu_ms > u64::from(cpu_s) * 1000;
        self.limits.cpu_s.is_some_and(is_over).then_some(Passed::Cpu)
    }

    fn is_disk_passed(&self) -> bool {
        let is_scarce = statvfs(WORK).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < self.limits.spare_bytes);
        is_scarce || disk::is_over(&[WORK, HOME, TEMPORARY], self.limits.disk_bytes)
    }
}

/// Memory that files in memory take, which belongs to no process.
fn files_in_memory() -> u64 {
    statvfs(SHARED_MEMORY).map_or(0, |files| {
        let bytes = files.f_blocks.saturating_sub(files.f_bfree) * files.f_frsize;
        bytes + files.f_files.saturating_sub(files.f_ffree) * INODE_BYTES
    })
}
