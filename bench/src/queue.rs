//! `bench queue`, from the first program to the last line: the coordinator, its peers, its memory, its cost at scale.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::coordinator::{self, programs::Programs};
use crate::disk::Disk;
use crate::machine::{describe, say};
use crate::options::{Queue, Side};
use crate::report::{Figures, print};
use crate::{fsync, memory, peers, scale};

/// Measures what was asked for and prints it.
pub(crate) async fn run(options: &Queue) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "figures of a debug build say nothing: cargo run --release -p bench -- queue");
    allow_many_connections()?;
    let disk = Disk::open(options.disk, options.dir.as_deref())?;
    let mut figures = Figures::new(describe()?, disk.describe(), &options.clients);
    say("fsync");
    figures.fsyncs_per_s = fsync::measure(&disk, options.seconds)?;
    if options.measures(Side::Coordinator) {
        measure_ours(options, &disk, &mut figures).await?;
    }
    if options.measures(Side::Peers) {
        figures.peers = peers::measure(&disk, options).await?;
    }
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_vec_pretty(&figures)?).with_context(|| format!("writing {}", file.display()))?;
    }
    print(&figures)
}

async fn measure_ours(options: &Queue, disk: &Disk, figures: &mut Figures) -> Result<()> {
    let programs = Programs::build()?;
    say("coordinator: rates and hand-overs");
    figures.ours = Some(coordinator::measure(&programs, disk, options).await.context("measuring the coordinator")?);
    say("coordinator and worker: memory");
    figures.memory = Some(memory::measure(&programs, disk).await.context("measuring memory")?);
    if options.scale {
        say("coordinator: cost at scale");
        figures.scale = Some(scale::measure(&programs, disk, options).await.context("measuring at scale")?);
    }
    Ok(())
}

/// A thousand parked workers need more files than a process is usually given; children inherit this.
fn allow_many_connections() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).context("raising the number of open files")
}
