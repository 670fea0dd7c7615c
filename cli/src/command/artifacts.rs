//! `cw artifacts`: the files that came of a task, as a list, one of them, or all. What is saved has the sum that the
//! coordinator names, and never replaces a file unasked.

use std::path::{Path, PathBuf};

use protocol::path::RelativePath;
use protocol::{Artifact, TaskId, TaskView};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Context;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::{NEW_FILE, Partial, Place};
use crate::table::Table;
use crate::task_id::{self, Failures};
use crate::terminal::harmless_line;

const DOWNLOADS: u32 = 3;

/// What `artifacts` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, by id or a part of one
    #[arg(value_name = "TASK")]
    task: String,
    /// The file to fetch; without one, all are listed
    #[arg(value_name = "PATH", conflicts_with = "all")]
    path: Option<RelativePath>,
    /// Where to save it; `-` for stdout [default: the file's own name, in the current directory]
    #[arg(short, long, value_name = "FILE", requires = "path")]
    output: Option<PathBuf>,
    /// Fetch all files into this directory
    #[arg(long, value_name = "DIR")]
    all: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long)]
    force: bool,
}

/// Lists files or fetches them.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let id = task_id::find(&client, &args.task).await?;
    let task = client.task(id).await?;
    let out = &mut context.out;
    if let Some(directory) = &args.all {
        return fetch_all(&client, out, &task, (directory, args.force)).await;
    }
    let Some(path) = &args.path else { return list(out, &task).map(|()| Exit::DONE) };
    let artifact = find(&task, path)?;
    if args.output.as_deref() == Some(Path::new("-")) {
        print(&client, out, id, artifact).await?;
        return Ok(Exit::DONE);
    }
    let name = path.as_str().rsplit('/').next().unwrap_or_default();
    let place = Place::file(args.output.as_deref().unwrap_or(Path::new(name)), args.force)?;
    save(&client, out, id, artifact, &place).await?;
    Ok(Exit::DONE)
}

fn artifacts(task: &TaskView) -> &[Artifact] {
    task.result.as_ref().map_or(&[], |result| &result.artifacts)
}

fn find<'task>(task: &'task TaskView, path: &RelativePath) -> Result<&'task Artifact> {
    let id = task.row.id;
    artifacts(task).iter().find(|artifact| artifact.path == *path).ok_or_else(|| {
        let message = if task.row.state.is_done() {
            format!("{id} has no artifact {path}")
        } else {
            format!("{id} is {}: its files are there once it is done", task.row.state)
        };
        Failure::new(Exit::NOT_FOUND, "not_found", message).next(format!("cw artifacts {id} lists those that it has"))
    })
}

fn list(out: &mut Output, task: &TaskView) -> Result<()> {
    let artifacts = artifacts(task);
    let skipped = task.result.as_ref().map_or(&[][..], |result| &result.skipped);
    if out.json() {
        return out.value(&json!({"task": task.row.id, "artifacts": artifacts, "skipped": skipped}));
    }
    if out.quiet() {
        let paths: String = artifacts.iter().map(|artifact| harmless_line(artifact.path.as_str()) + "\n").collect();
        return out.bytes(paths.as_bytes());
    }
    if artifacts.is_empty() {
        out.talk(if task.row.state.is_done() { "no artifacts" } else { "no artifacts yet: the task is not done" });
    } else {
        let mut table = Table::new(&["PATH", "KIND", "BYTES", "TYPE", "STORED"]);
        for artifact in artifacts {
            let stored = if artifact.is_stored() { "yes" } else { "no" };
            let (path, size) = (harmless_line(artifact.path.as_str()), artifact.size.to_string());
            table.row([path.as_str(), &artifact.kind, &size, &artifact.media_type, stored]);
        }
        let text = table.render(out.width(), |_, _| None);
        out.bytes(text.as_bytes())?;
    }
    for skipped in skipped {
        out.talk(&harmless_line(&format!("left out: {}: {}", skipped.path, skipped.why)));
    }
    Ok(())
}

async fn fetch_all(
    client: &Client,
    out: &mut Output,
    task: &TaskView,
    (directory, force): (&Path, bool),
) -> Result<Exit> {
    let mut failures = Failures::default();
    let skipped = task.result.as_ref().map_or(&[][..], |result| &result.skipped);
    for skipped in skipped {
        out.notice(&harmless_line(&format!("left out: {}: {}", skipped.path, skipped.why)));
    }
    for artifact in artifacts(task).iter().filter(|artifact| artifact.is_stored()) {
        let saved = match Place::below(directory, &artifact.path, force) {
            Ok(place) => save(client, out, task.row.id, artifact, &place).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = saved {
            failures.take(out, failure)?;
        }
    }
    Ok(failures.exit_or(Exit::DONE))
}

/// Saves a file; it appears whole or not at all.
async fn save(client: &Client, out: &mut Output, id: TaskId, artifact: &Artifact, place: &Place) -> Result<()> {
    place.check_free()?;
    let mut tries = 0;
    loop {
        tries += 1;
        let mut partial = place.begin(NEW_FILE)?;
        match copy(client, id, artifact, |bytes| Partial::write(&mut partial, bytes)).await? {
            Copied::Whole => {
                partial.finish()?;
                break;
            }
            Copied::Wrong => return Err(wrong_sum(artifact)),
            Copied::BrokenOff if tries < DOWNLOADS => {}
            Copied::BrokenOff => return Err(client.unreachable("the file breaks off again and again")),
        }
    }
    if out.json() {
        return out.value(&json!({"path": artifact.path, "file": place.shown(), "size": artifact.size}));
    }
    out.talk(&harmless_line(&format!("{} ({} bytes)", place.shown(), artifact.size)));
    Ok(())
}

async fn print(client: &Client, out: &mut Output, id: TaskId, artifact: &Artifact) -> Result<()> {
    match copy(client, id, artifact, |bytes| out.bytes(bytes)).await? {
        Copied::Whole => Ok(()),
        Copied::Wrong => Err(wrong_sum(artifact)),
        Copied::BrokenOff => Err(client.unreachable("the file broke off")),
    }
}

enum Copied {
    Whole,
    BrokenOff,
    Wrong,
}

async fn copy(
    client: &Client,
    id: TaskId,
    artifact: &Artifact,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Copied> {
    let mut answer = client.artifact(id, &artifact.path).await?;
    let mut sum = Sha256::new();
    loop {
        match answer.chunk().await {
            Ok(Some(bytes)) => {
                sum.update(&bytes);
                write(&bytes)?;
            }
            Ok(None) => break,
            Err(_) => return Ok(Copied::BrokenOff),
        }
    }
    let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(if sum == artifact.sha256 { Copied::Whole } else { Copied::Wrong })
}

fn wrong_sum(artifact: &Artifact) -> Failure {
    let message = harmless_line(&format!("{}: what arrived has another SHA-256 than the result says", artifact.path));
    Failure::new(Exit::UNREACHABLE, "wrong_sum", message)
        .next("try again; if it stays so, look at the coordinator's disk")
}
