//! The figures of a run: as tables for people, as JSON for programs. It measures nothing.

mod aims;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::ends::Ends;
use super::gvisor::Gvisor;
use super::rate::Rate;
use super::results::Results;
use super::soak::Soak;
use super::starts::Starts;
use crate::percentile::Spread;
use crate::table::{Table, megabytes, milliseconds, thousands};

/// Everything that a run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(super) machine: String,
    pub(super) disk: String,
    pub(super) starts: Vec<Starts>,
    pub(super) results: Option<Results>,
    pub(super) ends: Option<Ends>,
    pub(super) rates: Vec<Rate>,
    pub(super) soak: Option<Soak>,
    pub(super) gvisor: Option<Gvisor>,
}

impl Figures {
    pub(super) fn new(machine: String, disk: String) -> Self {
        let (starts, rates) = (Vec::new(), Vec::new());
        Self { machine, disk, starts, results: None, ends: None, rates, soak: None, gvisor: None }
    }
}

/// Prints all of it.
pub(super) fn print(figures: &Figures) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "machine  {}", figures.machine)?;
    writeln!(out, "data on  {}\n", figures.disk)?;
    write_starts(&mut out, "", &figures.starts)?;
    if let Some(results) = &figures.results {
        writeln!(out, "{}", results_table("submit to result, ms", results))?;
    }
    if let Some(ends) = &figures.ends {
        writeln!(out, "{}", ends_table(ends))?;
    }
    if !figures.rates.is_empty() {
        writeln!(out, "{}", rates_table(&figures.rates))?;
    }
    if let Some(soak) = &figures.soak {
        writeln!(out, "{}", soak_table(soak))?;
    }
    if let Some(gvisor) = &figures.gvisor {
        write_starts(&mut out, " inside gVisor", &gvisor.starts)?;
        writeln!(out, "{}", results_table("submit to result, worker inside gVisor, ms", &gvisor.results))?;
    }
    Ok(write!(out, "{}", aims::table(figures))?)
}

/// A table for each program, then what could not be measured.
fn write_starts(out: &mut impl std::io::Write, place: &str, starts: &[Starts]) -> Result<()> {
    for program in starts {
        writeln!(out, "{}", starts_table(place, program))?;
    }
    let rows = starts.first().map_or(&[][..], |starts| &starts.rows);
    let missing: BTreeSet<_> = rows.iter().filter_map(|row| Some((row.missing.as_ref()?, row.of.as_str()))).collect();
    for (why, name) in missing {
        writeln!(out, "{name}{place}: not measured: {why}\n")?;
    }
    Ok(())
}

/// One line for each way; the last columns compare its median with that of bubblewrap, or of no wall where there is none.
fn starts_table(place: &str, starts: &Starts) -> Table {
    let other = if starts.took("bwrap").is_some() { "bwrap" } else { "bare" };
    let title = format!("spawn to exit of {}{place}, ms", starts.program);
    let mut table = Table::new([title, "p50".into(), "p95".into(), format!("− {other}"), format!("/ {other}")]);
    let theirs = starts.took(other);
    for row in &starts.rows {
        let Some(took) = row.took else { continue };
        let mut cells = vec![row.name.clone(), milliseconds(took.p50), milliseconds(took.p95)];
        if let Some(theirs) = theirs.filter(|_| row.name.starts_with("ours")) {
            cells.push(difference(took.p50, theirs.p50));
            cells.push(format!("{:.2} ×", took.p50.as_secs_f64() / theirs.p50.as_secs_f64()));
        }
        table.push(cells);
    }
    table
}

fn results_table(title: &str, results: &Results) -> Table {
    let mut table = Table::new([title, "p50", "p95", "p50 − bare", "p95 − bare"].map(str::to_owned));
    for row in &results.rows {
        let mut cells = vec![row.name.to_owned(), milliseconds(row.took.p50), milliseconds(row.took.p95)];
        if let Some(bare) = row.bare.and_then(|name| results.took(name)) {
            cells.extend([row.took.p50, row.took.p95].map(|time| difference(time, bare.p50)));
        }
        table.push(cells);
    }
    table
}

fn ends_table(ends: &Ends) -> Table {
    let mut table = Table::new(["last act of the process to result, ms", "p50", "p95", "max"].map(str::to_owned));
    for (name, took) in [("worker on the coordinator's port", ends.direct), ("worker behind a relay", ends.relayed)] {
        let Spread { p50, p95, max, .. } = took;
        table.push([name.to_owned()].into_iter().chain([p50, p95, max].map(milliseconds)).collect());
    }
    table
}

fn rates_table(rates: &[Rate]) -> Table {
    let titles = ["attempts of /bin/true", "per second", "CPU ms: worker, stages, task", "coordinator", "machine"];
    let mut table = Table::new(titles.map(str::to_owned));
    for rate in rates {
        let costs = [rate.worker_and_children_ms, rate.coordinator_ms, rate.machine_ms];
        let cells = [format!("{} slots", rate.slots), thousands(rate.attempts_per_s)];
        table.push(cells.into_iter().chain(costs.map(|ms| format!("{ms:.2}"))).collect());
    }
    table
}

fn soak_table(soak: &Soak) -> Table {
    let attempts = f64::from(soak.attempts);
    let titles =
        ["held after", "500 attempts: MB", "descriptors", &format!("{}: MB", thousands(attempts)), "descriptors"];
    let mut table = Table::new(titles.map(str::to_owned));
    for (name, held) in [("worker", soak.worker), ("coordinator", soak.coordinator)] {
        let cells = held.iter().flat_map(|held| [megabytes(held.resident_bytes), held.descriptors.to_string()]);
        table.push([name.to_owned()].into_iter().chain(cells).collect());
    }
    table
}

/// With its sign.
fn difference(one: Duration, other: Duration) -> String {
    format!("{:+.2}", (one.as_secs_f64() - other.as_secs_f64()) * 1000.0)
}
