//! `cw workers`: who takes tasks, and who does not and why.

use protocol::admin::WorkerView;
use protocol::{RepoName, Timestamp, WorkerState};

use super::Context;
use crate::clock;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::{Mark, Output};
use crate::recipe;
use crate::table::{Table, age};

const STATE_COLUMN: usize = 1;

/// What `workers` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Those that are gone too
    #[arg(short, long)]
    all: bool,
    /// Not needed: listing is all that there is
    #[arg(value_parser = ["list", "ls"], hide = true)]
    list: Option<String>,
}

/// Lists workers.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let workers = client.workers().await?;
    let out = &mut context.out;
    if out.json() {
        out.value(&workers)?;
        return Ok(Exit::DONE);
    }
    let is_shown = |worker: &&WorkerView| args.all || worker.state != WorkerState::Gone;
    let shown: Vec<WorkerView> = workers.items.iter().filter(is_shown).cloned().collect();
    if shown.is_empty() && !out.quiet() {
        out.talk(&format!("no workers; start one: {}", recipe::worker("REPO", client.key_file())));
    } else {
        show(out, &shown)?;
    }
    match workers.items.len() - shown.len() {
        0 => {}
        1 => out.talk("1 worker is gone; `cw workers --all` shows it"),
        gone => out.talk(&format!("{gone} workers are gone; `cw workers --all` shows them")),
    }
    Ok(Exit::DONE)
}

fn show(out: &mut Output, workers: &[WorkerView]) -> Result<()> {
    if out.quiet() {
        let ids: String = workers.iter().map(|worker| format!("{}\n", worker.id)).collect();
        out.bytes(ids.as_bytes())?;
    } else {
        let paint = |column: usize, cell: &str| {
            let mark = match cell {
                "ready" => Mark::Good,
                "draining" => Mark::Busy,
                _ => Mark::Faint,
            };
            (column == STATE_COLUMN).then(|| out.mark(mark, cell))
        };
        let text = table(workers, clock::now()).render(out.width(), paint);
        out.bytes(text.as_bytes())?;
    }
    Ok(())
}

fn table(workers: &[WorkerView], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["WORKER", "STATE", "REPOS", "RUNNING", "SEEN", "VERSION", "CONFINEMENT", "RUNS", "WHY"]);
    for worker in workers {
        let repos: Vec<&str> = worker.repos.iter().map(RepoName::as_str).collect();
        table.row([
            worker.id.to_string(),
            worker.state.as_str().to_owned(),
            repos.join(","),
            format!("{}/{}", worker.running, worker.slots),
            format!("{} ago", age(now, worker.last_seen_at)),
            worker.version.clone(),
            if worker.confinement.is_empty() { "none".to_owned() } else { worker.confinement.join(",") },
            worker.runs.join(","),
            worker.why.clone().unwrap_or_default(),
        ]);
    }
    table
}
