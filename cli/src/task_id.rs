//! Ids as people type them: whole, or only as much of the beginning or the end as makes one of the newest tasks
//! unmistakable.

use protocol::TaskId;

use crate::client::{Client, TaskQuery, no_such_task};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// How many of the newest tasks are looked at, which is one page.
const NEWEST: u32 = 500;
const SHORTEST: usize = 4;

/// The task that was meant.
pub(crate) async fn find(client: &Client, typed: &str) -> Result<TaskId> {
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    let part = typed.strip_prefix(TaskId::PREFIX).unwrap_or(typed);
    if part.len() < SHORTEST || !part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err(Failure::usage(format!("`{typed}` is no task's id")).next(format!(
            "give an id as `cw list` shows it, or {SHORTEST} and more characters of its beginning or end"
        )));
    }
    let newest = client.tasks(&TaskQuery { limit: NEWEST, ..TaskQuery::default() }).await?;
    choose(typed, part, newest.items.iter().map(|task| task.row.id))
}

/// The tasks that were meant.
pub(crate) async fn find_all(client: &Client, typed: &[String]) -> Result<Vec<TaskId>> {
    let mut ids = Vec::new();
    for typed in typed {
        let id = find(client, typed).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn choose(typed: &str, part: &str, ids: impl Iterator<Item = TaskId>) -> Result<TaskId> {
    let is_meant = |id: &TaskId| {
        let text = id.to_string();
        let body = text.strip_prefix(TaskId::PREFIX).unwrap_or_default();
        body.starts_with(part) || (!typed.starts_with(TaskId::PREFIX) && body.ends_with(part))
    };
    let found: Vec<TaskId> = ids.filter(is_meant).collect();
    match found.as_slice() {
        [id] => Ok(*id),
        [] => Err(no_such_task(typed)),
        several => Err(Failure::new(
            Exit::USAGE,
            "ambiguous_id",
            format!("`{typed}` could be {} tasks, such as {} and {}", several.len(), several[0], several[1]),
        )
        .next("give more of the id")),
    }
}

#[cfg(test)]
mod tests;
