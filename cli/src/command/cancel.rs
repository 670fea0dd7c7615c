//! `cw cancel`: asks for tasks to end.

use super::Context;
use crate::exit::Exit;
use crate::failure::Result;
use crate::task_id::{self, Failures};

/// What `cancel` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks, by id or a part of one
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<String>,
}

/// Cancels all of them; a failure of one does not spare the others.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let mut failures = Failures::default();
    for id in task_id::find_all(&client, &mut context.out, &args.tasks, &mut failures).await? {
        match client.cancel(id).await {
            Ok(task) if context.out.json() => context.out.value(&task)?,
            Ok(task) if task.row.state.is_done() => context.out.talk(&format!("{id} is {}", task.row.state)),
            Ok(_) => context.out.talk(&format!("{id} was told to stop; `cw wait {id}` says when it has")),
            Err(failure) => failures.take(&mut context.out, failure)?,
        }
    }
    Ok(failures.exit_or(Exit::DONE))
}
