//! Looks now and then at what the task's processes use, where no cgroup holds them to it: memory, processor time, disk.
//!
//! It runs in pid 1 of the task's namespaces, so /proc shows just these processes and the mounts just these files; without
//! namespaces it takes what descends from its own process, which reaps it, and the attempt's own directories. A look
//! costs a tenth of the time at most, unless it is very long, and who is gone before the first costs nothing.

use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::limits::{Enforced, Passed};
use super::{Inside, Level, apply};
use cpu::CpuAccount;
use flood::Flood;
use held::Held;

mod cpu;
mod disk;
mod flood;
mod held;
mod memory;
mod processes;

/// Between two looks at the processes, at least.
const PACE: Duration = Duration::from_millis(100);
/// Before the look that decides: who only starts a program shares all its memory with it for a moment.
const CLOSER: Duration = Duration::from_millis(10);
/// Between two looks at the disk, at least.
const DISK_PACE: Duration = Duration::from_millis(250);
/// How much longer than a look the pause after it is, at least.
const PAUSE: u32 = 10;
/// Between two looks at the processes, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is watched, and when to look again.
pub(super) struct Sampler {
    limits: Enforced,
    inside: Inside,
    level: Level,
    began_at: Instant,
    look_at: Instant,
    disk_at: Instant,
    cpu: CpuAccount,
    /// What the last look saw in files without a name.
    held: Held,
    /// The limit that seemed passed at the last look.
    suspect: Option<Passed>,
    /// Whether the last look did not come to its end.
    is_broken_off: bool,
    peak_bytes: u64,
    /// The rough figure at which the processes were looked at closely for the peak.
    closely_at_bytes: u64,
}

/// What came of a look at the processes.
enum Look {
    /// The limit that seemed passed, if any.
    Whole(Option<Passed>),
    /// Their number grew beyond the limit meanwhile.
    BrokenOff,
}

impl Sampler {
    pub(super) fn new(limits: Enforced, inside: Inside, level: Level) -> Self {
        let now = Instant::now();
        Self {
            limits,
            inside,
            level,
            began_at: now,
            look_at: now + PACE,
            disk_at: now + DISK_PACE,
            cpu: CpuAccount::default(),
            held: Held::default(),
            suspect: None,
            is_broken_off: false,
            peak_bytes: 0,
            closely_at_bytes: 0,
        }
    }

