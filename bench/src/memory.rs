//! How much memory the programs hold: at rest, with a full queue, with many parked workers.

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;

use crate::coordinator::programs::Programs;
use crate::coordinator::{Coordinator, REPO, lease_request, start_empty};
use crate::disk::Disk;
use crate::load::{self, http::Connection};
use crate::peers::connect;
use crate::process::Process;

/// Tasks in the full queue.
const QUEUED: usize = 100_000;

/// Clients that fill it.
const FILLERS: u16 = 64;

/// Parked workers.
const PARKED: usize = 1_000;

/// Resident bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Memory {
    pub(crate) coordinator_at_rest: u64,
    pub(crate) coordinator_with_full_queue: u64,
    pub(crate) coordinator_with_parked_workers: u64,
    pub(crate) worker_at_rest: u64,
}

/// Measures all of it.
pub(crate) async fn measure(programs: &Programs, disk: &Disk) -> Result<Memory> {
    let (state, coordinator) = start_empty(programs, disk).await?;
    let coordinator_at_rest = coordinator.settled_memory().await?;
    let worker_at_rest = worker_at_rest(programs, disk, &coordinator).await.context("starting the worker")?;
    let coordinator_with_parked_workers = with_parked_workers(&coordinator).await?;
    drop((coordinator, state));
    let (_state, coordinator) = start_empty(programs, disk).await?;
    load::fill(connect(FILLERS, async || coordinator.client().await).await?, QUEUED).await?;
    let coordinator_with_full_queue = coordinator.settled_memory().await?;
    Ok(Memory { coordinator_at_rest, coordinator_with_full_queue, coordinator_with_parked_workers, worker_at_rest })
}

async fn with_parked_workers(coordinator: &Coordinator) -> Result<u64> {
    let mut parked = tokio::task::JoinSet::new();
    for _ in 0..PARKED {
        let mut connection = Connection::open(coordinator.address).await?;
        let request = lease_request(&coordinator.keys);
        parked.spawn_local(async move { connection.send(&request).await.map(|answer| answer.status) });
    }
    let resident = coordinator.settled_memory().await?;
    anyhow::ensure!(parked.try_join_next().is_none(), "a parked worker was answered although there is no task");
    Ok(resident)
}

async fn worker_at_rest(programs: &Programs, disk: &Disk, coordinator: &Coordinator) -> Result<u64> {
    let state = disk.room("worker")?;
    let key_file = state.path().join("key");
    std::fs::write(&key_file, &coordinator.keys.worker)?;
    let mut command = disk.command(&programs.worker);
    command.arg("run").env("CW_COORDINATOR", format!("http://{}", coordinator.address));
    command.env("CW_KEY_FILE", &key_file).env("CW_REPO", REPO).env("CW_STATE_DIR", state.path());
    let mut worker = Process::start(&mut command, &state.path().join("log"))?.context("it is gone")?;
    let is_listed = async || {
        let workers = coordinator.ask("GET", "/v1/workers", &Value::Null).await.ok()?;
        workers["items"].as_array()?.first().map(drop)
    };
    worker.wait_for("it asked for work", is_listed).await?;
    worker.resident_bytes()
}
