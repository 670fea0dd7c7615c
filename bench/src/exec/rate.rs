//! Attempts per second of one worker with a long queue of `/bin/true`, and the processor time that each of them costs.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::worker::{Setup, Worker};
use crate::coordinator::programs::Programs;
use crate::coordinator::{Coordinator, REPO, start_empty};
use crate::disk::Disk;
use crate::load::http::{Connection, request};

/// Slots of the workers that are measured, one after the other.
const SLOTS: [u32; 2] = [2, 4];

/// Attempts at either end that are not counted: the queue is filled and the worker warm by then, and no slot is idle.
const MARGIN: u32 = 50;

/// How long to wait between two looks at the queue.
const LOOK: Duration = Duration::from_millis(20);

/// The longest that a run may take for each attempt before it is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// What one worker did.
#[derive(Debug, Serialize)]
pub(crate) struct Rate {
    pub(super) slots: u32,
    pub(super) attempts_per_s: f64,
    /// Milliseconds of processor time for each attempt.
    pub(super) worker_and_children_ms: f64,
    pub(super) coordinator_ms: f64,
    /// All that the machine did meanwhile, by whomever.
    pub(super) machine_ms: f64,
}

/// Measures each number of slots with a queue of so many.
pub(super) async fn measure(programs: &Programs, disk: &Disk, attempts: u32) -> Result<Vec<Rate>> {
    ensure!(attempts > 2 * MARGIN, "--attempts: more than {}", 2 * MARGIN);
    let mut rates = Vec::new();
    for slots in SLOTS {
        rates.push(one(programs, disk, attempts, slots).await?);
    }
    Ok(rates)
}

async fn one(programs: &Programs, disk: &Disk, attempts: u32, slots: u32) -> Result<Rate> {
    let (_state, coordinator) = start_empty(programs, disk).await?;
    fill(&coordinator, attempts).await?;
    let address = format!("http://{}", coordinator.worker_address);
    let setup = Setup { coordinator: &coordinator, address, repo: REPO, slots: Some(slots) };
    let worker = Worker::start(programs, disk, &setup).await?;
    let patience = PATIENCE * attempts;
    let first = wait_for(&coordinator, attempts - MARGIN, patience).await?;
    let (began, before) = (Instant::now(), Costs::look(&worker, &coordinator)?);
    let last = wait_for(&coordinator, MARGIN, patience).await?;
    let (took, after) = (began.elapsed(), Costs::look(&worker, &coordinator)?);
    let done = f64::from(first.checked_sub(last).context("the queue grew")?);
    wait_for(&coordinator, 0, patience).await?;
    let each = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1000.0 / done;
    Ok(Rate {
        slots,
        attempts_per_s: done / took.as_secs_f64(),
        worker_and_children_ms: each(before.worker, after.worker),
        coordinator_ms: each(before.coordinator, after.coordinator),
        machine_ms: each(before.machine, after.machine),
    })
}

/// Submits that many tasks.
pub(super) async fn fill(coordinator: &Coordinator, attempts: u32) -> Result<()> {
    let spec = json!({"repo": REPO, "run": {"kind": "command", "argv": ["/bin/true"]}}).to_string();
    let submit = request("POST", "/v1/tasks", &coordinator.keys.client, &spec);
    let mut connection = Connection::open(coordinator.address).await?;
    for _ in 0..attempts {
        connection.send(&submit).await?.expect(201).context("submitting")?;
    }
    Ok(())
}

/// Waits until no more than that many are queued or running; says how many.
pub(super) async fn wait_for(coordinator: &Coordinator, left: u32, patience: Duration) -> Result<u32> {
    let until = Instant::now() + patience;
    loop {
        let repo = coordinator.ask("GET", &format!("/v1/repos/{REPO}"), &Value::Null).await?;
        let number = |name: &str| repo[name].as_u64().with_context(|| format!("a repo has no number {name}"));
        let now_left = u32::try_from(number("queued")? + number("running")?)?;
        if now_left <= left {
            return Ok(now_left);
        }
        ensure!(Instant::now() < until, "{now_left} tasks were left after {} s", patience.as_secs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Processor time so far.
struct Costs {
    worker: Duration,
    coordinator: Duration,
    machine: Duration,
}

impl Costs {
    fn look(worker: &Worker, coordinator: &Coordinator) -> Result<Self> {
        Ok(Self {
            worker: worker.process.family_time()?,
            coordinator: coordinator.process.processor_time()?,
            machine: crate::process::machine_time()?,
        })
    }
}
