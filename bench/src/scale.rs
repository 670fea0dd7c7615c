//! What an operation costs with few and with very many stored tasks, and with many that cannot run in the way.

mod fill;
mod plans;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Value, json};

use crate::coordinator::programs::Programs;
use crate::coordinator::{Client, Coordinator, PAUSED_REPO, REPO};
use crate::disk::Disk;
use crate::load::http::{Connection, request};
use crate::load::{self, Cycle as _, Submit as _};
use crate::machine::say;
use crate::options::Queue;
use crate::peers::connect;
use crate::percentile::{Spread, as_ms};

/// Done tasks that are stored.
const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Tasks that wait for a far time, as many that wait in a paused repo, and in the end as many that could run.
const IN_THE_WAY: u32 = 100_000;

/// How often each operation is timed alone, unless that takes too long.
const SAMPLES: usize = 200;

/// How long one operation is timed alone, at most.
const PATIENCE: Duration = Duration::from_secs(3);

/// Costs at every size.
#[derive(Debug, Serialize)]
pub(crate) struct Scale {
    pub(crate) rows: Vec<Row>,
    /// How the database finds what it is asked for at the largest size, as text.
    pub(crate) plans: String,
}

/// Costs at one size. Times are medians of one client alone.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// What was stored before the measurement.
    pub(crate) stored: String,
    /// Whether very many of them could run.
    pub(crate) is_deep: bool,
    pub(crate) cycles_per_s: f64,
    /// Processor time of the coordinator.
    pub(crate) processor_us_per_cycle: f64,
    #[serde(rename = "submit_ms", serialize_with = "as_ms")]
    pub(crate) submit: Duration,
    #[serde(rename = "lease_ms", serialize_with = "as_ms")]
    pub(crate) lease: Duration,
    #[serde(rename = "report_ms", serialize_with = "as_ms")]
    pub(crate) report: Duration,
    #[serde(rename = "get_ms", serialize_with = "as_ms")]
    pub(crate) get: Duration,
    #[serde(rename = "list_ms", serialize_with = "as_ms")]
    pub(crate) list: Duration,
    #[serde(rename = "why_ms", serialize_with = "as_ms")]
    pub(crate) why: Duration,
}

/// Measures at every size.
pub(crate) async fn measure(programs: &Programs, disk: &Disk, options: &Queue) -> Result<Scale> {
    let state = disk.room("scale")?;
    let scene = Scene { programs, disk, options, state: state.path() };
    let models = scene.make_models().await?;
    let db = state.path().join("queue.db");
    let mut rows = Vec::new();
    for size in SIZES {
        let stored = fill::stored(&db)?;
        fill::copy(&db, models.done, size.saturating_sub(stored))?;
        rows.push(scene.measure(format!("{size} done"), &models).await?);
    }
    fill::copy(&db, models.held, IN_THE_WAY)?;
    fill::copy(&db, models.paused, IN_THE_WAY)?;
    rows.push(scene.measure("and 100000 held, 100000 paused".to_owned(), &models).await?);
    fill::copy(&db, scene.make_ready().await?, IN_THE_WAY)?;
    rows.push(Row { is_deep: true, ..scene.measure("and 100000 ready".to_owned(), &models).await? });
    Ok(Scale { rows, plans: plans::show(&db)? })
}

/// Tasks that others are copied from.
struct Models {
    done: protocol::TaskId,
    held: protocol::TaskId,
    paused: protocol::TaskId,
}

struct Scene<'run> {
    programs: &'run Programs,
    disk: &'run Disk,
    options: &'run Queue,
    state: &'run Path,
}

impl Scene<'_> {
    async fn start(&self) -> Result<Coordinator> {
        Coordinator::start(self.programs, self.disk, self.state).await.context("starting the coordinator")
    }

    /// Makes one task of each kind through the API.
    async fn make_models(&self) -> Result<Models> {
        let coordinator = self.start().await?;
        let done = submit(&coordinator, &spec(REPO)).await?;
        let mut client = coordinator.client().await?;
        client.take().await?;
        client.finish().await?;
        let mut held = spec(REPO);
        held["not_before"] = json!("2100-01-01T00:00:00.000Z");
        let held = submit(&coordinator, &held).await?;
        let paused = submit(&coordinator, &spec(PAUSED_REPO)).await?;
        coordinator.ask("PATCH", &format!("/v1/repos/{PAUSED_REPO}"), &json!({"paused": true})).await?;
        Ok(Models { done, held, paused })
    }

    /// Makes one task that could run, and leaves it.
    async fn make_ready(&self) -> Result<protocol::TaskId> {
        submit(&self.start().await?, &spec(REPO)).await
    }

    async fn measure(&self, stored: String, models: &Models) -> Result<Row> {
        say(&format!("with {stored}"));
        let coordinator = self.start().await?;
        let [submit, lease, report] = time_cycles(coordinator.client().await?).await?;
        let tasks = "/v1/tasks";
        let get = time_get(&coordinator, &format!("{tasks}/{}", models.done)).await?;
        let list = time_get(&coordinator, &format!("{tasks}?repo={REPO}&limit=50")).await?;
        let why = time_get(&coordinator, &format!("{tasks}/{}/why", models.held)).await?;
        let number = self.options.clients.iter().copied().max().unwrap_or(1);
        let clients = connect(number, async || coordinator.client().await).await?;
        let (before, begin) = (coordinator.process.processor_time()?, Instant::now());
        let cycles_per_s = load::cycles(clients, self.options.time()).await?;
        let used = coordinator.process.processor_time()? - before;
        let processor_us_per_cycle = used.as_secs_f64() * 1e6 / (cycles_per_s * begin.elapsed().as_secs_f64());
        Ok(Row { stored, is_deep: false, cycles_per_s, processor_us_per_cycle, submit, lease, report, get, list, why })
    }
}

fn spec(repo: &str) -> Value {
    json!({"repo": repo, "run": {"kind": "python", "code": "print(1)"}, "timeout_s": 30})
}

async fn submit(coordinator: &Coordinator, spec: &Value) -> Result<protocol::TaskId> {
    let task = coordinator.ask("POST", "/v1/tasks", spec).await?;
    task["id"].as_str().context("a task without id")?.parse().context("a task with a bad id")
}

async fn time_cycles(mut client: Client) -> Result<[Duration; 3]> {
    let mut times = [(); 3].map(|()| Vec::with_capacity(SAMPLES));
    let deadline = Instant::now() + PATIENCE;
    while times[0].len() < SAMPLES && Instant::now() < deadline {
        let begin = Instant::now();
        client.submit().await?;
        let submitted = Instant::now();
        client.take().await?;
        let taken = Instant::now();
        client.finish().await?;
        for (times, time) in times.iter_mut().zip([submitted - begin, taken - submitted, taken.elapsed()]) {
            times.push(time);
        }
    }
    Ok(times.map(median))
}

async fn time_get(coordinator: &Coordinator, path: &str) -> Result<Duration> {
    let request = request("GET", path, &coordinator.keys.admin, "");
    let mut connection = Connection::open(coordinator.address).await?;
    let mut times = Vec::with_capacity(SAMPLES);
    let deadline = Instant::now() + PATIENCE;
    while times.len() < SAMPLES && Instant::now() < deadline {
        let begin = Instant::now();
        connection.send(&request).await?.expect(200).with_context(|| format!("GET {path}"))?;
        times.push(begin.elapsed());
    }
    Ok(median(times))
}

fn median(times: Vec<Duration>) -> Duration {
    Spread::of(times).map_or(Duration::ZERO, |spread| spread.p50)
}
