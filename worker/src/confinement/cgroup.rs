//! One cgroup for each attempt where the worker may make them, version 2 or 1: memory and processes held to their limits by
//! the kernel, and what was used read from it. Where it may not, the sampler and rlimits do what they can.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Enforced;

/// What our cgroups are called, before the attempt's name. Each is held by a lock for as long as its worker lives.
const PREFIX: &str = "cw-attempt-";
/// Processes in the cgroup beside the task's own: bubblewrap's and pid 1.
const OWN_PROCESSES: u32 = 3;
/// Memory that these take, in bytes, and more: a limit below what is in use already could not be set.
const OWN_MEMORY_BYTES: u64 = 8 << 20;
const HOLD_TRIES: u32 = 100;
/// A peak that may be mostly files.
const WORTH_A_LOOK_BYTES: u64 = 32 << 20;

/// Where cgroups of attempts can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// One directory for all controllers.
    V2(PathBuf),
    /// A directory for each controller.
    V1 { memory: PathBuf, pids: PathBuf, cpu: Option<PathBuf> },
}

/// What the kernel counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Whether a process was ended for want of memory.
    pub(crate) is_out_of_memory: bool,
}

impl Hierarchy {
    /// The one in which this worker may make cgroups; none when there is none.
    pub(crate) fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        Self::v2(&own, &mounts).or_else(|| Self::v1(&own, &mounts)).filter(Self::works)
    }

    fn v2(own: &str, mounts: &str) -> Option<Self> {
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let root = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
        let base = Path::new(root).join(path);
        let has = |file: &str| {
            let words = fs::read_to_string(base.join(file)).unwrap_or_default();
            ["memory", "pids"].iter().all(|name| words.split_whitespace().any(|word| word == *name))
        };
        if !has("cgroup.controllers") {
            return None;
        }
        if !has("cgroup.subtree_control") {
            // Controllers are for the leaves only: the worker moves into one itself.
            let leaf = base.join("cw-worker");
            let _ = fs::create_dir(&leaf);
            fs::write(leaf.join("cgroup.procs"), "0").ok()?;
            fs::write(base.join("cgroup.subtree_control"), "+memory +pids").ok()?;
        }
        Some(Self::V2(base))
    }

    fn v1(own: &str, mounts: &str) -> Option<Self> {
        let find = |name: &str| v1_directory(own, mounts, name);
        Some(Self::V1 { memory: find("memory")?, pids: find("pids")?, cpu: find("cpuacct") })
    }

    /// Makes one and removes it.
    fn works(&self) -> bool {
        let Ok(cgroup) = self.make("probe") else { return false };
        cgroup.remove().is_ok()
    }

    /// Makes the cgroup of an attempt.
    pub(crate) fn make(&self, name: &str) -> io::Result<Cgroup> {
        let directories = self.directories(name);
        let held: io::Result<Vec<File>> = directories.iter().map(|directory| hold(directory)).collect();
        let held = held.inspect_err(|_| directories.iter().for_each(|directory| drop(fs::remove_dir(directory))))?;
        Ok(Cgroup { directories, _held: held, is_v2: matches!(self, Self::V2(_)) })
    }

    fn directories(&self, name: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join(format!("{PREFIX}{name}"))).collect()
    }

    fn bases(&self) -> Vec<&Path> {
        match self {
            Self::V2(base) => vec![base],
            Self::V1 { memory, pids, cpu } => {
                [Some(memory), Some(pids), cpu.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect()
            }
        }
    }

    /// Removes cgroups whose worker is dead, whichever it was: nobody holds them.
    pub(crate) fn sweep(&self) {
        for base in self.bases() {
            let entries = fs::read_dir(base).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
                if let Ok(found) = File::open(entry.path())
                    && found.try_lock().is_ok()
                    && let Err(error) = remove(&entry.path())
                {
                    tracing::warn!("cannot remove {}: {error}", entry.path().display());
                }
            }
        }
    }
}

/// Moves this process, which must have one thread, into a cgroup. In version 1 a thread that moves alone is moved at once,
/// while a process waits some milliseconds for all others to stop being made.
pub(crate) fn join(directory: &Path) -> anyhow::Result<()> {
    let tasks = directory.join("tasks");
    let file = if tasks.exists() { tasks } else { directory.join("cgroup.procs") };
    fs::write(&file, "0").with_context(|| format!("cannot join {}", file.display()))
}

