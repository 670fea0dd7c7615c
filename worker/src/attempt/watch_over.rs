//! The part of an attempt in which its processes live: start, wait for the first of all that can end them, collect.

use std::sync::Arc;
use std::time::Duration;

use protocol::limits::MAX_VALUE_DEPTH;
use protocol::{Outcome, Run};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use super::used::{Used, Watch};
use super::{Attempt, must_leave};
use crate::confinement::Init;
use crate::confinement::cgroup::{Cgroup, Counted};
use crate::confinement::init::MAX_RETURN_BYTES;
use crate::confinement::limits::Passed;
use crate::confinement::wire::{End, Note, Returned, Status};
use crate::heartbeat::Verdict;
use crate::network::Relays;
use crate::output::{Account, Leftover, Output};
use crate::process::{Process, Started};
use crate::ready::Site;

const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
/// Between TERM and KILL, when the worker ends a task.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How long pid 1 may take beyond that; then the worker ends them itself.
const LEAVING: Duration = Duration::from_secs(3);

/// What became of the processes.
pub(super) enum Finished {
    /// There is something to report.
    Ran { outcome: Outcome, leftover: Box<Leftover>, account: Account, used: Used, return_value: Option<Value> },
    /// The lease was lost, or the worker leaves: there is nothing to report.
    GivenUp,
}

impl Finished {
    /// Nothing was run.
    pub(super) fn without(outcome: Outcome) -> Self {
        let (leftover, account) = (Box::new(Leftover::nothing()), Account::default());
        Self::Ran { outcome, leftover, account, used: Used::default(), return_value: None }
    }

    /// The same with another outcome.
    pub(super) fn but(self, outcome: Outcome) -> Self {
        match self {
            Self::Ran { leftover, account, used, return_value, .. } => {
                Self::Ran { outcome, leftover, account, used, return_value }
            }
            Self::GivenUp => Self::GivenUp,
        }
    }
}

/// Why the processes ended, or must.
enum Cause {
    /// By themselves or for a limit, as pid 1 tells.
    Ended(End),
    /// They never began.
    NotStarted { code: i32, message: String },
    /// Their confinement could not be built.
    Unconfined { message: String },
    /// The stages are gone without a word.
    Orphaned { has_begun: bool },
    /// The worker ends them, with this outcome.
    Stopped(Outcome),
    /// The worker ends them, and nobody wants to know.
    GivenUp,
}

/// Runs the task's program to its end.
pub(super) async fn watch_over(attempt: &mut Attempt, stages: Started, plan: &Init, site: &Site) -> Finished {
    let worker = Arc::clone(&attempt.worker);
    let Started { mut process, stdout, stderr } = stages;
    if let Err(error) = process.begin(plan).await {
        process.close().await;
        return Finished::without(Outcome::SetupFailed { detail: format!("cannot speak to a process: {error}") });
    }
    let mut output = Output::new(attempt.spec.limits.output_bytes(), site.directory.path());
    output.read(stdout, stderr);
    let live = output.send_live(Arc::clone(&worker.client), attempt.grant.lease, attempt.heartbeat.validity());
    let live = tokio::spawn(live);
    let mut relays = None;
    let mut watch = Watch::new(site.cgroup.as_ref(), attempt.spec.limits.cpu_s);
    let cause = wait_for_end(attempt, &mut process, &output, &mut relays, &mut watch).await;
    let end = stop(attempt, &mut process, &cause).await;
    process.close().await;
    if let Some(relays) = relays {
        relays.end().await;
    }
    // Without namespaces no kernel ends what the last stage may have left.
    let is_surely_gone =
        (end.is_some() || matches!(cause, Cause::NotStarted { .. })) && worker.confinement.level().has_namespaces();
    if !is_surely_gone {
        let family = Arc::clone(&worker.family);
        let _ = tokio::task::spawn_blocking(move || family.end_orphans()).await;
    }
    let counted = site.cgroup.as_ref().map(Cgroup::counted);
    let wall_ms = watch.wall_ms();
    let outcome = outcome(attempt, cause, &output, counted.as_ref());
    live.abort();
    let _ = live.await;
    let Some(outcome) = outcome else { return Finished::GivenUp };
    let (outcome, return_value) = returned(outcome, end.as_ref(), &output);
    let used = Used::new(end.as_ref(), counted.map(|counted| watch.own(counted)), wall_ms);
    let (leftover, account) = output.close().await;
    Finished::Ran { outcome, leftover: Box::new(leftover), account, used, return_value }
}

