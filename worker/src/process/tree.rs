//! Who descends from whom, read from /proc. A snapshot: whoever needs to be sure looks again.

use std::collections::HashSet;

use rustix::process::Pid;

/// The direct children of a process, the dead and unreaped among them.
pub(crate) fn children(of: Pid) -> Vec<Pid> {
    parents().into_iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| pid).collect()
}

/// Those of this process, which must have one thread. In one read where the kernel has a list of them.
pub(crate) fn own_children() -> Vec<Pid> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect(),
        Err(_) => children(rustix::process::getpid()),
    }
}

/// All processes below one, without itself.
pub(crate) fn descendants(of: Pid) -> Vec<Pid> {
    let parents = parents();
    let mut found = HashSet::from([of]);
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            found.remove(&of);
            return found.into_iter().collect();
        }
    }
}

/// Every process that can be seen, with its parent. Without /proc there are none.
fn parents() -> Vec<(Pid, Pid)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<i32>().ok();
    entries.filter_map(number).filter_map(|pid| Some((Pid::from_raw(pid)?, parent(pid)?))).collect()
}

fn parent(pid: i32) -> Option<Pid> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat)
}

/// The fourth field of a stat line. The second is the program's name in brackets, which may hold anything.
fn parent_in(stat: &[u8]) -> Option<Pid> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    Pid::from_raw(rest.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests;
