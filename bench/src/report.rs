//! The figures of a run: as a table for people, as JSON for programs. It measures nothing.

mod aims;

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::memory::Memory;
use crate::percentile::Spread;
use crate::scale::Scale;
use crate::table::{self, Table, milliseconds, thousands};

/// Everything that a run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) machine: String,
    pub(crate) disk: String,
    /// What one writer gets there.
    pub(crate) fsyncs_per_s: f64,
    /// The numbers of clients that the rates of each subject belong to.
    pub(crate) clients: Vec<u16>,
    /// The coordinator.
    pub(crate) ours: Option<Subject>,
    pub(crate) peers: Vec<Subject>,
    pub(crate) memory: Option<Memory>,
    pub(crate) scale: Option<Scale>,
}

impl Figures {
    pub(crate) fn new(machine: String, disk: String, clients: &[u16]) -> Self {
        Self {
            machine,
            disk,
            fsyncs_per_s: 0.0,
            clients: clients.to_vec(),
            ours: None,
            peers: Vec::new(),
            memory: None,
            scale: None,
        }
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.ours.iter().chain(&self.peers)
    }
}

/// A queue and what it did.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    /// How to get it, when it is not here.
    pub(crate) missing: Option<String>,
    /// Per second, one for each number of clients; none when it cannot be measured.
    pub(crate) submits: Vec<f64>,
    pub(crate) cycles: Vec<f64>,
    pub(crate) handover: Option<Spread>,
}

impl Subject {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A queue that is not installed.
    pub(crate) fn missing(name: &str, how_to_get: &str) -> Self {
        Self { name: name.to_owned(), missing: Some(how_to_get.to_owned()), ..Self::default() }
    }
}

/// Prints all of it.
pub(crate) fn print(figures: &Figures) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "machine  {}", figures.machine)?;
    writeln!(out, "data on  {}", figures.disk)?;
    writeln!(out, "fsync    {} per second, one writer\n", thousands(figures.fsyncs_per_s))?;
    writeln!(out, "{}", rates("submits/s", figures, |subject| &subject.submits))?;
    writeln!(out, "{}", rates("cycles/s (submit, lease, report)", figures, |subject| &subject.cycles))?;
    writeln!(out, "{}", handovers(figures))?;
    for subject in figures.subjects() {
        if let Some(how_to_get) = &subject.missing {
            writeln!(out, "{}: not installed: {how_to_get}\n", subject.name)?;
        }
    }
    if let Some(memory) = &figures.memory {
        writeln!(out, "{}", memory_table(memory))?;
    }
    if let Some(scale) = &figures.scale {
        writeln!(out, "{}", scale_table(scale))?;
        writeln!(out, "query plans with all of that stored\n{}", scale.plans)?;
    }
    match &figures.ours {
        Some(ours) => Ok(write!(out, "{}", aims::table(figures, ours))?),
        None => Ok(()),
    }
}

/// One line for each subject; the last column compares ours with it at the last number of clients.
fn rates(title: &str, figures: &Figures, of: impl Fn(&Subject) -> &Vec<f64>) -> Table {
    let columns =
        figures.clients.iter().map(|&number| format!("{number} client{}", if number == 1 { "" } else { "s" }));
    let mut table = Table::new([title.to_owned()].into_iter().chain(columns).chain([String::new()]));
    let ours = figures.ours.as_ref().and_then(|ours| of(ours).last());
    for subject in figures.subjects().filter(|subject| !of(subject).is_empty()) {
        let mut row = vec![subject.name.clone()];
        row.extend(of(subject).iter().map(|&rate| thousands(rate)));
        if let (Some(ours), Some(theirs)) = (ours, of(subject).last())
            && !std::ptr::eq(ours, theirs)
        {
            row.push(format!("ours is {:.2} ×", ours / theirs));
        }
        table.push(row);
    }
    table
}

fn handovers(figures: &Figures) -> Table {
    let title = "submit to a parked worker holding it, ms";
    let mut table = Table::new([title, "p50", "p99", "max", "samples"].map(str::to_owned));
    for subject in figures.subjects() {
        if let Some(spread) = subject.handover {
            let times = [spread.p50, spread.p99, spread.max].map(milliseconds);
            table.push([subject.name.clone()].into_iter().chain(times).chain([spread.samples.to_string()]).collect());
        }
    }
    table
}

fn memory_table(memory: &Memory) -> Table {
    let mut table = Table::new(["resident memory", "MB"].map(str::to_owned));
    for (what, bytes) in [
        ("coordinator at rest", memory.coordinator_at_rest),
        ("coordinator with 1,000 parked workers", memory.coordinator_with_parked_workers),
        ("coordinator with 100,000 queued tasks", memory.coordinator_with_full_queue),
        ("worker at rest", memory.worker_at_rest),
    ] {
        table.push(vec![what.to_owned(), table::megabytes(bytes)]);
    }
    table
}

fn scale_table(scale: &Scale) -> Table {
    let titles = ["stored before", "cycles/s", "CPU µs/cycle", "submit", "lease", "report", "get", "list", "why"];
    let mut table = Table::new(titles.map(str::to_owned));
    for row in &scale.rows {
        let times = [row.submit, row.lease, row.report, row.get, row.list, row.why].map(milliseconds);
        let costs = [row.stored.clone(), thousands(row.cycles_per_s), thousands(row.processor_us_per_cycle)];
        table.push(costs.into_iter().chain(times).collect());
    }
    table
}
