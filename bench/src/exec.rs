//! `bench exec`, from the first program to the last line: what a task's walls cost beside those of others, how long a
//! submission takes to its result, how many attempts a worker makes, and whether it grows.

mod ends;
mod gvisor;
mod rate;
mod report;
mod results;
mod soak;
mod starts;
mod task;
mod trial;
mod walls;
mod worker;

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};

use self::report::Figures;
use self::results::Where;
use self::walls::Wall;
use self::worker::{Setup, Worker};
use crate::coordinator::programs::Programs;
use crate::coordinator::{REPO, start_empty};
use crate::disk::Disk;
use crate::machine::{describe, say};
use crate::options::{Exec, Inside, Kind, Section};

/// Inside gVisor everything takes longer.
const LESS_IN_GVISOR: u16 = 2;

/// Measures what was asked for and prints it.
pub(crate) async fn run(options: &Exec) -> Result<()> {
    ensure!(!cfg!(debug_assertions), "figures of a debug build say nothing: cargo run --release -p bench -- exec");
    let programs = Programs::build()?;
    let disk = Disk::open(Kind::Tmpfs, options.dir.as_deref())?;
    let mut figures = Figures::new(describe()?, disk.describe());
    measure(options, &programs, &disk, &mut figures).await?;
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_vec_pretty(&figures)?).with_context(|| format!("writing {}", file.display()))?;
    }
    report::print(&figures)
}

async fn measure(options: &Exec, programs: &Programs, disk: &Disk, figures: &mut Figures) -> Result<()> {
    let rounds = usize::from(options.rounds);
    if options.measures(Section::Starts) {
        say("spawn to exit");
        let room = disk.room("starts")?;
        let others: Vec<Wall> = [Wall::bare()].into_iter().chain(walls::peers(&room.path().join("runsc"))).collect();
        figures.starts = starts::measure(&programs.worker, room.path(), &others, rounds).await?;
    }
    measure_a_worker(options, programs, disk, figures).await?;
    if options.measures(Section::Rate) {
        say("attempts per second");
        figures.rates = rate::measure(programs, disk, options.attempts).await.context("measuring the rate")?;
    }
    if let Some(attempts) = options.soak {
        say("growth");
        figures.soak = Some(soak::measure(programs, disk, attempts).await.context("measuring growth")?);
    }
    if options.gvisor {
        say("all of it inside gVisor");
        let rounds = options.rounds.div_ceil(LESS_IN_GVISOR);
        figures.gvisor = Some(gvisor::measure(programs, disk, rounds).await.context("measuring inside gVisor")?);
    }
    Ok(())
}

async fn measure_a_worker(options: &Exec, programs: &Programs, disk: &Disk, figures: &mut Figures) -> Result<()> {
    if !options.measures(Section::Results) && !options.measures(Section::Ends) {
        return Ok(());
    }
    let (rounds, (_state, coordinator)) = (usize::from(options.rounds), start_empty(programs, disk).await?);
    let address = format!("http://{}", coordinator.worker_address);
    let setup = Setup { coordinator: &coordinator, address, repo: REPO, slots: None };
    let _worker = Worker::start(programs, disk, &setup).await?;
    if options.measures(Section::Results) {
        say("submit to result");
        figures.results = Some(results::measure(&coordinator, Where::Here, rounds).await.context("submit to result")?);
    }
    if options.measures(Section::Ends) {
        say("process end to result");
        figures.ends =
            Some(ends::measure(programs, disk, &coordinator, rounds).await.context("process end to result")?);
    }
    Ok(())
}

/// The part of a measurement that runs inside gVisor.
pub(crate) async fn print_starts(inside: &Inside) -> Result<()> {
    let measured = starts::measure(&inside.worker, &inside.room, &[Wall::bare()], inside.rounds.into()).await?;
    serde_json::to_writer(std::io::stdout(), &measured)?;
    Ok(writeln!(std::io::stdout())?)
}

/// The first user of a worker's tasks, as root: each worker here has its own, apart from those of a worker that is in use.
fn task_uid() -> String {
    const FIRST: u32 = 60640;
    const SLOTS: u32 = 4;
    const WORKERS: u32 = 15;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % WORKERS * SLOTS).to_string()
}
