//! One client that submits a task and waits for its result, over a kept connection.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::coordinator::Coordinator;
use crate::load::http::{Connection, request};

/// How often a wait of half a minute is repeated before the task is given up.
const WAITS: usize = 4;

/// A connection to the coordinator.
pub(super) struct Client {
    connection: Connection,
    key: String,
}

/// A task that is done.
pub(super) struct Done {
    /// From the submission's first byte to the result's last.
    pub(super) took: Duration,
    pub(super) result: Value,
}

/// What is run, with the defaults of everything.
pub(super) fn spec(repo: &str, kind: &str, code: &str, event: Option<Value>) -> Value {
    let mut spec = json!({"repo": repo, "run": {"kind": kind, "code": code}});
    if let Some(event) = event {
        spec["event"] = event;
    }
    spec
}

impl Client {
    pub(super) async fn open(coordinator: &Coordinator) -> Result<Self> {
        let connection = Connection::open(coordinator.address).await?;
        Ok(Self { connection, key: coordinator.keys.client.clone() })
    }

    /// Submits a task and waits for its result; a task that failed is an error.
    pub(super) async fn run(&mut self, spec: &Value) -> Result<Done> {
        let submit = request("POST", "/v1/tasks", &self.key, &spec.to_string());
        let began = Instant::now();
        let made = self.connection.send(&submit).await?;
        let made: Value = serde_json::from_slice(made.expect(201).context("submitting")?)?;
        let id = made["id"].as_str().context("a task has no id")?;
        let wait = request("GET", &format!("/v1/tasks/{id}?wait_s=30"), &self.key, "");
        for _ in 0..WAITS {
            let answer = self.connection.send(&wait).await?;
            let task: Value = serde_json::from_slice(answer.expect(200).context("waiting for a task")?)?;
            let took = began.elapsed();
            if !task["finished_at"].is_null() {
                ensure!(task["reason"] == "ok", "a task failed: {task}");
                return Ok(Done { took, result: task["result"].clone() });
            }
        }
        anyhow::bail!("a task was not done after {WAITS} waits of 30 s: {id}")
    }
}
