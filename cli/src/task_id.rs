//! The tasks that were meant by what was typed: whole ids, or parts of those of the newest tasks.

use protocol::{TaskId, TaskView};

use crate::client::{Client, PageQuery, Received};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::id_part::Kind;
use crate::output::Output;

/// The ids of tasks.
pub(crate) const TASK: Kind = Kind { prefix: TaskId::PREFIX, noun: "task", list: "cw list" };

/// How many of the newest tasks are looked at, which is one page.
const NEWEST: u32 = 500;

/// The task that was meant.
pub(crate) async fn find(client: &Client, typed: &str) -> Result<TaskId> {
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    TASK.part(typed)?;
    let newest = client.tasks(&PageQuery { limit: NEWEST, ..PageQuery::default() }).await?;
    TASK.choose(typed, newest.items.iter().map(|task| task.row.id))
}

/// What went wrong with some of several, while the others are done all the same.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<Exit>,
}

impl Failures {
    /// Reports one. What would go wrong with all the others too ends the command.
    pub(crate) fn take(&mut self, out: &mut Output, failure: Failure) -> Result<()> {
        if [Exit::UNREACHABLE, Exit::AUTH].contains(&failure.exit) {
            return Err(failure);
        }
        out.fail(&failure);
        self.first.get_or_insert(failure.exit);
        Ok(())
    }

    /// The code of the first failure; without one, that of the others.
    pub(crate) fn exit_or(&self, exit: Exit) -> Exit {
        self.first.unwrap_or(exit)
    }
}

/// The tasks that were meant, each once; those that are not there are reported.
pub(crate) async fn find_all(
    client: &Client,
    out: &mut Output,
    typed: &[String],
    failures: &mut Failures,
) -> Result<Vec<TaskId>> {
    let mut ids = Vec::new();
    for typed in typed {
        match find(client, typed).await {
            Ok(id) if ids.contains(&id) => {}
            Ok(id) => ids.push(id),
            Err(failure) => failures.take(out, failure)?,
        }
    }
    Ok(ids)
}

/// The same, as they stand.
pub(crate) async fn fetch_all(
    client: &Client,
    out: &mut Output,
    typed: &[String],
    failures: &mut Failures,
) -> Result<Vec<Received<TaskView>>> {
    let mut tasks = Vec::new();
    for id in find_all(client, out, typed, failures).await? {
        match client.task(id).await {
            Ok(task) => tasks.push(task),
            Err(failure) => failures.take(out, failure)?,
        }
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests;