/// Makes a directory and holds it. Between the two another worker may take it for one that is left over, and remove it.
fn hold(directory: &Path) -> io::Result<File> {
    for _ in 0..HOLD_TRIES {
        match fs::create_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let Ok(held) = File::open(directory) else { continue };
        held.lock()?;
        let inode = held.metadata()?.ino();
        if fs::metadata(directory).is_ok_and(|found| found.ino() == inode) {
            return Ok(held);
        }
    }
    Err(io::Error::other(format!("{} is removed again and again", directory.display())))
}

/// Removes one whose processes are gone. The kernel needs a moment for those that were just reaped.
fn remove(directory: &Path) -> io::Result<()> {
    let mut tries = 0;
    while let Err(error) = fs::remove_dir(directory) {
        tries += 1;
        if error.kind() == io::ErrorKind::NotFound {
            break;
        }
        if error.kind() != io::ErrorKind::ResourceBusy || tries > 200 {
            return Err(error);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}

/// The directory of one controller, as the worker's own cgroup stands in it.
fn v1_directory(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let names = |list: &str| list.split(',').any(|name| name == controller);
    let mount = mounts.lines().find(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields.get(2) == Some(&"cgroup") && fields.get(3).is_some_and(|options| names(options))
    })?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        fields.nth(1).filter(|list| names(list))?;
        fields.next()
    })?;
    let root = Path::new(mount.split(' ').nth(1)?);
    let below = root.join(path.trim_start_matches('/'));
    Some(if below.is_dir() { below } else { root.to_path_buf() })
}

/// The cgroup of one attempt. It stays until `remove`.
#[derive(Debug)]
pub(crate) struct Cgroup {
    directories: Vec<PathBuf>,
    _held: Vec<File>,
    is_v2: bool,
}

impl Cgroup {
    /// The directories that must be joined.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Holds all that is in it to these limits.
    pub(crate) fn limit(&self, limits: &Enforced) -> io::Result<()> {
        let pids = (limits.pids + OWN_PROCESSES).to_string();
        let memory = limits.memory_bytes.saturating_add(OWN_MEMORY_BYTES).to_string();
        if self.is_v2 {
            self.write("memory.max", &memory)?;
            let _ = self.write("memory.swap.max", "0");
            let _ = self.write("memory.oom.group", "1");
        } else {
            self.write("memory.limit_in_bytes", &memory)?;
            // Swap counts too, where the kernel counts it.
            let _ = self.write("memory.memsw.limit_in_bytes", &memory);
        }
        self.write("pids.max", &pids)
    }

    /// What was used, as far as the kernel tells.
    pub(crate) fn counted(&self) -> Counted {
        let peak = self.number(if self.is_v2 { "memory.peak" } else { "memory.max_usage_in_bytes" });
        Counted {
            cpu_ms: self.cpu_ms(),
            peak_memory_bytes: peak.map(|bytes| bytes.saturating_sub(self.cached_bytes(bytes))),
            is_out_of_memory: self.is_out_of_memory(),
        }
    }

    /// Processor time so far.
    pub(crate) fn cpu_ms(&self) -> Option<u64> {
        if self.is_v2 {
            return self.read("cpu.stat").and_then(|text| keyed(&text, "usage_usec")).map(|us| us / 1000);
        }
        self.number("cpuacct.usage").map(|ns| ns / 1_000_000)
    }

    /// Whether a process was ended for want of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let events = self.read(if self.is_v2 { "memory.events" } else { "memory.oom_control" });
        events.and_then(|text| keyed(&text, "oom_kill")).is_some_and(|kills| kills > 0)
    }

    /// What the kernel still keeps of ordinary files, which it would have given back: it counts as memory, but says
    /// nothing of what the processes needed. A small peak is not worth the look.
    fn cached_bytes(&self, peak_bytes: u64) -> u64 {
        if peak_bytes < WORTH_A_LOOK_BYTES {
            return 0;
        }
        let stat = self.read("memory.stat").unwrap_or_default();
        let files = keyed(&stat, if self.is_v2 { "file " } else { "cache " }).unwrap_or(0);
        files.saturating_sub(keyed(&stat, "shmem ").unwrap_or(0))
    }

    /// Removes it; its processes must be gone.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.directories.iter().try_for_each(|directory| remove(directory))
    }

    /// Writes to the file wherever the controller has it.
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.directories.iter().map(|directory| directory.join(file)).find(|path| path.exists());
        fs::write(path.ok_or(io::ErrorKind::NotFound)?, text)
    }

    fn read(&self, file: &str) -> Option<String> {
        self.directories.iter().find_map(|directory| fs::read_to_string(directory.join(file)).ok())
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests;
