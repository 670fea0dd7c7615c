//! What the queue should reach with fsyncs of 1 ms, beside what it reached. An aim whose figure was not measured is left out.

use std::time::Duration;

use super::{Figures, Subject};
use crate::scale::Scale;
use crate::table::{Table, megabytes, milliseconds, thousands};

/// How much more the most costly size may take than the cheapest and still be called flat.
const FLAT: f64 = 1.5;

/// A line for each aim.
pub(super) fn table(figures: &Figures, ours: &Subject) -> Table {
    let mut table = Table::new(["aim (tmpfs, fsync 1 ms)", "measured", ""].map(str::to_owned));
    add_rates(&mut table, figures, ours);
    if let Some(times) = ours.handover {
        add_time(&mut table, "submit to lease held p50 under 2 ms", times.p50, Duration::from_millis(2));
        add_time(&mut table, "submit to lease held p99 under 10 ms", times.p99, Duration::from_millis(10));
    }
    if let Some(memory) = &figures.memory {
        add_memory(&mut table, "coordinator at rest under 40 MB", memory.coordinator_at_rest, 40_000_000);
        add_memory(&mut table, "worker at rest under 20 MB", memory.worker_at_rest, 20_000_000);
    }
    if let Some(scale) = &figures.scale {
        add_growth(&mut table, scale);
    }
    table
}

fn add_rates(table: &mut Table, figures: &Figures, ours: &Subject) {
    let of_fsyncs = figures.fsyncs_per_s * 0.8;
    for (number, aim, rates, least) in [
        (64, "submits/s at 64 clients at least 15,000", &ours.submits, 15_000.0),
        (64, "cycles/s at 64 clients at least 5,000", &ours.cycles, 5_000.0),
        (8, "submits/s at 8 clients at least 4,000", &ours.submits, 4_000.0),
        (1, "submits/s at 1 client within 20 % of the fsync rate", &ours.submits, of_fsyncs),
    ] {
        let place = figures.clients.iter().position(|&clients| clients == number);
        if let Some(&rate) = place.and_then(|place| rates.get(place)) {
            add(table, aim, thousands(rate), rate >= least);
        }
    }
}

fn add_time(table: &mut Table, aim: &str, time: Duration, most: Duration) {
    add(table, aim, format!("{} ms", milliseconds(time)), time < most);
}

fn add_memory(table: &mut Table, aim: &str, bytes: u64, most: u64) {
    add(table, aim, format!("{} MB", megabytes(bytes)), bytes < most);
}

fn add(table: &mut Table, aim: &str, measured: String, is_met: bool) {
    let verdict = if is_met { "met" } else { "missed" };
    table.push(vec![aim.to_owned(), measured, verdict.to_owned()]);
}

/// One line for each cost that must not grow. The last is stricter than the aim: it has a deep queue of ready tasks too.
fn add_growth(table: &mut Table, scale: &Scale) {
    let stored = || scale.rows.iter().filter(|row| !row.is_deep);
    for (what, growth) in [
        ("CPU per cycle, to 1,000,000 stored, held and paused", growth(stored().map(|row| row.processor_us_per_cycle))),
        ("list of a repo, to 1,000,000 stored, held and paused", growth(stored().map(|row| row.list.as_secs_f64()))),
        ("CPU per cycle, with 100,000 ready too", growth(scale.rows.iter().map(|row| row.processor_us_per_cycle))),
    ] {
        add(table, &format!("{what}: flat (within {FLAT} ×)"), format!("{growth:.2} ×"), growth <= FLAT);
    }
}

/// How much the most costly is above the cheapest.
fn growth(costs: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = costs.fold((f64::MAX, 0.0f64), |(least, most), cost| (least.min(cost), most.max(cost)));
    most / least
}
