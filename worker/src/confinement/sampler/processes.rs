//! The task's processes, read from /proc. Pid 1, or who stands in for it, is ours and does not count.

use std::fs;

use rustix::fs::{Access, access};
use rustix::process::getpid;

use super::super::Level;
use crate::process::tree;

/// The highest number that gVisor gives a process or a thread.
const LAST_PID: u32 = 1 << 16;
/// How many numbers to try before it is looked whether that is still needed.
const TRIES_AT_ONCE: usize = 1024;

/// One process, with all its threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// Where /proc shows its memory: a first thread that is gone shows none, the others do.
    pub(super) place: String,
    pub(super) pid: u32,
    /// When it began; another process with this pid began at another time.
    pub(super) started: u64,
    /// Its own processor time, in ticks.
    pub(super) ticks: u64,
    /// That of children that it reaped, and that these had reaped.
    pub(super) reaped_ticks: u64,
    pub(super) resident_bytes: u64,
    pub(super) threads: u64,
}

/// Those of the namespace, or those that came of this process; those that nobody reaped, too.
pub(super) fn pids(level: Level) -> Vec<u32> {
    if level.has_namespaces() {
        return numbers("/proc").filter(|pid| *pid != 1).collect();
    }
    tree::descendants(getpid()).into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
}

/// Where /proc shows the threads of a process. Of one whose first thread is gone, gVisor shows none there, but all of them
/// with each thread that is asked for by its own number.
pub(super) fn threads(pid: u32) -> Vec<String> {
    let below = |place: String| numbers(&place).map(|thread| format!("{place}/{thread}")).collect::<Vec<_>>();
    match below(format!("/proc/{pid}/task")) {
        listed if listed.is_empty() => stray_thread(pid).map_or(listed, |thread| below(format!("/proc/{thread}/task"))),
        listed => listed,
    }
}

/// Whether a process goes on without its first thread.
pub(super) fn has_lost_first_thread(pid: u32) -> bool {
    Stat::read(&format!("/proc/{pid}")).is_some_and(|stat| stat.has_lost_first_thread())
}

/// A living thread of a process that has lost its first one, by trying numbers: from that of the process on, because
/// numbers are given in turn.
fn stray_thread(pid: u32) -> Option<u32> {
    let is_its = |thread: u32| access(format!("/proc/{thread}/task/{pid}"), Access::EXISTS).is_ok();
    // One that is about to end as a whole is like that for a moment.
    let goes_on = |tried: usize| !tried.is_multiple_of(TRIES_AT_ONCE) || has_lost_first_thread(pid);
    let numbers = (pid + 1..=LAST_PID).chain(2..pid).enumerate();
    numbers.take_while(|(tried, _)| goes_on(*tried)).map(|(_, number)| number).find(|number| is_its(*number))
}

/// The entries of a directory that are numbers.
pub(super) fn numbers(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the kernel keeps to find a process's memory: pages that were only ever read take none but these. Where it does
/// not tell (gVisor), nothing.
pub(super) fn table_bytes(process: &Process) -> u64 {
    let status = fs::read(format!("{}/status", process.place)).unwrap_or_default();
    kib_of(&status, b"VmPTE:").unwrap_or(0) * 1024
}

/// A field of a status. The process chose its name, which may hold anything but a line's end.
fn kib_of(status: &[u8], field: &[u8]) -> Option<u64> {
    let value = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(field))?;
    std::str::from_utf8(value).ok()?.trim().trim_end_matches(" kB").parse().ok()
}

/// Whether a process or thread has memory still, and so is neither dead nor dying.
pub(super) fn has_memory(place: &str) -> bool {
    Stat::read(place).is_some_and(|stat| stat.virtual_bytes > 0)
}

/// A process, if it is still there.
pub(super) fn read(pid: u32) -> Option<Process> {
    let place = format!("/proc/{pid}");
    let stat = Stat::read(&place)?;
    let process = Process {
        pid,
        started: stat.started,
        ticks: stat.ticks,
        reaped_ticks: stat.reaped_ticks,
        threads: stat.threads,
        resident_bytes: stat.rss_pages * rustix::param::page_size() as u64,
        place,
    };
    Some(if stat.has_lost_first_thread() { with_living_thread(process) } else { process })
}

fn with_living_thread(process: Process) -> Process {
    let places = threads(process.pid).into_iter();
    let mut living = places.filter_map(|place| Some((Stat::read(&place).filter(|stat| !stat.is_dead)?, place)));
    match living.next() {
        Some((stat, place)) => {
            Process { place, resident_bytes: stat.rss_pages * rustix::param::page_size() as u64, ..process }
        }
        None => process,
    }
}

struct Stat {
    is_dead: bool,
    ticks: u64,
    reaped_ticks: u64,
    threads: u64,
    started: u64,
    virtual_bytes: u64,
    rss_pages: u64,
}

impl Stat {
    const fn has_lost_first_thread(&self) -> bool {
        self.is_dead && self.threads > 1
    }

    fn read(place: &str) -> Option<Self> {
        Self::parse(&fs::read(format!("{place}/stat")).ok()?)
    }

    /// Fields of a stat line, counted behind the program's name, which may hold anything.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
        Some(Self {
            is_dead: fields.first() == Some(&"Z"),
            ticks: number(11)? + number(12)?,
            reaped_ticks: number(13)? + number(14)?,
            threads: number(17)?,
            started: number(19)?,
            virtual_bytes: number(20)?,
            rss_pages: number(21)?,
        })
    }
}

#[cfg(test)]
mod tests;
