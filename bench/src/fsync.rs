//! How many fsyncs one writer gets per second: the most that one client alone can be acknowledged.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::disk::Disk;

/// What a small commit writes.
const PAGE: [u8; 4096] = [0; 4096];

/// Pages of a log before it is written back.
const LOG_PAGES: u32 = 1000;

/// Measures in a process of its own, so that the slow fsync is in force.
pub(crate) fn measure(disk: &Disk, seconds: u64) -> Result<f64> {
    let room = disk.room("fsync")?;
    let mut command = disk.command(std::env::current_exe()?);
    let output = command.args(["part", "fsync"]).arg(room.path()).arg(seconds.to_string()).output()?;
    ensure!(output.status.success(), "measuring fsync: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8_lossy(&output.stdout).trim().parse().context("reading the fsync rate")
}

/// Prints fsyncs per second.
pub(crate) fn print_rate(directory: &Path, time: Duration) -> Result<()> {
    let mut file = File::create(directory.join("data"))?;
    let begin = Instant::now();
    let mut done = 0u32;
    while begin.elapsed() < time {
        // A write-ahead log is overwritten from its start again and again: it seldom grows.
        if done.is_multiple_of(LOG_PAGES) {
            file.rewind()?;
        }
        file.write_all(&PAGE)?;
        file.sync_data()?;
        done += 1;
    }
    writeln!(std::io::stdout(), "{}", f64::from(done) / begin.elapsed().as_secs_f64())?;
    Ok(())
}
