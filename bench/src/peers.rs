//! Other queues and the two ceilings, measured by the same load in the same run. A peer that is not installed is told,
//! never left out.

mod axum;
mod beanstalkd;
mod lines;
mod postgres;
mod redis;
mod sqlite;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::disk::Disk;
use crate::load::{self, Cycle, Submit};
use crate::machine::say;
use crate::options::Queue;
use crate::report::Subject;

pub(crate) use self::axum::serve as serve_axum;
pub(crate) use self::sqlite::print_rates as print_sqlite_rates;

/// What every queue keeps for a task, so that all move the same bytes.
pub(crate) const SPEC: &str = r#"{"repo":"bench","run":{"kind":"python","code":"import sys\nprint(sum(range(1000)))\n"},"priority":"normal","timeout_s":30,"labels":{"from":"bench"}}"#;

/// Hand-overs that are measured.
pub(crate) const HANDOVERS: usize = 600;

/// Measures every peer.
pub(crate) async fn measure(disk: &Disk, options: &Queue) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    say("bare axum POST");
    subjects.push(axum::measure(options).await.context("measuring a bare axum POST")?);
    say("SQLite in process");
    subjects.push(sqlite::measure(disk, options).context("measuring SQLite in process")?);
    say("Redis");
    subjects.push(redis::measure(disk, options).await.context("measuring Redis")?);
    say("PostgreSQL");
    subjects.push(postgres::measure(disk, options).await.context("measuring PostgreSQL")?);
    say("beanstalkd");
    subjects.push(beanstalkd::measure(disk, options).await.context("measuring beanstalkd")?);
    Ok(subjects)
}

/// Connects that many clients.
pub(crate) async fn connect<C>(number: u16, open: impl AsyncFn() -> Result<C>) -> Result<Vec<C>> {
    let mut clients = Vec::with_capacity(usize::from(number));
    for _ in 0..number {
        clients.push(open().await?);
    }
    Ok(clients)
}

async fn submits<C: Submit + 'static>(number: u16, time: Duration, open: impl AsyncFn() -> Result<C>) -> Result<f64> {
    load::submits(connect(number, open).await?, time).await
}

async fn cycles<C: Cycle + 'static>(number: u16, time: Duration, open: impl AsyncFn() -> Result<C>) -> Result<f64> {
    load::cycles(connect(number, open).await?, time).await
}

/// The first line that a program prints when it is asked for its version; `None` when it is not installed.
fn version(program: &str, flag: &str) -> Result<Option<String>> {
    match Command::new(program).arg(flag).output() {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("running {program} {flag}")),
    }
}
