//! `cw-worker trial`: runs one program behind the walls again and again, and says how long each part took. For
//! measurements; it needs no coordinator.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use protocol::{Run, Spec};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;

use crate::config::{WallArgs, Walls};
use crate::confinement::mounts::HOSTS;
use crate::confinement::wire::Note;
use crate::confinement::{Confinement, Enforced, Init, Program};
use crate::process::{Family, Started};
use crate::ready::Ready;
use crate::state::StateDir;

/// What is tried, and how often.
#[derive(Args, Debug)]
pub struct TrialArgs {
    /// What decides the confinement
    #[command(flatten)]
    pub walls: WallArgs,
    /// How often
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// How long the walls stand before the program comes, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub rest_ms: u64,
    /// Begin each round when a line comes on standard input, and leave when that ends
    #[arg(long)]
    pub paced: bool,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    pub argv: Vec<String>,
}

/// How long the parts of one attempt took, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
struct Took {
    /// Directory, cgroup, and the stages up to the process that waits to be the program.
    build_us: u128,
    /// From the task's arrival to the end of its last process.
    run_us: u128,
    /// Until nothing of it was left.
    clean_up_us: u128,
}

/// Prints a line of JSON for each round.
///
/// # Errors
/// When tasks cannot be confined here, or the program complains.
pub async fn run(args: &TrialArgs) -> anyhow::Result<ExitCode> {
    let walls = Walls::new(&args.walls)?;
    let state = StateDir::open(&walls.state_dir)?;
    let family = Arc::new(Family::found().context("cannot become a reaper of processes")?);
    let confinement = Arc::new(Confinement::found(&walls, &state)?);
    for _ in 0..args.rounds {
        // Nothing else waits for this thread.
        if args.paced && std::io::stdin().read_line(&mut String::new())? == 0 {
            break;
        }
        let took = attempt(&confinement, &family, args).await?;
        let line = serde_json::to_string(&took)? + "\n";
        std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn attempt(confinement: &Arc<Confinement>, family: &Arc<Family>, args: &TrialArgs) -> anyhow::Result<Took> {
    let argv = args.argv.clone();
    let spec = Spec::new("trial".parse()?, Run::Command { argv: argv.clone() });
    let began = Instant::now();
    let Ready { mut site, stages: Started { mut process, mut stdout, mut stderr }, .. } =
        Ready::build(confinement, family, 0, Enforced::new(&spec).memory_bytes).await?;
    let built = Instant::now();
    tokio::time::sleep(Duration::from_millis(args.rest_ms)).await;
    let arrived = Instant::now();
    let limits = site.move_in(&spec, HOSTS)?;
    let program = Program { argv, ..Program::default() };
    process.begin(&Init::new(program, &spec, site.directory.inside(), limits)).await?;
    let (mut said, mut complaint) = (String::new(), String::new());
    loop {
        match process.note().await.context("its stages are gone")? {
            Note::Unconfined { message } | Note::NotStarted { message, .. } => bail!(message),
            Note::Waiting | Note::Listening | Note::Started => {}
            Note::Ended(_) => break,
        }
    }
    let ended = Instant::now();
    process.close().await;
    stdout.read_to_string(&mut said).await?;
    stderr.read_to_string(&mut complaint).await?;
    site.remove(false).await;
    ensure!(complaint.is_empty(), "{}", complaint.trim());
    let us = |from: Instant, to: Instant| (to - from).as_micros();
    Ok(Took { build_us: us(began, built), run_us: us(arrived, ended), clean_up_us: us(ended, Instant::now()) })
}
