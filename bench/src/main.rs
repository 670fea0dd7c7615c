//! Load generators and side-by-side comparisons with peers: parse, run, exit code. It listens and connects on loopback
//! only, and ends only what it started.

mod coordinator;
mod disk;
mod exec;
mod fsync;
mod load;
mod machine;
mod memory;
mod options;
mod peers;
mod percentile;
mod process;
mod queue;
mod report;
mod scale;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::options::{Bench, Options, Part};

fn main() -> ExitCode {
    match run(Options::parse().bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(bench: Bench) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match bench {
        Bench::Queue(options) => runtime.block_on(LocalSet::new().run_until(until_told(queue::run(&options)))),
        Bench::Exec(options) => runtime.block_on(LocalSet::new().run_until(until_told(exec::run(&options)))),
        Bench::Part(Part::Starts(options)) => runtime.block_on(exec::print_starts(&options)),
        Bench::Part(Part::Fsync { dir, seconds }) => fsync::print_rate(&dir, Duration::from_secs(seconds)),
        Bench::Part(Part::Sqlite { dir, seconds, clients }) => {
            let rates = peers::print_sqlite_rates(&dir, Duration::from_secs(seconds), &clients);
            runtime.block_on(LocalSet::new().run_until(rates))
        }
        Bench::Part(Part::Axum { address }) => {
            // As many threads as the coordinator would have.
            tokio::runtime::Runtime::new()?.block_on(peers::serve_axum(address))
        }
    }
}

/// Lets go of everything that was started when a person or a time limit asks for it.
async fn until_told(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("told to end"),
    }
}
