//! Builds the confinement once, for real, around a program that tries its walls. What it proved is what the worker offers.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use protocol::{Run, Spec};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::advice;
use super::check::Tried;
use super::mounts::HOSTS;
use super::wire::Note;
use super::{Confinement, Enforced, Init, Level, Program};
use crate::directory::Directory;
use crate::process::{Family, Started};
use crate::ready::Ready;

/// How long the probe may take. In gVisor on a busy machine it needs seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tries the walls of a confinement.
///
/// # Errors
/// When it cannot be built at all, with the step that failed and what to do.
pub(crate) async fn probe(confinement: &Arc<Confinement>, family: &Arc<Family>) -> anyhow::Result<Vec<Tried>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let bait = listener.local_addr()?;
    let spec = Spec::new("probe".parse()?, Run::Command { argv: Vec::new() });
    let program = |directory: &Directory| {
        let sight = serde_json::to_string(&confinement.sight(bait, directory.inside()))?;
        Ok(Program { argv: vec![directory.inside().init, "check".into(), sight], ..Program::default() })
    };
    let (said, complaint) = run(confinement, family, &spec, program).await?;
    let tried = serde_json::from_str(&said);
    let mut tried: Vec<Tried> =
        tried.with_context(|| format!("the probe ended without an answer: {}", complaint.trim()))?;
    tried.push(outer(confinement));
    Ok(tried)
}

/// Runs a program inside to its end; says what it wrote to its two streams.
///
/// # Errors
/// When it was not started, did not end in time, or the walls were not built.
pub(crate) async fn run(
    confinement: &Arc<Confinement>,
    family: &Arc<Family>,
    spec: &Spec,
    program: impl FnOnce(&Directory) -> anyhow::Result<Program>,
) -> anyhow::Result<(String, String)> {
    let Ready { mut site, stages, .. } = Ready::build(confinement, family, 0, Enforced::new(spec).memory_bytes).await?;
    let plan = site
        .move_in(spec, HOSTS)
        // Whoever tries the walls needs no room: where there is none, the worker starts, and waits for it.
        .map(|limits| Enforced { spare_bytes: 0, ..limits })
        .and_then(|limits| Ok(Init::new(program(&site.directory)?, spec, site.directory.inside(), limits)));
    let ran = match plan {
        Ok(plan) => timeout(PATIENCE, watch(stages, &plan)).await.context("it did not end in time").flatten(),
        Err(error) => Err(error),
    };
    site.remove(false).await;
    ran
}

async fn watch(stages: Started, plan: &Init) -> anyhow::Result<(String, String)> {
    let Started { mut process, mut stdout, mut stderr } = stages;
    let (mut said, mut complaint) = (String::new(), String::new());
    let mut failed = None;
    process.begin(plan).await?;
    while let Some(note) = process.note().await {
        match note {
            Note::Unconfined { message } | Note::NotStarted { message, .. } => failed = Some(message),
            Note::Waiting | Note::Listening | Note::Started => {}
            Note::Ended(_) => break,
        }
    }
    process.close().await;
    stdout.read_to_string(&mut said).await?;
    stderr.read_to_string(&mut complaint).await?;
    match failed {
        Some(message) => bail!("{message}"),
        None => Ok((said, complaint)),
    }
}

/// What is known without a look from inside.
fn outer(confinement: &Confinement) -> Tried {
    let (holds, seen) = (confinement.hierarchy.is_some(), confinement.cgroup_seen.clone());
    Tried { layer: "cgroup".into(), holds, seen }
}

/// The words that go with every lease request: the level, and each layer that holds.
pub(crate) fn proved(level: Level, tried: &[Tried]) -> Vec<String> {
    let layers = tried.iter().filter(|layer| layer.holds).map(|layer| layer.layer.clone());
    std::iter::once(level.word().to_owned()).chain(layers).collect()
}

/// Fails unless every layer that must hold at this level does.
pub(crate) fn require(level: Level, tried: &[Tried]) -> anyhow::Result<()> {
    let fallen: Vec<String> = tried
        .iter()
        .filter(|layer| !layer.holds && level.required().contains(&layer.layer.as_str()))
        .map(|layer| format!("{} ({}): {}", layer.layer, layer.seen, advice::for_layer(&layer.layer, &layer.seen)))
        .collect();
    ensure!(fallen.is_empty(), "below the minimum confinement: {}", fallen.join("; "));
    Ok(())
}

/// Finds bubblewrap.
///
/// # Errors
/// When it is not there.
pub(crate) fn find_bwrap(path: &str) -> anyhow::Result<PathBuf> {
    let is_program = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = path.split(':').map(|directory| Path::new(directory).join("bwrap")).find(|path| is_program(path));
    found.with_context(|| format!("bubblewrap is not installed: there is no bwrap in {path}"))
}
