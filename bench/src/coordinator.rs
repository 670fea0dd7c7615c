//! The real coordinator as a child process with a state directory of its own, and keys to talk to it with.

mod client;
pub(crate) mod programs;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use self::client::{Client, lease_request};
use self::programs::Programs;
use crate::disk::Disk;
use crate::load;
use crate::load::http::{Connection, request};
use crate::options::Queue;
use crate::peers::{HANDOVERS, connect};
use crate::process::Process;
use crate::report::Subject;

/// The repo of the tasks that are measured.
pub(crate) const REPO: &str = "bench";

/// A repo that every worker serves too, for tasks that are in the way.
pub(crate) const PAUSED_REPO: &str = "bench-paused";

/// A repo of workers that are reached by another way.
pub(crate) const FAR_REPO: &str = "bench-far";

/// How long a stopped coordinator's last answers may take to arrive.
const SETTLE: Duration = Duration::from_millis(500);

/// A running coordinator.
pub(crate) struct Coordinator {
    pub(crate) address: SocketAddr,
    /// Where it listens for workers alone, in its own words.
    pub(crate) worker_address: String,
    pub(crate) process: Process,
    pub(crate) keys: Keys,
}

/// Secrets for each role.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) admin: String,
    pub(crate) client: String,
    pub(crate) worker: String,
}

impl Coordinator {
    /// Starts on this state directory, which may hold what an earlier one left.
    pub(crate) async fn start(programs: &Programs, disk: &Disk, state: &Path) -> Result<Self> {
        Self::start_for_workers_at(programs, disk, state, "127.0.0.1:0").await
    }

    /// The same, with workers at this address: a port, or `unix:` and a path.
    pub(crate) async fn start_for_workers_at(
        programs: &Programs,
        disk: &Disk,
        state: &Path,
        workers: &str,
    ) -> Result<Self> {
        let mut command = disk.command(&programs.coordinator);
        command.env("CW_LISTEN", "127.0.0.1:0").env("CW_WORKER_LISTEN", workers).env("CW_STATE_DIR", state);
        let started = Process::start(&mut command, &state.join("bench.log"))?;
        let mut process = started.with_context(|| format!("{} is gone", programs.coordinator.display()))?;
        let id = process.id();
        let (address, worker_address) = process.wait_for("it listened", async || listening(state, id)).await?;
        process.wait_for_port(address).await?;
        disk.check(&process)?;
        let keys = make_keys(state, address).await?;
        Ok(Self { address, worker_address, process, keys })
    }

    /// A client with a connection of its own.
    pub(crate) async fn client(&self) -> Result<Client> {
        Client::open(self.address, &self.keys).await
    }

    /// Asks once, as the operator.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        ask(self.address, &self.keys.admin, (method, path), body).await
    }

    /// Resident memory, once what was just done has settled.
    pub(crate) async fn settled_memory(&self) -> Result<u64> {
        tokio::time::sleep(SETTLE).await;
        self.process.resident_bytes()
    }
}

/// Measures rates and hand-overs, each on a new database.
pub(crate) async fn measure(programs: &Programs, disk: &Disk, options: &Queue) -> Result<Subject> {
    let mut subject = Subject::new("coordinator, over HTTP");
    for &number in &options.clients {
        let (_state, coordinator) = start_empty(programs, disk).await?;
        let clients = connect(number, async || coordinator.client().await).await?;
        subject.submits.push(load::submits(clients, options.time()).await?);
        let (_state, coordinator) = start_empty(programs, disk).await?;
        let clients = connect(number, async || coordinator.client().await).await?;
        subject.cycles.push(load::cycles(clients, options.time()).await?);
    }
    let (_state, coordinator) = start_empty(programs, disk).await?;
    let (client, taker) = (coordinator.client().await?, coordinator.client().await?);
    subject.handover = Some(load::handover(client, taker, HANDOVERS).await?);
    Ok(subject)
}

/// Starts with nothing stored. The directory must outlive the coordinator.
pub(crate) async fn start_empty(programs: &Programs, disk: &Disk) -> Result<(TempDir, Coordinator)> {
    let state = disk.room("coordinator")?;
    let coordinator = Coordinator::start(programs, disk, state.path()).await.context("starting the coordinator")?;
    Ok((state, coordinator))
}

/// Where the coordinator with this process id says that it listens.
fn listening(state: &Path, id: u32) -> Option<(SocketAddr, String)> {
    let written: Value = serde_json::from_slice(&std::fs::read(state.join("coordinator.json")).ok()?).ok()?;
    if written["pid"].as_u64() != Some(u64::from(id)) {
        return None;
    }
    Some((written["listen"].as_str()?.parse().ok()?, written["worker_listen"].as_str()?.to_owned()))
}

async fn make_keys(state: &Path, address: SocketAddr) -> Result<Keys> {
    let file = state.join("admin.key");
    let admin = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let admin = admin.trim().to_owned();
    let make = async |role: &str| {
        let made =
            ask(address, &admin, ("POST", "/v1/keys"), &json!({"role": role, "repos": [REPO, PAUSED_REPO, FAR_REPO]}))
                .await?;
        made["key"].as_str().map(str::to_owned).context("a made key has no secret")
    };
    let (client, worker) = (make("client").await?, make("worker").await?);
    Ok(Keys { admin, client, worker })
}

async fn ask(address: SocketAddr, key: &str, (method, path): (&str, &str), body: &Value) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut connection = Connection::open(address).await?;
    let response = connection.send(&request(method, path, key, &body)).await?;
    let status = if response.status == 201 { 201 } else { 200 };
    let answer = response.expect(status).with_context(|| format!("{method} {path}"))?;
    serde_json::from_slice(answer).with_context(|| format!("reading the answer to {method} {path}"))
}
