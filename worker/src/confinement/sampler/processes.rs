//! The task's processes, read from /proc. Pid 1, or who stands in for it, is ours and does not count.

use std::fs;

use rustix::process::getpid;

use super::super::Level;
use crate::process::tree;

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

/// All that live, and those that nobody reaped.
pub(super) fn all(level: Level) -> Vec<Process> {
    pids(level).into_iter().filter_map(read).collect()
}

/// Those of the namespace, or those that came of this process.
pub(super) fn pids(level: Level) -> Vec<u32> {
    if level.has_namespaces() {
        return numbers("/proc").filter(|pid| *pid != 1).collect();
    }
    tree::descendants(getpid()).into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
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

fn read(pid: u32) -> Option<Process> {
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
    Some(if stat.is_dead && stat.threads > 1 { with_living_thread(process) } else { process })
}

fn with_living_thread(process: Process) -> Process {
    let places = numbers(&format!("{}/task", process.place)).map(|thread| format!("{}/task/{thread}", process.place));
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