    /// How long there is nothing to look at.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        self.look_at.min(self.disk_at).saturating_duration_since(now)
    }

    /// The most memory that was seen at one time.
    pub(super) const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Processor time of all processes that were seen, those that nobody reaped included.
    pub(super) fn cpu_ms(&self) -> u64 {
        self.cpu.total_ms()
    }

    /// How long the processes live.
    pub(super) fn age(&self) -> Duration {
        self.began_at.elapsed()
    }

    /// Looks if it is time; names the limit that was passed.
    pub(super) fn look(&mut self, now: Instant) -> Option<Passed> {
        if now >= self.look_at {
            match self.look_at_processes() {
                Look::BrokenOff => self.look_at = Instant::now(),
                Look::Whole(seen) => {
                    let is_sure = seen == Some(Passed::Processes) || (seen.is_some() && seen == self.suspect);
                    self.suspect = seen;
                    if is_sure {
                        return seen;
                    }
                    let pause = if seen.is_some() { CLOSER } else { PACE };
                    self.look_at = Instant::now() + pause.max(now.elapsed() * PAUSE).min(LONGEST_PAUSE);
                }
            }
        }
        if now < self.disk_at {
            return None;
        }
        let began_at = Instant::now();
        if !self.watches_processes() {
            self.held = held::look(self.level, &self.inside, &mut self.flood());
        }
        let is_passed = self.is_disk_passed();
        self.disk_at = Instant::now() + DISK_PACE.max(began_at.elapsed() * PAUSE);
        is_passed.then_some(Passed::Disk)
    }

    /// The last look, when no process lives any more. One that failed may have done so at its limit, before a look saw
    /// it there. The disk is looked at unless they were gone before the first look was due.
    pub(super) fn last_look(&mut self, has_failed: bool, cpu_ms: u64, peak_bytes: u64) -> Option<Passed> {
        let limit = self.limits.memory_bytes;
        if has_failed && !self.limits.in_cgroup && (peak_bytes > limit || self.shared_bytes() > limit) {
            return Some(Passed::Memory);
        }
        if has_failed && self.is_over_cpu(cpu_ms) {
            return Some(Passed::Cpu);
        }
        self.held = Held::default();
        (self.age() >= PACE && self.is_disk_passed()).then_some(Passed::Disk)
    }

    /// Whether a cgroup does not do all of it.
    const fn watches_processes(&self) -> bool {
        !self.limits.in_cgroup || self.limits.cpu_s.is_some()
    }

    fn look_at_processes(&mut self) -> Look {
        if !self.watches_processes() {
            return Look::Whole(None);
        }
        let mut flood = self.flood();
        self.is_broken_off = false;
        let pids = processes::pids(self.level);
        if flood.is(pids.len() as u64) {
            return Look::Whole(Some(Passed::Processes));
        }
        let pids = pids.into_iter().take_while(|_| !flood.has_come());
        let processes: Vec<_> = pids.filter_map(processes::read).collect();
        if flood.has_come() {
            return self.break_off();
        }
        if self.is_over_processes(&processes) {
            return Look::Whole(Some(Passed::Processes));
        }
        let cpu_ms = self.cpu.update(&processes);
        let held = held::look(self.level, &self.inside, &mut flood);
        if flood.has_come() {
            return self.break_off();
        }
        self.held = held;
        let is_over_memory = !self.limits.in_cgroup && self.memory(&processes, &mut flood) > self.limits.memory_bytes;
        if flood.has_come() {
            return self.break_off();
        }
        Look::Whole(match () {
            () if is_over_memory => Some(Passed::Memory),
            () if self.is_over_cpu(cpu_ms) => Some(Passed::Cpu),
            () => None,
        })
    }

    /// Leaves a look for one that begins anew, when the dead are reaped: while one looks, they count. That one goes on to its
    /// end, so that whoever makes many processes keeps nobody from looking.
    const fn break_off(&mut self) -> Look {
        self.is_broken_off = true;
        Look::BrokenOff
    }

    /// Processes and threads that are not held by the kernel's own limit, when they are too many.
    fn is_over_processes(&self, processes: &[processes::Process]) -> bool {
        let threads: u64 = processes.iter().map(|process| process.threads).sum();
        let is_watched = self.level.counts_processes() || self.limits.counted_with.is_some();
        is_watched && !self.limits.in_cgroup && threads > self.limits.pids.into()
    }

    fn flood(&self) -> Flood {
        let most = self.limits.counted_with.map(|_| self.limits.pids.into());
        Flood::new(self.level, most, !self.is_broken_off)
    }

    /// Memory that belongs to no process. Without namespaces it is the machine's, and a task can make none of it.
    fn shared_bytes(&self) -> u64 {
        if self.level.has_namespaces() { memory::files() + apply::system_v_bytes() } else { 0 }
    }

    fn is_over_cpu(&self, cpu_ms: u64) -> bool {
        self.limits.cpu_s.is_some_and(|cpu_s| cpu_ms > u64::from(cpu_s) * 1000)
    }

    /// Memory in use: roughly, which is never too little, and closely before it decides anything.
    fn memory(&mut self, processes: &[processes::Process], flood: &mut Flood) -> u64 {
        let tables: u64 = processes.iter().map(processes::table_bytes).sum();
        let detached = self.held.memory_bytes + self.shared_bytes() + tables;
        let rough = detached + processes.iter().map(|process| process.resident_bytes).sum::<u64>();
        let is_grown = rough > self.closely_at_bytes + self.closely_at_bytes / 8;
        if rough <= self.limits.memory_bytes && !is_grown {
            return rough;
        }
        self.closely_at_bytes = self.closely_at_bytes.max(rough);
        let looked_at = processes.iter().take_while(|_| !flood.has_come());
        let exact = detached + looked_at.map(|process| memory::own(process, &self.held)).sum::<u64>();
        self.peak_bytes = self.peak_bytes.max(exact);
        exact
    }

    fn is_disk_passed(&self) -> bool {
        let free = statvfs(self.inside.work.as_str()).map(|disk| disk.f_bavail * disk.f_frsize);
        let is_scarce = free.is_ok_and(|bytes| bytes < self.limits.spare_bytes);
        let left = self.limits.disk_bytes.checked_sub(self.held.disk_bytes);
        is_scarce || self.held.is_hidden || left.is_none_or(|left| disk::is_over(&self.inside.writable(), left))
    }
}
