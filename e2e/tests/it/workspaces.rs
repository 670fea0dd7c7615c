//! Sessions that tasks and clients share: the real coordinator keeps the files, the real worker brings them to tasks.

use anyhow::{Context as _, Result};
use e2e::Api;
use protocol::workspace::Published;
use protocol::{TaskId, TaskView};
use serde_json::{Value, json};

mod crashes;
mod tasks;

/// A shell task in a session.
fn shell(session: &str, code: &str) -> Value {
    json!({"repo": "r", "run": {"kind": "shell", "code": code}, "session": session, "timeout_s": 120})
}

async fn done(api: &Api, spec: Value) -> Result<TaskView> {
    api.done(api.submit(spec).await?.row.id).await
}

/// What a task printed that ended well.
async fn said(api: &Api, spec: Value) -> Result<String> {
    let task = done(api, spec).await?;
    let result = task.result.context("no result")?;
    anyhow::ensure!(result.exit_code == Some(0), "{result:?}");
    Ok(result.stdout)
}

fn published(task: &TaskView) -> Result<Published> {
    task.result.as_ref().and_then(|result| result.published.clone()).context("nothing was published")
}

async fn reason(api: &Api, id: TaskId) -> Result<String> {
    Ok(api.done(id).await?.row.reason.context("no reason")?.to_string())
}