/// Waits for the first of everything that can end an attempt. The lease comes first: once it is lost, nothing counts.
async fn wait_for_end(
    attempt: &mut Attempt,
    process: &mut Process,
    output: &Output,
    relays: &mut Option<Relays>,
    watch: &mut Watch<'_>,
) -> Cause {
    let (timeout_s, idle_s) = (attempt.spec.timeout_s(), attempt.spec.idle_timeout_s.unwrap_or(u32::MAX));
    let mut deadline = Instant::now() + Duration::from_secs(timeout_s.into());
    let mut has_begun = false;
    loop {
        tokio::select! {
            biased;
            verdict = attempt.heartbeat.verdict() => return match verdict {
                Verdict::Cancel => Cause::Stopped(Outcome::Cancelled),
                Verdict::Lost => Cause::GivenUp,
            },
            note = process.note() => match note {
                // The deadline counts from here, not from the lease.
                Some(Note::Started) => {
                    has_begun = true;
                    watch.begin();
                    deadline = Instant::now() + Duration::from_secs(timeout_s.into());
                }
                Some(Note::Waiting) => {}
                Some(Note::Listening) => match attempt.worker.relay(process.descriptors()) {
                    Ok(started) => *relays = Some(started),
                    Err(error) => return Cause::Stopped(Outcome::ConfinementUnavailable { detail: error.to_string() }),
                },
                Some(Note::Unconfined { message }) => return Cause::Unconfined { message },
                Some(Note::NotStarted { code, message }) => return Cause::NotStarted { code, message },
                Some(Note::Ended(end)) => return Cause::Ended(end),
                None => return Cause::Orphaned { has_begun },
            },
            () = must_leave(&mut attempt.give_up) => return Cause::GivenUp,
            passed = watch.passed() => return Cause::Stopped(passed),
            () = output.flooded() => return Cause::Stopped(Outcome::OutputLimit),
            () = sleep_until(deadline) => return Cause::Stopped(Outcome::Timeout),
            () = output.idle(Duration::from_secs(idle_s.into())) => return Cause::Stopped(Outcome::IdleTimeout),
        }
    }
}

/// Ends the processes if they live; says what they used.
async fn stop(attempt: &Attempt, process: &mut Process, cause: &Cause) -> Option<End> {
    let grace = match cause {
        Cause::Ended(end) => return Some(end.clone()),
        Cause::NotStarted { .. } | Cause::Unconfined { .. } | Cause::Orphaned { .. } => return None,
        // Who passed a limit has no time left to pass more of them.
        Cause::Stopped(Outcome::Oom | Outcome::CpuLimit | Outcome::OutputLimit) | Cause::GivenUp => Duration::ZERO,
        Cause::Stopped(_) => KILL_GRACE.min(attempt.worker.config.grace),
    };
    let ended = async {
        process.stop(grace).await;
        loop {
            match process.note().await? {
                Note::Ended(end) => return Some(end),
                Note::Unconfined { .. } | Note::Waiting | Note::Listening | Note::Started | Note::NotStarted { .. } => {
                }
            }
        }
    };
    let end = timeout(grace + LEAVING, ended).await.ok().flatten();
    if end.is_none() {
        process.kill();
    }
    end
}

