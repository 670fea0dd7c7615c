//! The worker: takes leases from a coordinator, runs each as a child process, reports how it ended.
//!
//! From the outside in: `config` and `signals` say what is wanted, `session` lives the worker's life, `attempt` tells the
//! story of one lease with the help of `heartbeat`, `directory`, `language`, `process`, `output` and `artifacts`, and `spool` brings
//! the report home. `client` is the only one that speaks HTTP to the coordinator, `process` the only one that starts
//! programs, each inside the walls of `confinement`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use protocol::{WorkerId, WorkerInfo, WorkerState};
use tokio::net::TcpListener;
use tokio::sync::watch;

mod artifacts;
mod attempt;
mod client;
mod clock;
pub mod config;
mod confinement;
mod directory;
pub mod doctor;
mod health;
mod heartbeat;
mod language;
mod link;
mod network;
mod output;
mod process;
mod random;
mod ready;
mod session;
mod signals;
mod slots;
mod spool;
mod state;
mod stats;
pub mod trial;
mod workspace;

pub use network::LOOKUPS;
pub use signals::Stage;

/// How the worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Done,
    /// With `--once`: the coordinator refused the key.
    KeyRefused,
    /// With `--once` and `--idle-exit`: the coordinator was not reached.
    Unreachable,
    /// By QUIT, with tasks still running.
    Left,
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::KeyRefused => 4,
            Self::Unreachable => 6,
            Self::Left => 131,
        })
    }
}

/// Everything that an attempt needs from the worker.
struct Worker {
    config: config::Config,
    info: WorkerInfo,
    client: Arc<client::Client>,
    spool: Arc<spool::Spool>,
    state: state::StateDir,
    family: Arc<process::Family>,
    confinement: Arc<confinement::Confinement>,
    slots: slots::Slots,
    shelf: ready::Shelf,
    tools: language::Tools,
    network: network::Network,
    means: network::Means,
    stats: stats::Stats,
    workspaces: Arc<workspace::Workspaces>,
}

impl Worker {
    async fn new(config: config::Config) -> anyhow::Result<Self> {
        let tools = language::Tools::find(&config.walls)?;
        let state = state::StateDir::open(&config.walls.state_dir)?;
        let spool = spool::Spool::open(&config.walls.state_dir)?;
        spool.sweep().context("cannot sweep the spool")?;
        let family = Arc::new(process::Family::found().context("cannot become a reaper of processes")?);
        slots::warn_of_few_processes(config.slots);
        state.run_program().map_err(unconfined)?;
        let confinement = confinement::Confinement::found(&config.walls, &state).map_err(unconfined)?;
        let confinement = Arc::new(confinement);
        state.sweep()?;
        confinement.sweep();
        let tried = confinement::probe::probe(&confinement, &family).await.map_err(unconfined)?;
        confinement::probe::require(confinement.level(), &tried)?;
        let bounds = workspace::Bounds { cache_bytes: config.cache_bytes, trees: config.kept_trees };
        let workspaces = workspace::Workspaces::open(&config.walls.state_dir, bounds, &config.coordinator.shown);
        let workspaces = Arc::new(workspaces.context("cannot open the files of sessions in the state directory")?);
        let info = WorkerInfo {
            id: WorkerId::new(clock::now_ms(), random::bits()?),
            version: env!("CARGO_PKG_VERSION").into(),
            runs: offers(&tools, &confinement),
            confinement: confinement::probe::proved(confinement.level(), &tried),
            slots: config.slots,
            state: WorkerState::Ready,
            why: None,
        };
        Ok(Self {
            client: Arc::new(client::Client::new(config.coordinator.clone(), &config.key)?),
            spool: Arc::new(spool),
            slots: slots::Slots::default(),
            shelf: ready::Shelf::default(),
            network: network::Network::new(&config.allow),
            means: network::Means::found(config.slots),
            stats: stats::Stats::default(),
            workspaces,
            family,
            confinement,
            config,
            info,
            state,
            tools,
        })
    }

    /// Has attempts ready for their tasks, until the shelf is closed.
    async fn prepare(&self) {
        self.shelf.keep_full(&self.confinement, &self.family, &self.slots, self.config.ready).await;
    }

    /// Serves the listeners of an attempt.
    fn relay(&self, listeners: Vec<std::os::fd::OwnedFd>) -> std::io::Result<network::Relays> {
        network::Relays::start(&self.network, listeners, &self.means)
    }
}

/// What is missing, and how to get it: a worker that cannot confine tasks takes none.
fn unconfined(error: anyhow::Error) -> anyhow::Error {
    let fix = confinement::advice::for_failure(&format!("{error:#}"), &confinement::advice::Machine::look());
    let text = "tasks cannot be confined here, so that none is taken; `cw-worker doctor` says more";
    anyhow::anyhow!("{text}: {error:#}: {fix}")
}

/// The words for what can be run, and for what can be asked of a run.
fn offers(tools: &language::Tools, confinement: &confinement::Confinement) -> Vec<String> {
    let asked = confinement.offers().iter().map(|word| (*word).to_owned());
    tools.words().into_iter().chain(asked).collect()
}

/// Runs a worker until it is told to leave.
///
/// # Errors
/// When it cannot start: the state directory, the health address or a program is not to be had.
pub async fn run(config: config::Config, stages: watch::Receiver<Stage>) -> anyhow::Result<Exit> {
    let worker = Arc::new(Worker::new(config).await?);
    if let Some(address) = worker.config.http {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("--http: cannot listen on {address}"))?;
        tracing::info!("health at http://{}", listener.local_addr()?);
        tokio::spawn(health::serve(listener, Arc::clone(&worker)));
    }
    let repos = worker.config.repos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (id, runs, slots) = (worker.info.id, worker.info.runs.join(", "), worker.config.slots);
    let level = worker.confinement.level();
    tracing::info!("worker {id} serves {repos}: runs {runs}, {slots} at a time, confined by {}", level.means());
    if let Some(warning) = level.warning() {
        tracing::warn!("{warning}");
    }
    if let Some(seen) = worker.confinement.lacks_cgroups() {
        tracing::info!("tasks have no cgroup ({seen}): docs/security.md says what looks at them can miss");
    }
    if !worker.config.allow.is_empty() {
        let allowed = worker.config.allow.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        tracing::info!("tasks with a restricted network may reach {allowed}");
    }
    Ok(session::run(worker, stages).await)
}

/// Runs as a stage of the confinement, as `cw-worker enter`, `init`, `check` and `exceed` do.
#[must_use]
pub fn stage(stage: Stages) -> ExitCode {
    match stage {
        Stages::Enter => confinement::enter::run(),
        Stages::Init => confinement::init::run(),
        Stages::Check { sight } => confinement::check::run(&sight),
        Stages::Exceed { cgroups } => confinement::exceed::run(&cgroups),
    }
}

/// The stages of the confinement; the worker starts them itself.
#[derive(Debug, Clone)]
pub enum Stages {
    /// The first, before bubblewrap.
    Enter,
    /// Pid 1 inside.
    Init,
    /// The program that tries the walls.
    Check {
        /// What to try, as JSON.
        sight: String,
    },
    /// The program that tries the limits of a cgroup.
    Exceed {
        /// The directories to join.
        cgroups: Vec<std::path::PathBuf>,
    },
}
