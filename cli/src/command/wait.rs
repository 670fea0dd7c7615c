//! `cw wait`: waits until tasks are done, and ends by how they ended.

use std::time::Duration;

use protocol::TaskView;

use super::{Context, duration};
use crate::client::Received;
use crate::ending::ending;
use crate::exit::Exit;
use crate::failure::Result;
use crate::task_id::{self, Failures};
use crate::watch::{Plan, Show, Watched, watch};

/// What `wait` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks, by id or a part of one
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<String>,
    /// Stop waiting after this time, with exit code 124; the tasks go on
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// End with the task's own exit code
    #[arg(long)]
    exit_code: bool,
}

/// Waits. The exit code is that of the first task that is not there, else of the first that did not complete.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let mut failures = Failures::default();
    let tasks = task_id::fetch_all(&client, &mut context.out, &args.tasks, &mut failures).await?;
    let tasks = tasks.iter().map(|task| task.row.id).collect();
    let plan =
        Plan { tasks, show: Show::Nothing, stream: None, lines: None, timeout: args.timeout, is_explained: false };
    let done = match watch(&client, &mut context.out, plan).await? {
        Watched::Left(failure) => return Err(failure),
        Watched::Done(done) => done,
    };
    for task in &done {
        if context.out.json() {
            context.out.value(task)?;
        } else {
            context.out.data(&format!("{}  {}", task.row.id, ending(task)))?;
        }
    }
    Ok(failures.exit_or(exit_of(&done, args.exit_code)))
}

/// The exit code for tasks that are done.
pub(crate) fn exit_of(done: &[Received<TaskView>], own: bool) -> Exit {
    let exits = done.iter().map(|task| if own { Exit::of_process(task) } else { Exit::of_task(task) });
    exits.into_iter().find(|exit| *exit != Exit::DONE).unwrap_or(Exit::DONE)
}
