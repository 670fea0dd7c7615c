//! How a task ended, for a person: in a few words, what it used, and what to do about it.

use protocol::outcome::Usage;
use protocol::{Reason, TaskState, TaskView};

use crate::output::Output;
use crate::table::{bytes, took};

/// Characters of a returned value that are shown to who waits; the task itself has it whole.
const VALUE_CHARS: usize = 2000;

/// Says how a task ended when that is not how it should, and what came of it that is no output.
pub(crate) fn conclude(out: &mut Output, task: &TaskView) {
    let dropped = task.result.as_ref().map_or(0, |result| {
        let written = result.written_bytes.stdout.max(result.written_bytes.stderr);
        written.saturating_sub(task.spec.limits.output_bytes())
    });
    if dropped > 0 {
        out.notice(&format!("{}: the output was longer than what is kept; {dropped} bytes are missing", task.row.id));
    }
    if let Some(value) = task.result.as_ref().and_then(|result| result.return_value.as_ref()) {
        out.talk(&format!("returned {}", crate::table::cut(&value.to_string(), VALUE_CHARS)));
    }
    if task.row.state != TaskState::Completed {
        out.talk(&format!("{} {}", task.row.id, ending(task)));
        if let Some(next) = task.row.reason.and_then(next) {
            out.talk(&format!("  next: {next}"));
        }
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
    match detail.or_else(|| passed(task)).or(signal).or(code) {
        _ if task.row.state == TaskState::Completed => state.to_owned(),
        _ if reason == state || reason.is_empty() => state.to_owned(),
        Some(more) => format!("{state} ({reason}): {more}"),
        None => format!("{state} ({reason})"),
    }
}

/// What it used, as far as that is known.
pub(crate) fn used(usage: &Usage) -> String {
    let ms = |ms: u64| took(i64::try_from(ms).unwrap_or(i64::MAX));
    let cpu = usage.cpu_ms.map(|cpu| format!(", {} of processor time", ms(cpu))).unwrap_or_default();
    let memory = usage.peak_memory_bytes.map(|peak| format!(", {} of memory", bytes(peak))).unwrap_or_default();
    format!("{}{cpu}{memory} ({})", ms(usage.wall_ms), usage.source)
}

/// The limit of its own that it passed, as its spec has it.
fn passed(task: &TaskView) -> Option<String> {
    let (reason, limits) = (task.row.reason?, &task.spec.limits);
    let passed = [
        (Reason::Timeout, Some(format!("it ran longer than {} s", task.spec.timeout_s()))),
        (Reason::IdleTimeout, task.spec.idle_timeout_s.map(|s| format!("it wrote nothing for {s} s"))),
        (Reason::Oom, limits.memory_bytes.map(|limit| format!("it used more than {}", bytes(limit)))),
        (Reason::CpuLimit, limits.cpu_s.map(|s| format!("it used more than {s} s of processor time"))),
        (Reason::DiskLimit, limits.disk_bytes.map(|limit| format!("it filled more than {}", bytes(limit)))),
    ];
    passed.into_iter().find(|(of, _)| *of == reason)?.1
}

/// What a person can do who wants it to end otherwise.
const fn next(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Timeout => Some("--timeout gives it more time"),
        Reason::IdleTimeout => Some("--idle-timeout lets it be silent for longer"),
        Reason::Oom => Some("--memory gives it more"),
        Reason::CpuLimit => Some("--cpu gives it more"),
        Reason::DiskLimit => Some("--disk gives it more, --file-size lets one file be larger"),
        Reason::OutputLimit => Some("let it write less, or to a file: no stream may have more than 1 GiB"),
        Reason::ConfinementUnavailable => Some("`cw-worker doctor` where the worker runs says what is missing"),
        Reason::LeaseLost => Some("`cw workers` and the workers' logs say what became of them"),
        Reason::Ok
        | Reason::Cancelled
        | Reason::ExitNonzero
        | Reason::Signalled
        | Reason::Quota
        | Reason::Budget
        | Reason::Conflict
        | Reason::PushFailed
        | Reason::SetupFailed
        | Reason::PolicyDenied
        | Reason::AgentError => None,
    }
}

#[cfg(test)]
mod tests;
