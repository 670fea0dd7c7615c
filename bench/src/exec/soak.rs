//! Whether memory or descriptors grow with the number of attempts.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::rate::{fill, wait_for};
use super::worker::{Setup, Worker};
use crate::coordinator::programs::Programs;
use crate::coordinator::{REPO, start_empty};
use crate::disk::Disk;
use crate::process::Process;

/// Attempts before the first look, after which nothing should grow.
const SETTLED: u32 = 500;

/// Tasks that wait at one time.
const BATCH: u32 = 500;

/// How long the programs rest before a look.
const REST: Duration = Duration::from_secs(2);

/// The longest that a batch may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Two looks at each program.
#[derive(Debug, Serialize)]
pub(crate) struct Soak {
    pub(super) attempts: u32,
    pub(super) worker: [Held; 2],
    pub(super) coordinator: [Held; 2],
}

/// What a program holds at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Held {
    pub(super) resident_bytes: u64,
    pub(super) descriptors: usize,
}

impl Held {
    fn by(process: &Process) -> Result<Self> {
        Ok(Self { resident_bytes: process.resident_bytes()?, descriptors: process.descriptors()? })
    }
}

/// Runs that many attempts on one worker.
pub(super) async fn measure(programs: &Programs, disk: &Disk, attempts: u32) -> Result<Soak> {
    ensure!(attempts > SETTLED, "--soak: more than {SETTLED}, where the first look is");
    let (_state, coordinator) = start_empty(programs, disk).await?;
    let address = format!("http://{}", coordinator.worker_address);
    let setup = Setup { coordinator: &coordinator, address, repo: REPO, slots: None };
    let worker = Worker::start(programs, disk, &setup).await?;
    let look = async || {
        tokio::time::sleep(REST).await;
        anyhow::Ok((Held::by(&worker.process)?, Held::by(&coordinator.process)?))
    };
    let (mut done, mut first) = (0, None);
    while done < attempts {
        let batch = BATCH.min(attempts - done);
        fill(&coordinator, batch).await?;
        wait_for(&coordinator, 0, PATIENCE).await?;
        done += batch;
        if first.is_none() {
            first = Some(look().await?);
        }
    }
    let last = look().await?;
    let first = first.unwrap_or(last);
    Ok(Soak { attempts, worker: [first.0, last.0], coordinator: [first.1, last.1] })
}
