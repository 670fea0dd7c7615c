//! `cw wait`: waits until tasks are done, and ends by how they ended.

use std::time::Duration;

use protocol::{TaskState, TaskView};

use super::{Context, duration};
use crate::client::Received;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
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

/// Says how a task ended when that is not how it should.
pub(crate) fn conclude(out: &mut Output, task: &TaskView) {
    let dropped = task.result.as_ref().map_or(0, |result| {
        let written = result.written_bytes.stdout.max(result.written_bytes.stderr);
        if written > task.spec.limits.output_bytes() { written - task.spec.limits.output_bytes() } else { 0 }
    });
    if dropped > 0 {
        out.notice(&format!("{}: the output was longer than what is kept; {dropped} bytes are missing", task.row.id));
    }
    if task.row.state != TaskState::Completed {
        out.talk(&format!("{} {}", task.row.id, ending(task)));
    }
}

/// How a task ended, in a few words.
pub(crate) fn ending(task: &TaskView) -> String {
    let state = task.row.state.as_str();
    let reason = task.row.reason.map_or("", |reason| reason.as_str());
    let result = task.result.as_ref();
    let code = result.and_then(|result| result.exit_code).map(|code| format!("exit code {code}"));
    let signal = result.and_then(|result| result.signal).map(|signal| format!("signal {signal}"));
    let detail = result.and_then(|result| result.detail.clone());
    match detail.or(signal).or(code) {
        _ if task.row.state == TaskState::Completed => state.to_owned(),
        _ if reason == state || reason.is_empty() => state.to_owned(),
        Some(more) => format!("{state} ({reason}): {more}"),
        None => format!("{state} ({reason})"),
    }
}
