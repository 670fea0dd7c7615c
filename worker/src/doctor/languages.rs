//! Runs a trivial program of each language behind the walls, as a task would be run.

use std::sync::Arc;

use anyhow::ensure;
use protocol::lease::LeaseGrant;
use protocol::{LeaseId, Run, Spec, TaskId};

use super::Row;
use crate::confinement::{Confinement, probe};
use crate::directory::Directory;
use crate::language::Tools;
use crate::process::Family;

/// One row for each.
pub(super) async fn try_all(confinement: &Arc<Confinement>, family: &Arc<Family>, tools: &Tools) -> Vec<Row> {
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

async fn try_one(
    confinement: &Arc<Confinement>,
    family: &Arc<Family>,
    tools: &Tools,
    run: Run,
) -> anyhow::Result<String> {
    let spec = Spec::new("doctor".parse()?, run);
    let grant = LeaseGrant {
        lease: LeaseId::new(0, 0),
        task: TaskId::new(0, 0),
        repo: spec.repo.clone(),
        attempt: 1,
        ttl_s: 1,
        spec: serde_json::value::to_raw_value(&spec)?,
    };
    let program = |directory: &Directory| tools.program(&grant, &spec, directory);
    let (said, complaint) = probe::run(confinement, family, &spec, program).await?;
    ensure!(said.trim() == "42", "it did not run: {}", complaint.trim());
    Ok("a program ran".into())
}
