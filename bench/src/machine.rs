//! What a reader of figures must know of the machine, and what a person who waits for them is told.

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context as _, Result};

/// Progress is talk, not data.
pub(crate) fn say(what: &str) {
    eprintln!("measuring {what} …");
}

/// Processors, kernel and load.
pub(crate) fn describe() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the kernel's version")?;
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let cores = available_parallelism()?;
    Ok(format!("{cores} cores of {model}, Linux {}, load {load} before the start", kernel.trim()))
}
