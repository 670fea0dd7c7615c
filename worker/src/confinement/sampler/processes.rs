//! What the processes of this namespace use, read from /proc. Pid 1 is ours and does not count.

use std::fs;

/// What is used by those that live, and by those that they and pid 1 reaped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) memory_bytes: u64,
    pub(super) cpu_ms: u64,
}

/// One look at all of them.
pub(super) fn used() -> Used {
    let mut used = Used { memory_bytes: 0, cpu_ms: reaped_cpu_ms() };
    let tick_ms = 1000 / rustix::param::clock_ticks_per_second().max(1);
    for pid in pids() {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some(Stat { ticks, rss_pages }) = parse(&stat) else { continue };
        used.cpu_ms += ticks * tick_ms;
        used.memory_bytes += rss_pages * rustix::param::page_size() as u64;
    }
    used
}

/// The memory of all of them, each shared page counted once; for a process that does not show that, all it has.
pub(super) fn exact_memory() -> u64 {
    pids().map(|pid| shared_out(pid).unwrap_or_else(|| resident(pid))).sum()
}

/// Shared memory of System V outlives the processes that made it. The eighth column from the end of a line is its size
/// in memory.
pub(super) fn detached_shared_memory() -> u64 {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let (mut bytes, mut lines) = (0, table.lines());
    let Some(place) = lines.next().and_then(|head| head.split_whitespace().position(|name| name == "rss")) else {
        return 0;
    };
    let attached = table.lines().next().and_then(|head| head.split_whitespace().position(|name| name == "nattch"));
    for line in lines {
        let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        if attached.and_then(|place| fields.get(place)) == Some(&0) {
            bytes += fields.get(place).copied().unwrap_or(0);
        }
    }
    bytes
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != 1)
}

fn shared_out(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(pss.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn resident(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    parse(&stat).map_or(0, |stat| stat.rss_pages * rustix::param::page_size() as u64)
}

fn reaped_cpu_ms() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0 };
    let ms = |time: nix::sys::time::TimeVal| time.tv_sec() * 1000 + time.tv_usec() / 1000;
    u64::try_from(ms(usage.user_time()) + ms(usage.system_time())).unwrap_or(0)
}

struct Stat {
    ticks: u64,
    rss_pages: u64,
}

/// Fields of a stat line, counted behind the program's name, which may hold anything: processor time of the process and of
/// children that it reaped, and its memory.
fn parse(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    let ticks = (11..=14).filter_map(number).sum();
    Some(Stat { ticks, rss_pages: number(21)? })
}

#[cfg(test)]
mod tests;