fn outcome(attempt: &Attempt, cause: Cause, output: &Output, counted: Option<&Counted>) -> Option<Outcome> {
    match cause {
        Cause::Ended(end) => {
            if end.passed == Some(Passed::Processes) {
                output.say("there were more processes and threads than a task may have; the task was ended");
            }
            Some(ended(&end, counted, matches!(attempt.spec.run, Run::Shell { .. })))
        }
        Cause::NotStarted { code, message } if matches!(attempt.spec.run, Run::Command { .. }) => {
            output.say(&message);
            Some(Outcome::Exited { code })
        }
        Cause::NotStarted { message, .. } => Some(Outcome::SetupFailed { detail: message }),
        Cause::Unconfined { message } => Some(Outcome::ConfinementUnavailable { detail: message }),
        Cause::Orphaned { .. } if counted.is_some_and(|counted| counted.is_out_of_memory) => Some(Outcome::Oom),
        Cause::Orphaned { has_begun: false } => {
            let detail = "bubblewrap ended before the task began; what it said is in the task's stderr".into();
            Some(Outcome::ConfinementUnavailable { detail })
        }
        Cause::Orphaned { has_begun: true } => {
            output.say("the process that watched over this task was killed; the task was ended");
            Some(Outcome::Signalled { signal: 9 })
        }
        Cause::Stopped(outcome) => Some(outcome),
        Cause::GivenUp => None,
    }
}

fn ended(end: &End, counted: Option<&Counted>, is_shell: bool) -> Outcome {
    let killed_for_memory = counted.is_some_and(|counted| counted.is_out_of_memory);
    match (end.passed, end.status) {
        (Some(Passed::Memory), _) => Outcome::Oom,
        (Some(Passed::Cpu), _) => Outcome::CpuLimit,
        (Some(Passed::Disk), _) => Outcome::DiskLimit,
        (Some(Passed::Processes), _) => Outcome::Signalled { signal: 9 },
        // The kernel may have ended one of several processes, and the others made the best of it.
        (None, _) if killed_for_memory => Outcome::Oom,
        (None, Status::Signalled(signal)) => at_a_limit(signal).unwrap_or(Outcome::Signalled { signal }),
        (None, Status::Exited(code)) => {
            let of_child = if is_shell { at_a_limit(code - 128) } else { None };
            of_child.unwrap_or(Outcome::Exited { code })
        }
    }
}

/// The limit at which the kernel sends this signal. A shell ends with 128 and the signal of the program that it ran.
const fn at_a_limit(signal: i32) -> Option<Outcome> {
    match signal {
        SIGXCPU => Some(Outcome::CpuLimit),
        SIGXFSZ => Some(Outcome::DiskLimit),
        _ => None,
    }
}

/// What the handler returned. A value that is too large, or is none, is a failure of the task.
fn returned(outcome: Outcome, end: Option<&End>, output: &Output) -> (Outcome, Option<Value>) {
    let is_ok = outcome == Outcome::Exited { code: 0 };
    let complaint = match end.map(|end| &end.returned) {
        None | Some(Returned::Nothing) => return (outcome, None),
        Some(Returned::Text(text)) => match serde_json::from_str(text) {
            // A report that holds it would be refused, and with it all else that came of the task.
            Ok(value) if depth(&value) > MAX_VALUE_DEPTH => {
                format!("the return value is nested over {MAX_VALUE_DEPTH} levels deep")
            }
            Ok(value) if is_ok => return (outcome, Some(value)),
            Ok(_) => return (outcome, None),
            Err(error) => format!("the return value is not JSON: {error}"),
        },
        Some(Returned::TooLarge) => format!("the return value is over {MAX_RETURN_BYTES} bytes"),
    };
    output.say(&complaint);
    (if is_ok { Outcome::Exited { code: 1 } } else { outcome }, None)
}

/// How deep brackets are nested. The reader stopped at 128 levels.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(values) => values.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    1 + below.unwrap_or(0)
}
