//! Runs a trivial program of each language behind the walls, as a task would be run.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use protocol::lease::LeaseGrant;
use protocol::{LeaseId, Run, Spec, TaskId};
use tokio::time::timeout;

use super::Row;
use crate::confinement::{Confinement, probe};
use crate::directory::{self, Directory};
use crate::language::Tools;
use crate::process::Family;

const PATIENCE: Duration = Duration::from_secs(30);

/// One row for each.
pub(super) async fn try_all(confinement: &Confinement, family: &Arc<Family>, tools: &Tools) -> Vec<Row> {
    let programs = [
        Run::Shell { code: "echo $((6 * 7))".into() },
        Run::Python { code: "print(6 * 7)".into() },
        Run::Javascript { code: "console.log(6 * 7)".into() },
    ];
    let mut rows = Vec::new();
    for run in programs {
        let word = run.word();
        let tried = try_one(confinement, family, tools, run).await;
        rows.push(Row::new(&word, false, tried.map_err(|error| format!("{error:#}"))));
    }
    rows
}

async fn try_one(confinement: &Confinement, family: &Arc<Family>, tools: &Tools, run: Run) -> anyhow::Result<String> {
    let spec = Spec::new("doctor".parse()?, run);
    let directory = Directory::create(&confinement.place(0), &spec)?;
    let tried = timeout(PATIENCE, answer(confinement, family, tools, (&spec, &directory))).await;
    directory::remove(directory.path())?;
    let (said, complaint) = tried.context("it did not end in time")??;
    ensure!(said.trim() == "42", "it did not run: {}", complaint.trim());
    Ok("a program ran".into())
}

async fn answer(
    confinement: &Confinement,
    family: &Arc<Family>,
    tools: &Tools,
    (spec, directory): (&Spec, &Directory),
) -> anyhow::Result<(String, String)> {
    let grant = LeaseGrant {
        lease: LeaseId::new(0, 0),
        task: TaskId::new(0, 0),
        repo: spec.repo.clone(),
        attempt: 1,
        ttl_s: 1,
        spec: serde_json::value::to_raw_value(spec)?,
    };
    let program = tools.program(&grant, spec, directory)?;
    let (plan, cgroup) = confinement.plan(spec, program, directory, 0)?;
    probe::run(family, plan, cgroup).await
}
