//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Load generators and side-by-side comparisons with peers.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measures the coordinator's queue beside other queues.
    Queue(Queue),
    /// Measures what a task's walls cost, beside those of others, and the way from submission to result.
    Exec(Exec),
    /// One part of a measurement, as a process of its own.
    #[command(hide = true, subcommand)]
    Part(Part),
}

/// How the queue is measured.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    /// Where the data is: tmpfs with every fsync made to take 1 ms (comparable from run to run), or a real disk.
    #[arg(long, value_enum, default_value = "tmpfs")]
    pub(crate) disk: Kind,
    /// The directory for the data; /dev/shm for tmpfs, the target directory for a real disk.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Seconds that each measurement takes.
    #[arg(long, default_value_t = 3)]
    pub(crate) seconds: u64,
    /// Numbers of clients, in this order.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64], value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) clients: Vec<u16>,
    /// Measures only this.
    #[arg(long, value_enum)]
    pub(crate) only: Option<Side>,
    /// Also measures with 1,000 to 1,000,000 stored tasks and 100,000 held or paused ones, and shows the query plans.
    #[arg(long)]
    pub(crate) scale: bool,
    /// Also writes the figures to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl Queue {
    /// How long each measurement takes.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Whether this side is measured.
    pub(crate) fn measures(&self, side: Side) -> bool {
        self.only.is_none_or(|only| only == side)
    }
}

/// How execution is measured.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Rounds in which everything takes its turn.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: u16,
    /// Tasks in the queue of which the rate is taken.
    #[arg(long, default_value_t = 1000)]
    pub(crate) attempts: u32,
    /// Measures only these, by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Section>,
    /// Also runs so many attempts on one worker, and looks whether memory or descriptors grow; needs root.
    #[arg(long, value_name = "ATTEMPTS")]
    pub(crate) soak: Option<u32>,
    /// Also measures inside gVisor; needs root.
    #[arg(long)]
    pub(crate) gvisor: bool,
    /// The directory for the data, on a tmpfs where programs may be run.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Also writes the figures to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

impl Exec {
    /// Whether this section is measured.
    pub(crate) fn measures(&self, section: Section) -> bool {
        self.only.is_empty() || self.only.contains(&section)
    }
}

/// What of execution is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Spawn to exit.
    Starts,
    /// Submit to result.
    Results,
    /// Process end to result.
    Ends,
    /// Attempts per second.
    Rate,
}

/// Spawn to exit, where this is already inside something.
#[derive(Debug, Args)]
pub(crate) struct Inside {
    /// The worker's program.
    pub(crate) worker: PathBuf,
    /// A directory for its state.
    pub(crate) room: PathBuf,
    /// Rounds in which everything takes its turn.
    pub(crate) rounds: u16,
}

/// Where the data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Memory, with fsyncs of 1 ms.
    Tmpfs,
    /// A disk as it is.
    Real,
}

/// Whose queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Ours.
    Coordinator,
    /// The others'.
    Peers,
}

/// Parts that must be processes of their own, so that the slow fsync is in force or the work is not the generator's.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Prints how many fsyncs per second one writer gets in this directory.
    Fsync { dir: PathBuf, seconds: u64 },
    /// Prints how long programs take from spawn to exit, bare and behind our walls, as JSON.
    Starts(Inside),
    /// Prints what SQLite does in process in this directory.
    Sqlite {
        dir: PathBuf,
        seconds: u64,
        #[arg(required = true)]
        clients: Vec<u16>,
    },
    /// Answers POSTs at this address.
    Axum { address: std::net::SocketAddr },
}
