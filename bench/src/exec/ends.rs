//! The last act of a task's process to the result being readable, with a worker that reaches the coordinator directly and
//! with one behind a relay. The task says when its last act was, by the clock that the whole machine shares.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::Serialize;
use shim::{Gate, Limits, Listener, serve};
use tokio::net::TcpListener;

use super::task::{Client, spec};
use super::worker::{Setup, Worker};
use crate::coordinator::programs::Programs;
use crate::coordinator::{Coordinator, FAR_REPO, REPO};
use crate::disk::Disk;
use crate::percentile::Spread;

/// How long a worker is left alone before each task.
const PARK: Duration = Duration::from_millis(20);

/// No way of Python's own to leave takes time after this.
const LAST_ACT: &str = "import os, time\nos.write(1, str(time.time_ns()).encode())\nos._exit(0)\n";

/// By each way.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ends {
    pub(super) direct: Spread,
    pub(super) relayed: Spread,
}

/// Runs such a task by each way in turn, so many times.
pub(super) async fn measure(
    programs: &Programs,
    disk: &Disk,
    coordinator: &Coordinator,
    rounds: usize,
) -> Result<Ends> {
    let relay = Relay::start(&coordinator.worker_address).await?;
    let setup = Setup { coordinator, address: format!("http://{}", relay.address), repo: FAR_REPO, slots: None };
    let _worker = Worker::start(programs, disk, &setup).await?;
    let mut client = Client::open(coordinator).await?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (repo, times) in [REPO, FAR_REPO].into_iter().zip(&mut times) {
            tokio::time::sleep(PARK).await;
            times.push(after_last_act(&mut client, repo).await?);
        }
    }
    let [direct, relayed] = times.map(Spread::of);
    Ok(Ends { direct: direct.context("no round was asked for")?, relayed: relayed.context("no round was asked for")? })
}

async fn after_last_act(client: &mut Client, repo: &str) -> Result<Duration> {
    let done = client.run(&spec(repo, "python", LAST_ACT, None)).await?;
    let now = since_epoch()?;
    let said = done.result["stdout"].as_str().unwrap_or_default();
    let last_act = Duration::from_nanos(said.parse().with_context(|| format!("a task said no time but {said:?}"))?);
    now.checked_sub(last_act).context("the machine's clock went backwards")
}

#[allow(clippy::disallowed_methods, reason = "a process that ends can tell only this clock")]
fn since_epoch() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// A relay to the coordinator, on a port of loopback; dropping it ends it.
struct Relay {
    address: std::net::SocketAddr,
    carrying: tokio::task::JoinHandle<()>,
}

impl Relay {
    async fn start(to: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for the relay")?;
        let address = listener.local_addr()?;
        let far = format!("tcp:{to}").parse()?;
        let carrying = serve(Listener::Tcp(listener), far, Gate::new(Limits::default()), std::future::pending());
        Ok(Self { address, carrying: tokio::spawn(carrying) })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}
