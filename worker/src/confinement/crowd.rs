//! How many processes and threads the worker's user has. Where the kernel counts those of a task with them, they come and
//! go, so that its limit (RLIMIT_NPROC) is only there to stop a flood until the sampler sees it.

use std::fs;
use std::path::Path;

use rustix::process::getuid;

use super::gvisor;

/// Room for what else the worker's user may start meanwhile, other tasks among it.
const ROOM: u64 = 256;
/// The same inside gVisor, where many processes that burn keep whoever looks at them from looking.
const ROOM_IN_GVISOR: u64 = 64;

/// What must be added to the limit of a task that counts with the rest of this user, at this moment.
pub(crate) fn with_room() -> u64 {
    threads_of(getuid().as_raw()) + if gvisor::is_kernel() { ROOM_IN_GVISOR } else { ROOM }
}

fn threads_of(uid: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| threads_in(&entry.path(), uid)).sum()
}

/// The threads of the process of this place below /proc, if it is this user's. Its name may be no text.
fn threads_in(place: &Path, uid: u32) -> Option<u64> {
    let status = fs::read(place.join("status")).ok()?;
    threads(&String::from_utf8_lossy(&status), uid)
}

/// The threads of a process, if it is this user's.
fn threads(status: &str, uid: u32) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
    (field("Uid:")?.parse() == Ok(uid)).then(|| field("Threads:")?.parse().ok())?
}

#[cfg(test)]
mod tests;
