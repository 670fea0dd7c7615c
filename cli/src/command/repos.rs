//! `cw repos`: how repos are served: their agent, how many of their tasks run at one time, and whether they wait.

use protocol::RepoName;
use protocol::admin::{RepoChange, RepoView};

use super::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{Mark, Output};
use crate::table::Table;

/// What `repos` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List repos (this is what `cw repos` alone does)
    #[command(visible_alias = "ls")]
    List,
    /// Set how a repo is served
    Set(Set),
    /// Let a repo's tasks wait; those that run go on
    Pause {
        /// The repo
        repo: RepoName,
    },
    /// Let a repo's tasks run again
    Resume {
        /// The repo
        repo: RepoName,
    },
}

#[derive(Debug, clap::Args)]
struct Set {
    /// The repo
    repo: RepoName,
    /// The agent that a bare prompt goes to; `none` for the coordinator's default
    #[arg(long, value_name = "NAME|none")]
    agent: Option<String>,
    /// How many of its tasks may run at one time; `none` for any number
    #[arg(long, value_name = "N|none", value_parser = max_running)]
    max_running: Option<MaxRunning>,
    /// Let its tasks wait
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Let its tasks run again
    #[arg(long)]
    resume: bool,
}

/// A number of tasks, or any number.
#[derive(Debug, Clone, Copy)]
struct MaxRunning(Option<u32>);

fn max_running(text: &str) -> std::result::Result<MaxRunning, String> {
    if text == "none" {
        return Ok(MaxRunning(None));
    }
    let number = text.parse().map_err(|_| "expected a number or `none`".to_owned())?;
    if number == 0 { Err("0 is no limit: pause the repo instead".to_owned()) } else { Ok(MaxRunning(Some(number))) }
}

impl Set {
    fn change(&self) -> Result<RepoChange> {
        let change = RepoChange {
            agent: self.agent.clone().map(|agent| Some(agent).filter(|agent| agent != "none")),
            max_running: self.max_running.map(|most| most.0),
            paused: (self.pause || self.resume).then_some(self.pause),
        };
        if change == RepoChange::default() {
            return Err(Failure::usage("nothing to set").next("give --agent, --max-running, --pause or --resume"));
        }
        Ok(change)
    }
}

/// Lists repos or changes one.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let paused = |paused| RepoChange { paused: Some(paused), ..RepoChange::default() };
    match args.verb {
        None | Some(Verb::List) => list(context).await,
        Some(Verb::Set(set)) => change(context, &set.repo, &set.change()?).await,
        Some(Verb::Pause { repo }) => change(context, &repo, &paused(true)).await,
        Some(Verb::Resume { repo }) => change(context, &repo, &paused(false)).await,
    }
}

async fn list(context: &mut Context) -> Result<Exit> {
    let repos = context.connect()?.repos().await?;
    let out = &mut context.out;
    if out.json() {
        out.value(&repos)?;
    } else if out.quiet() {
        let names: String = repos.items.iter().map(|repo| format!("{}\n", repo.repo)).collect();
        out.bytes(names.as_bytes())?;
    } else if repos.items.is_empty() {
        out.talk("no repos yet; the first task or `cw repos set` makes one");
    } else {
        show(out, &repos.items)?;
    }
    Ok(Exit::DONE)
}

async fn change(context: &mut Context, repo: &RepoName, change: &RepoChange) -> Result<Exit> {
    change.check().map_err(|error| Failure::usage(error.to_string()))?;
    let repo = context.connect()?.set_repo(repo, change).await?;
    if context.out.json() {
        context.out.value(&repo)?
    } else {
        show(&mut context.out, std::slice::from_ref(&repo))?
    }
    Ok(Exit::DONE)
}

fn show(out: &mut Output, repos: &[RepoView]) -> Result<()> {
    let mut table = Table::new(&["REPO", "QUEUED", "RUNNING", "MAX", "STATE", "AGENT"]);
    for repo in repos {
        table.row([
            repo.repo.to_string(),
            repo.queued.to_string(),
            repo.running.to_string(),
            repo.max_running.map_or_else(String::new, |most| most.to_string()),
            if repo.paused { "paused" } else { "open" }.to_owned(),
            repo.agent.clone().unwrap_or_else(|| "(default)".to_owned()),
        ]);
    }
    let text = table.render(out.width(), |_, cell| (cell == "paused").then(|| out.mark(Mark::Busy, cell)));
    out.bytes(text.as_bytes())
}
