//! SQLite in process, with one writer that commits waiting operations in groups: what a queue on SQLite could reach if
//! HTTP, checks, events and leases cost nothing. It runs as a process of its own, so that the slow fsync is in force.

mod writer;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::sync::oneshot;

use self::writer::{Operation, Writer};
use super::{cycles, submits};
use crate::disk::Disk;
use crate::load::{Cycle, Submit};
use crate::options::Queue;
use crate::report::Subject;

pub(super) fn measure(disk: &Disk, options: &Queue) -> Result<Subject> {
    let data = disk.room("sqlite")?;
    let mut command = disk.command(std::env::current_exe()?);
    command.args(["part", "sqlite"]).arg(data.path()).arg(options.seconds.to_string());
    let output = command.args(options.clients.iter().map(u16::to_string)).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let rates: Vec<(f64, f64)> = serde_json::from_slice(&output.stdout).context("reading its figures")?;
    let mut subject = Subject::new(format!("SQLite {} group commit, in process", rusqlite::version()));
    (subject.submits, subject.cycles) = rates.into_iter().unzip();
    Ok(subject)
}

/// Prints submits and cycles per second for each number of clients, as JSON.
pub(crate) async fn print_rates(data: &Path, time: Duration, clients: &[u16]) -> Result<()> {
    let mut rates = Vec::new();
    for &number in clients {
        let writer = Writer::start(&data.join(format!("submits-{number}.db")))?;
        let submits = submits(number, time, async || Ok(Client::new(&writer))).await?;
        let writer = Writer::start(&data.join(format!("cycles-{number}.db")))?;
        let cycles = cycles(number, time, async || Ok(Client::new(&writer))).await?;
        rates.push((submits, cycles));
    }
    serde_json::to_writer(std::io::stdout(), &rates)?;
    Ok(std::io::stdout().flush()?)
}

struct Client {
    operations: std::sync::mpsc::Sender<Operation>,
    taken: i64,
}

impl Client {
    fn new(writer: &Writer) -> Self {
        Self { operations: writer.operations.clone(), taken: 0 }
    }

    async fn ask<T>(&self, operation: impl FnOnce(oneshot::Sender<T>) -> Operation) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.operations.send(operation(answer)).ok().context("the writer ended")?;
        answered.await.context("the writer failed")
    }
}

impl Submit for Client {
    async fn submit(&mut self) -> Result<()> {
        self.ask(Operation::Submit).await
    }
}

impl Cycle for Client {
    async fn take(&mut self) -> Result<()> {
        self.taken = self.ask(Operation::Take).await?.context("the queue is empty")?;
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        self.ask(|answer| Operation::Finish(self.taken, answer)).await
    }
}
