//! What people do with a worker, from what they type to what they read: one claim each, by the real programs.

use anyhow::{Context as _, Result};
use e2e::worker::Setup;
use e2e::{Api, Coordinator, Worker};
use protocol::task::TaskResult;
use protocol::{Reason, TaskId, TaskState, TaskView};
use serde_json::{Value, json};

mod calls;
mod edges;
mod files;
mod network;
mod requires;
mod results;
mod routes;
mod walls;

/// A coordinator with a worker for the repo `r`.
struct Place {
    coordinator: Coordinator,
    api: Api,
    worker: Worker,
}

impl Place {
    async fn open() -> Result<Self> {
        Self::with(&[]).await
    }

    /// The worker gets these variables.
    async fn with(variables: &[(&str, &str)]) -> Result<Self> {
        Self::of(Coordinator::start().await?, variables).await
    }

    async fn of(coordinator: Coordinator, variables: &[(&str, &str)]) -> Result<Self> {
        let worker = Worker::start_as(&coordinator, Setup { name: "first", repo: "r", variables }).await?;
        Ok(Self { api: coordinator.api()?, coordinator, worker })
    }

    /// Another worker for the same repo.
    async fn another_worker(&self) -> Result<Worker> {
        Worker::start_as(&self.coordinator, Setup { name: "second", repo: "r", variables: &[] }).await
    }

    /// Sends a spec, whose repo is filled in, and says its id.
    async fn send(&self, mut spec: Value) -> Result<TaskId> {
        spec["repo"] = json!("r");
        Ok(self.api.submit(spec).await?.row.id)
    }

    /// The same to its end.
    async fn run(&self, spec: Value) -> Result<Ended> {
        Ended::of(self.api.done(self.send(spec).await?).await?)
    }

    async fn code(&self, kind: &str, code: &str) -> Result<Ended> {
        self.run(json!({"run": {"kind": kind, "code": code}})).await
    }

    /// Calls a handler to its end.
    async fn call(&self, kind: &str, code: &str, event: &Value) -> Result<Ended> {
        self.run(json!({"run": {"kind": kind, "code": code}, "event": event})).await
    }
}

/// A task that is done.
#[derive(Debug)]
struct Ended {
    task: TaskView,
    result: TaskResult,
}

impl Ended {
    fn of(mut task: TaskView) -> Result<Self> {
        let result = task.result.take().context("a done task has a result")?;
        Ok(Self { task, result })
    }

    fn ending(&self) -> (TaskState, Option<Reason>) {
        (self.task.row.state, self.task.row.reason)
    }

    /// This one, which did not fail.
    fn well(self) -> Result<Self> {
        anyhow::ensure!(self.ending() == (TaskState::Completed, Some(Reason::Ok)), "{self:?}");
        Ok(self)
    }

    /// Its standard output, when it did not fail.
    fn out(self) -> Result<String> {
        Ok(self.well()?.result.stdout)
    }
}
