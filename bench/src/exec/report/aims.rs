//! What execution should reach, beside what it reached. An aim whose figure was not measured is left out.

use std::time::Duration;

use super::Figures;
use crate::exec::ends::Ends;
use crate::exec::results::{BARE_PYTHON, Results};
use crate::exec::soak::{Held, Soak};
use crate::exec::starts::Starts;
use crate::table::{Table, megabytes, milliseconds, thousands};

/// How far above bubblewrap's median ours may be.
const ABOVE_BWRAP: Duration = Duration::from_millis(3);

/// What allocators and caches may hold more after very many attempts: 2 MB, and what a connection or two take.
const MORE_BYTES: u64 = 2_000_000;
const MORE_DESCRIPTORS: usize = 2;

/// A line for each aim.
pub(super) fn table(figures: &Figures) -> Table {
    let mut table = Table::new(["aim", "measured", ""].map(str::to_owned));
    for starts in &figures.starts {
        add_starts(&mut table, starts);
    }
    if let Some(results) = &figures.results {
        add_results(&mut table, results);
    }
    if let Some(ends) = figures.ends {
        add_ends(&mut table, ends);
    }
    for rate in &figures.rates {
        let aim = format!("/bin/true with {} slots: 200 attempts/s on 2 cores", rate.slots);
        add(&mut table, &aim, thousands(rate.attempts_per_s), rate.attempts_per_s >= 200.0);
    }
    if let Some(soak) = &figures.soak {
        add_growth(&mut table, soak);
    }
    table
}

fn add_starts(table: &mut Table, starts: &Starts) {
    let Some(theirs) = starts.took("bwrap") else { return };
    for name in ["ours, walls ready", "ours, cold", "ours without cgroups, walls ready", "ours without cgroups, cold"] {
        let Some(ours) = starts.took(name) else { continue };
        let aim = format!("{}: {name} within 3 ms of bwrap's p50", starts.program);
        let measured = format!("{} − {} ms", milliseconds(ours.p50), milliseconds(theirs.p50));
        add(table, &aim, measured, ours.p50 <= theirs.p50 + ABOVE_BWRAP);
    }
}

fn add_results(table: &mut Table, results: &Results) {
    if let Some(shell) = results.took("shell task") {
        let most = Duration::from_millis(25);
        add(table, "shell task: result p95 under 25 ms", format!("{} ms", milliseconds(shell.p95)), shell.p95 < most);
    }
    let Some(bare) = results.took(BARE_PYTHON) else { return };
    for row in results.rows.iter().filter(|row| row.bare.is_some()) {
        let over = row.took.p95.saturating_sub(bare.p50);
        let aim = format!("{}: result p95 under 50 ms over bare python3 -c pass", row.name);
        add(table, &aim, format!("{} ms", milliseconds(over)), over < Duration::from_millis(50));
    }
}

fn add_ends(table: &mut Table, ends: Ends) {
    for (way, took) in [("", ends.direct), (", through a relay", ends.relayed)] {
        let aim = format!("process end to result p95 under 200 ms{way}");
        add(table, &aim, format!("{} ms", milliseconds(took.p95)), took.p95 < Duration::from_millis(200));
    }
}

fn add_growth(table: &mut Table, soak: &Soak) {
    for (name, [first, last]) in [("worker", soak.worker), ("coordinator", soak.coordinator)] {
        let aim = format!("{name}: no growth over {} attempts", thousands(f64::from(soak.attempts)));
        let Held { resident_bytes, descriptors } = last;
        let measured = format!(
            "{} to {} MB, {} to {descriptors} descriptors",
            megabytes(first.resident_bytes),
            megabytes(resident_bytes),
            first.descriptors
        );
        let is_same =
            resident_bytes <= first.resident_bytes + MORE_BYTES && descriptors <= first.descriptors + MORE_DESCRIPTORS;
        add(table, &aim, measured, is_same);
    }
}

fn add(table: &mut Table, aim: &str, measured: String, is_met: bool) {
    let verdict = if is_met { "met" } else { "missed" };
    table.push(vec![aim.to_owned(), measured, verdict.to_owned()]);
}
