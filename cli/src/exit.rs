//! The exit codes: what a script learns without reading a word. The list stands in `cw --help` too.

use protocol::{Code, Reason, TaskResult, TaskState, TaskView};

/// The list as `--help` shows it.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done; with --wait, --follow and wait: the task completed
    1  the task failed or timed out (`--exit-code` passes its own code on)
    2  wrong usage, or something that the coordinator lets nobody do
    3  not found
    4  no key, or a key that the coordinator refuses
    5  conflict
    6  the coordinator cannot be reached, or is in trouble
    7  the task was cancelled
    8  a quota or a budget was used up
  124  the wait ran out; the task is left as it is
  130  interrupted (143: terminated); a task that was followed goes on
  141  the reader of the output went away";

/// What the program ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const DONE: Self = Self(0);
    pub(crate) const FAILED: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const NOT_FOUND: Self = Self(3);
    pub(crate) const AUTH: Self = Self(4);
    pub(crate) const CONFLICT: Self = Self(5);
    pub(crate) const UNREACHABLE: Self = Self(6);
    pub(crate) const CANCELLED: Self = Self(7);
    pub(crate) const QUOTA: Self = Self(8);
    pub(crate) const WAIT_RAN_OUT: Self = Self(124);
    pub(crate) const INTERRUPTED: Self = Self(130);
    pub(crate) const TERMINATED: Self = Self(143);
    pub(crate) const BROKEN_PIPE: Self = Self(141);

    /// Whether somebody only stopped to wait: nothing went wrong.
    pub(crate) fn is_leaving(self) -> bool {
        [Self::WAIT_RAN_OUT, Self::INTERRUPTED, Self::TERMINATED].contains(&self)
    }

    /// The code for how a task stands. One that is not done counts as done here: whoever waits says otherwise.
    pub(crate) fn of_task(task: &TaskView) -> Self {
        Self::of_outcome(task.row.state, task.row.reason)
    }

    /// The code for how something that ran ended.
    pub(crate) const fn of_outcome(state: TaskState, reason: Option<Reason>) -> Self {
        match (state, reason) {
            (TaskState::Queued | TaskState::Running | TaskState::Completed, _) => Self::DONE,
            (TaskState::Cancelled, _) => Self::CANCELLED,
            (_, Some(Reason::Quota | Reason::Budget)) => Self::QUOTA,
            (_, Some(Reason::Conflict)) => Self::CONFLICT,
            (TaskState::Failed | TaskState::TimedOut, _) => Self::FAILED,
        }
    }

    /// The task's own exit code, as a shell would show it; without one, the code for its outcome.
    pub(crate) fn of_process(task: &TaskView) -> Self {
        let result = task.result.as_ref();
        let code = result.and_then(|result| result.exit_code);
        let signal = result.and_then(|result: &TaskResult| result.signal);
        let own = code.or(signal.map(|signal| 128 + signal)).and_then(|code| u8::try_from(code & 0xff).ok());
        own.map_or_else(|| Self::of_task(task), Self)
    }

    /// The code for a request that the coordinator refused.
    pub(crate) fn of_problem(code: Code, status: u16) -> Self {
        match (code, status) {
            (Code::IdempotencyMismatch, _) | (_, 409 | 412) => Self::CONFLICT,
            (Code::QuotaExceeded, _) => Self::QUOTA,
            // What the coordinator lets nobody do, whatever the key.
            (Code::ReadOnly | Code::UnsafePath | Code::SensitivePath, _) => Self::USAGE,
            (_, 401 | 403) => Self::AUTH,
            (_, 404) => Self::NOT_FOUND,
            (Code::ProtocolUnsupported, _) | (_, 500..) => Self::UNREACHABLE,
            _ => Self::USAGE,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

#[cfg(test)]
mod tests;
