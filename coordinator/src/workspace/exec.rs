//! A command in a session: a task that the coordinator queues and waits for.

use std::sync::Arc;
use std::time::Duration;

use protocol::path::VirtualPath;
use protocol::spec::{Run, Spec};
use protocol::workspace::{Exec, ExecDone};
use protocol::{Reason, RepoName, SessionName, TaskId, TaskResult};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::store::{StoreError, StoredTask};

/// Seconds that a command may take when nobody says.
const DEFAULT_S: u32 = 120;
/// How long a command may wait for a worker.
const WAIT_FOR_WORKER: Duration = Duration::from_secs(60);
/// How long what comes after the deadline may take: ending its processes, bringing its files.
const WAIT_FOR_END: Duration = Duration::from_secs(90);
/// Seconds of one look at the task.
const LOOK_S: u32 = 15;

/// What became of a command.
pub enum Executed {
    /// It ended.
    Done(Box<ExecDone>),
    /// No worker took it in time: it was cancelled.
    NotTaken(TaskId),
    /// It did not end in time: it was cancelled.
    NotEnded(TaskId),
}

/// Cancels its task when whoever waits for it is gone.
struct Waiting {
    queue: Arc<Queue>,
    task: Option<TaskId>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let queue = self.queue.clone();
        tokio::spawn(async move {
            if let Err(error) = queue.cancel(task).await {
                tracing::debug!(%error, %task, "could not cancel a command that nobody waits for");
            }
        });
    }
}

/// The task that runs a command in a directory of a session.
pub(crate) fn spec(session: SessionName, repo: RepoName, exec: &Exec, cwd: &VirtualPath) -> Spec {
    let inside = cwd.as_str();
    let run = match (&exec.command, inside) {
        (Some(command), "") => Run::Shell { code: command.clone() },
        (Some(command), inside) => Run::Shell { code: format!("cd -- {} || exit 1\n{command}", quoted(inside)) },
        (None, "") => Run::Command { argv: exec.argv.clone() },
        (None, inside) => {
            let change = "cd -- \"$1\" && shift && exec \"$@\"";
            let words = ["sh", "-c", change, "sh", inside].map(str::to_owned);
            Run::Command { argv: words.into_iter().chain(exec.argv.iter().cloned()).collect() }
        }
    };
    let timeout_s = Some(exec.timeout_s.unwrap_or(DEFAULT_S));
    Spec { session: Some(session), timeout_s, max_attempts: Some(1), ..Spec::new(repo, run) }
}

fn quoted(text: &str) -> String {
    format!("'./{}'", text.replace('\'', "'\\''"))
}

/// Runs a command and waits for it; who stops waiting cancels it.
///
/// # Errors
/// `Busy`, or see `StoreError`.
pub(crate) async fn execute(queue: Arc<Queue>, spec: Spec) -> Result<Executed, StoreError> {
    let timeout = Duration::from_secs(spec.timeout_s().into());
    let task = queue.submit_if_free(spec).await?.row.id;
    let mut waiting = Waiting { queue: queue.clone(), task: Some(task) };
    let begun = Instant::now();
    loop {
        let seen = queue.task(task, LOOK_S).await?;
        if seen.row.state.is_done() {
            waiting.task = None;
            return Ok(Executed::Done(Box::new(done(&seen))));
        }
        let is_late = |limit: Duration| begun.elapsed() >= limit || queue.shutdown.is_requested();
        if seen.row.attempt == 0 && is_late(WAIT_FOR_WORKER) {
            return Ok(Executed::NotTaken(task));
        }
        if is_late(WAIT_FOR_WORKER + timeout + WAIT_FOR_END) {
            return Ok(Executed::NotEnded(task));
        }
    }
}

fn done(seen: &StoredTask) -> ExecDone {
    let result = seen.result.as_ref().and_then(|json| serde_json::from_str::<TaskResult>(json.get()).ok());
    let result = result.unwrap_or_default();
    let took =
        seen.row.started_at.zip(seen.row.finished_at).map_or(0, |(start, end)| end.ms_since(start).unsigned_abs());
    ExecDone {
        task: seen.row.id,
        reason: seen.row.reason,
        exit_code: result.exit_code,
        duration_ms: result.usage.as_ref().map_or(took, |usage| usage.wall_ms),
        truncated: !result.dropped_bytes.is_none(),
        timed_out: matches!(seen.row.reason, Some(Reason::Timeout | Reason::IdleTimeout)),
        stdout: result.stdout,
        stderr: result.stderr,
        detail: result.detail,
    }
}
