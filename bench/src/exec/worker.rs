//! The real worker as a child process, set up as a user would.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::coordinator::Coordinator;
use crate::coordinator::programs::Programs;
use crate::disk::Disk;
use crate::process::Process;

/// A running worker; dropping it ends it and removes its state.
pub(super) struct Worker {
    // Ended before its state is removed.
    pub(super) process: Process,
    _state: TempDir,
}

/// How a worker is to be.
pub(super) struct Setup<'setup> {
    pub(super) coordinator: &'setup Coordinator,
    /// Where it finds the coordinator.
    pub(super) address: String,
    pub(super) repo: &'setup str,
    /// The usual number when it is not told.
    pub(super) slots: Option<u32>,
}

impl Worker {
    /// Starts one and waits until it asks for work.
    pub(super) async fn start(programs: &Programs, disk: &Disk, setup: &Setup<'_>) -> Result<Self> {
        let state = disk.room("worker")?;
        let key_file = state.path().join("key");
        std::fs::write(&key_file, &setup.coordinator.keys.worker)?;
        let mut command = disk.command(&programs.worker);
        command.arg("run").env("CW_COORDINATOR", &setup.address).env("CW_REPO", setup.repo);
        command.env("CW_KEY_FILE", &key_file).env("CW_STATE_DIR", state.path().join("state"));
        command.env("CW_TASK_UID", super::task_uid());
        if let Some(slots) = setup.slots {
            command.env("CW_SLOTS", slots.to_string());
        }
        let mut process = start(&mut command, &state.path().join("log"))?;
        wait_until_listed(&mut process, setup.coordinator, setup.repo).await?;
        Ok(Self { process, _state: state })
    }
}

fn start(command: &mut std::process::Command, log: &Path) -> Result<Process> {
    Process::start(command, log)?.context("the worker is gone")
}

/// Waits until a worker of this repo was heard of, which takes as long as it takes it to prove its walls.
pub(super) async fn wait_until_listed(process: &mut Process, coordinator: &Coordinator, repo: &str) -> Result<()> {
    let is_listed = async || {
        let workers = coordinator.ask("GET", "/v1/workers", &Value::Null).await.ok()?;
        let serves =
            |worker: &&Value| worker["repos"].as_array().is_some_and(|repos| repos.iter().any(|it| it == repo));
        workers["items"].as_array()?.iter().find(serves).map(drop)
    };
    process.wait_for("it asked for work", is_listed).await.context("starting the worker")
}
