//! The part of an attempt in which its processes live: start, wait for the first of all that can end them, collect.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Outcome, Run};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Attempt, must_leave};
use crate::directory::Directory;
use crate::heartbeat::Verdict;
use crate::output::{Account, Leftover, Output};
use crate::process::{End, Note, Process, Status};

/// Between TERM and KILL, when the worker ends a task.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How long the supervisor may take beyond that. A task can stop or slow it; then the worker ends them itself.
const SUPERVISOR: Duration = Duration::from_secs(3);

/// What became of the processes.
pub(super) enum Finished {
    /// There is something to report.
    Ran { outcome: Outcome, leftover: Box<Leftover>, account: Account, used: Option<End> },
    /// The lease was lost, or the worker leaves: there is nothing to report.
    GivenUp,
}

impl Finished {
    pub(super) fn setup_failed(detail: String) -> Self {
        let (leftover, account) = (Box::new(Leftover::nothing()), Account::default());
        Self::Ran { outcome: Outcome::SetupFailed { detail }, leftover, account, used: None }
    }
}

/// Why the processes ended, or must.
enum Cause {
    /// By themselves, as their supervisor tells.
    Ended(End),
    /// They never began.
    NotStarted { code: i32, message: String },
    /// Their supervisor is gone without a word.
    Orphaned,
    /// The worker ends them, with this outcome.
    Stopped(Outcome),
    /// The worker ends them, and nobody wants to know.
    GivenUp,
}

/// Runs the task's program to its end.
pub(super) async fn watch_over(attempt: &mut Attempt, directory: &Directory) -> Finished {
    let worker = Arc::clone(&attempt.worker);
    let plan = match worker.tools.plan(&attempt.grant, &attempt.spec, directory) {
        Ok(plan) => plan,
        Err(error) => return Finished::setup_failed(format!("{error:#}")),
    };
    let (mut process, stdout, stderr) = match Process::start(&worker.family, &plan).await {
        Ok(started) => started,
        Err(error) => return Finished::setup_failed(format!("cannot start a process: {error}")),
    };
    let mut output = Output::new(attempt.spec.limits.output_bytes(), directory.path());
    output.read(stdout, stderr);
    let live = output.send_live(Arc::clone(&worker.client), attempt.grant.lease, attempt.heartbeat.validity());
    let live = tokio::spawn(live);
    let cause = wait_for_end(attempt, &mut process, &output).await;
    let used = stop(attempt, &mut process, &cause).await;
    process.close().await;
    if used.is_none_or(|end| end.left_over) && !matches!(cause, Cause::NotStarted { .. }) {
        let family = Arc::clone(&worker.family);
        let _ = tokio::task::spawn_blocking(move || family.end_orphans()).await;
    }
    let outcome = outcome(attempt, cause, &output);
    live.abort();
    let _ = live.await;
    let Some(outcome) = outcome else { return Finished::GivenUp };
    let (leftover, account) = output.close().await;
    Finished::Ran { outcome, leftover: Box::new(leftover), account, used }
}

/// Waits for the first of everything that can end an attempt. The lease comes first: once it is lost, nothing counts.
async fn wait_for_end(attempt: &mut Attempt, process: &mut Process, output: &Output) -> Cause {
    let (timeout_s, idle_s) = (attempt.spec.timeout_s(), attempt.spec.idle_timeout_s.unwrap_or(u32::MAX));
    let mut deadline = Instant::now() + Duration::from_secs(timeout_s.into());
    loop {
        tokio::select! {
            biased;
            verdict = attempt.heartbeat.verdict() => return match verdict {
                Verdict::Cancel => Cause::Stopped(Outcome::Cancelled),
                Verdict::Lost => Cause::GivenUp,
            },
            note = process.note() => match note {
                // The deadline counts from here, not from the lease.
                Some(Note::Started) => deadline = Instant::now() + Duration::from_secs(timeout_s.into()),
                Some(Note::NotStarted { code, message }) => return Cause::NotStarted { code, message },
                Some(Note::Ended(end)) => return Cause::Ended(end),
                None => return Cause::Orphaned,
            },
            () = must_leave(&mut attempt.give_up) => return Cause::GivenUp,
            () = output.flooded() => return Cause::Stopped(Outcome::OutputLimit),
            () = sleep_until(deadline) => return Cause::Stopped(Outcome::Timeout),
            () = output.idle(Duration::from_secs(idle_s.into())) => return Cause::Stopped(Outcome::IdleTimeout),
        }
    }
}

/// Ends the processes if they live; says what they used.
async fn stop(attempt: &Attempt, process: &mut Process, cause: &Cause) -> Option<End> {
    let grace = match cause {
        Cause::Ended(end) => return Some(*end),
        Cause::NotStarted { .. } | Cause::Orphaned => return None,
        Cause::Stopped(_) => KILL_GRACE.min(attempt.worker.config.grace),
        Cause::GivenUp => Duration::ZERO,
    };
    let ended = async {
        process.stop(grace).await;
        loop {
            match process.note().await? {
                Note::Ended(end) => return Some(end),
                Note::Started | Note::NotStarted { .. } => {}
            }
        }
    };
    let end = timeout(grace + SUPERVISOR, ended).await.ok().flatten();
    if end.is_none() {
        process.kill();
    }
    end
}

fn outcome(attempt: &Attempt, cause: Cause, output: &Output) -> Option<Outcome> {
    match cause {
        Cause::Ended(End { status: Status::Exited(code), .. }) => Some(Outcome::Exited { code }),
        Cause::Ended(End { status: Status::Signalled(signal), .. }) => Some(Outcome::Signalled { signal }),
        Cause::NotStarted { code, message } if matches!(attempt.spec.run, Run::Command { .. }) => {
            output.say(&message);
            Some(Outcome::Exited { code })
        }
        Cause::NotStarted { message, .. } => Some(Outcome::SetupFailed { detail: message }),
        Cause::Orphaned => {
            output.say("the process that watched over this task was killed; the task was ended");
            Some(Outcome::Signalled { signal: 9 })
        }
        Cause::Stopped(outcome) => Some(outcome),
        Cause::GivenUp => None,
    }
}
