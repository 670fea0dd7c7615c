//! What a task may use, with every default filled in.

use protocol::{Limits, Run, Spec};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Limits as they are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enforced {
    /// Memory of all processes, in bytes.
    pub(crate) memory_bytes: u64,
    /// Processor time of all processes, in seconds.
    pub(crate) cpu_s: Option<u32>,
    /// Processes and threads at one time.
    pub(crate) pids: u32,
    /// The largest file, in bytes.
    pub(crate) file_size_bytes: u64,
    /// Open files of one process.
    pub(crate) open_files: u32,
    /// What all files may take, in bytes.
    pub(crate) disk_bytes: u64,
    /// What must stay free on the disk, in bytes.
    pub(crate) spare_bytes: u64,
    /// Whether a cgroup holds memory and pids, so that they need not be watched.
    pub(crate) in_cgroup: bool,
    /// Processes and threads that the kernel counts with the task's own, though it has a user namespace: inside gVisor, those
    /// of the worker's user. The task's must be watched then.
    pub(crate) counted_with: Option<u64>,
}

/// What must stay free on the worker's disk, in bytes.
pub(crate) const SPARE_BYTES: u64 = GIB;

/// Too little for a core dump in a file. For a program that the machine has for them (a `core_pattern` that begins with `|`),
/// which runs as root with all that a task had in memory, 0 would be no limit; at 1 it is not run.
pub(super) const NO_CORE_BYTES: u64 = 1;

/// What a task may use of memory when it says nothing, in bytes.
const USUAL_MEMORY_BYTES: u64 = 512 * MIB;
/// Processes of a task that is no agent, when its spec does not say.
pub(crate) const DEFAULT_PIDS: u32 = 128;

impl Enforced {
    /// The memory of most tasks, in bytes.
    pub(crate) const fn usual_memory_bytes() -> u64 {
        USUAL_MEMORY_BYTES
    }

    /// The spec's limits, with the defaults of its kind.
    pub(crate) fn new(spec: &Spec) -> Self {
        let Limits { memory_bytes, cpu_s, pids, file_size_bytes, open_files, disk_bytes, .. } = spec.limits;
        let is_agent = matches!(spec.run, Run::Agent { .. });
        Self {
            memory_bytes: memory_bytes.unwrap_or(if is_agent { 4 * GIB } else { USUAL_MEMORY_BYTES }),
            cpu_s,
            pids: pids.unwrap_or(if is_agent { 512 } else { DEFAULT_PIDS }),
            file_size_bytes: file_size_bytes.unwrap_or(100 * MIB),
            open_files: open_files.unwrap_or(1024),
            disk_bytes: disk_bytes.unwrap_or(GIB),
            spare_bytes: SPARE_BYTES,
            in_cgroup: false,
            counted_with: None,
        }
    }
}

/// The limit that a task tried to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Passed {
    /// Its memory.
    Memory,
    /// Its processor time.
    Cpu,
    /// Its disk, in bytes or in files.
    Disk,
    /// Its processes and threads, where no limit of the kernel's counts just them.
    Processes,
}
