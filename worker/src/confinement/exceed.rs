//! Proves that a cgroup holds its processes: one joins it and tries to pass its limits. That a cgroup can be made and
//! written says little: some kernels take the numbers and do nothing.

use std::hint::black_box;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};

use protocol::{Run, Spec};

use super::Enforced;
use super::cgroup::{self, Counted, Hierarchy};

/// What the process that tries may use.
const MEMORY_BYTES: u64 = 32 << 20;
const PIDS: u32 = 8;
/// What it tries to use.
const MEMORY_WANTED: usize = 4 * (32 << 20);
const PIDS_WANTED: u32 = 64;

/// Tries the limits; says what was seen when they hold, and when they do not.
pub(crate) fn prove(hierarchy: &Hierarchy) -> Result<String, String> {
    let version = if matches!(hierarchy, Hierarchy::V2(_)) { 2 } else { 1 };
    let (output, counted) = attempt(hierarchy).map_err(|error| format!("version {version}: {error:#}"))?;
    judge(&output, counted).map_err(|why| format!("version {version}: {why}"))?;
    Ok(format!("version {version}: a process was ended at its memory limit and refused more processes"))
}

fn attempt(hierarchy: &Hierarchy) -> anyhow::Result<(Output, Counted)> {
    let spec = Spec::new("probe".parse()?, Run::Command { argv: Vec::new() });
    let limits = Enforced { memory_bytes: MEMORY_BYTES, pids: PIDS, ..Enforced::new(&spec) };
    let cgroup = hierarchy.make(&format!("probe-{}", std::process::id()))?;
    if let Err(error) = cgroup.limit(&limits) {
        cgroup.remove()?;
        return Err(error.into());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg("exceed").args(cgroup.directories()).env_clear().stdin(Stdio::null());
    let output = command.output();
    let counted = cgroup.counted();
    cgroup.remove()?;
    Ok((output?, counted))
}

fn judge(output: &Output, counted: Counted) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let Ok(started) = said.trim().parse::<u32>() else {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    };
    if started >= PIDS_WANTED {
        return Err(format!("{started} processes were started in spite of a limit of {PIDS}"));
    }
    if output.status.signal().is_none() || !counted.is_out_of_memory {
        return Err(format!("{MEMORY_WANTED} bytes were used in spite of a limit of {MEMORY_BYTES}"));
    }
    Ok(())
}

/// Runs as the process that tries: joins the cgroup, starts threads, says how many, then takes memory until it is ended.
#[allow(clippy::print_stdout, reason = "this is what `prove` reads")]
pub(crate) fn run(cgroups: &[PathBuf]) -> ExitCode {
    for cgroup in cgroups {
        if let Err(error) = cgroup::join(cgroup) {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    }
    println!("{}", start_threads());
    let _ = std::io::stdout().flush();
    take_memory();
    ExitCode::SUCCESS
}

/// A thread counts as a process does.
fn start_threads() -> u32 {
    let start = || std::thread::Builder::new().stack_size(64 << 10).spawn(std::thread::park);
    let mut started = 0;
    while started < PIDS_WANTED && start().is_ok() {
        started += 1;
    }
    started
}

fn take_memory() {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    while taken.len() << 20 < MEMORY_WANTED {
        taken.push(black_box(vec![1; 1 << 20]));
    }
}
