//! A worker that runs nothing: it speaks the workers' routes by hand, so that a test decides what is said and when.

use anyhow::Context as _;
use protocol::{LeaseGrant, LeaseId, WorkerId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::coordinator::Coordinator;

/// A pretended worker with a key of its own.
#[derive(Clone)]
pub struct Pretender {
    /// Its way to the coordinator.
    pub api: Api,
    repo: String,
    id: WorkerId,
}

impl Pretender {
    /// One that serves a repo.
    ///
    /// # Errors
    /// When it gets no key.
    pub async fn new(coordinator: &Coordinator, repo: &str, number: u128) -> anyhow::Result<Self> {
        let key = coordinator.api()?.worker_key(&[repo]).await?;
        let api = Api::new(&coordinator.worker_url(), &key.key)?;
        Ok(Self { api, repo: repo.to_owned(), id: WorkerId::new(0, number) })
    }

    /// Asks for a lease, once.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn ask(&self, wait_s: u32) -> anyhow::Result<Answer> {
        let worker = json!({"id": self.id.to_string(), "runs": ["python", "shell", "command"]});
        self.api.post("/v1/leases", json!({"worker": worker, "repos": [self.repo], "wait_s": wait_s})).await
    }

    /// Gets a lease, which must be there at once or soon.
    ///
    /// # Errors
    /// When there is none.
    pub async fn lease(&self) -> anyhow::Result<LeaseGrant> {
        let answer = self.ask(20).await?;
        anyhow::ensure!(answer.status == 200, "no lease: {} {}", answer.status, answer.text());
        answer.value()
    }

    /// Extends a lease.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn renew(&self, lease: LeaseId, wait_s: u32) -> anyhow::Result<Answer> {
        self.api.post(&format!("/v1/leases/{lease}/renew"), json!({"wait_s": wait_s})).await
    }

    /// Says that the task wrote this, as the event of that number.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn write(&self, lease: LeaseId, number: u64, text: &str) -> anyhow::Result<Answer> {
        let event = json!({"number": number, "type": "output", "stream": "stdout", "text": text});
        self.api.post(&format!("/v1/leases/{lease}/events"), json!({"events": [event]})).await
    }

    /// Brings a file.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn upload(&self, lease: LeaseId, path: &str) -> anyhow::Result<Answer> {
        self.api.post(&format!("/v1/leases/{lease}/uploads?path={path}"), json!("a file")).await
    }

    /// Says that the task exited with 0.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn report(&self, lease: LeaseId) -> anyhow::Result<Answer> {
        let report: Value = json!({"outcome": {"exited": {"code": 0}}});
        let path = format!("/v1/leases/{lease}/report");
        self.api.send(Method::PUT, &path, Some(&report)).await.context("reporting")
    }
}
