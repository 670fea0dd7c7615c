//! Why a task is where it is: the first obstacle, in the order in which a person would remove them. Pure.

use protocol::admin::WorkerView;
use protocol::why::{Why, WhyCode};
use protocol::{Reason, TaskRow, TaskState, WorkerInfo, WorkerState};

use crate::clock::Now;
use crate::lifecycle::Hold;
use crate::store::WaitingFacts;

/// Explains a task.
#[must_use]
pub fn explain(facts: &WaitingFacts, workers: &[WorkerView], now: Now) -> Why {
    let row = &facts.row;
    let (code, summary, next) = match row.state {
        TaskState::Queued => held(facts, now).or_else(|| closed(facts)).unwrap_or_else(|| unserved(facts, workers)),
        TaskState::Running => running(row, now),
        TaskState::Completed | TaskState::TimedOut | TaskState::Cancelled | TaskState::Failed => done(row),
    };
    let ahead = (row.state == TaskState::Queued).then_some(facts.ahead);
    Why { state: row.state, code, summary, next, ahead }
}

type Answer = (WhyCode, String, Option<String>);

fn held(facts: &WaitingFacts, now: Now) -> Option<Answer> {
    let seconds = |ms: i64| (ms.max(0) + 999) / 1000;
    Some(match facts.hold? {
        Hold::NotBefore(at) => {
            let wait = seconds(at.ms_since(now.wall));
            (WhyCode::NotBefore, format!("it waits until {at} ({wait} s), as its `not_before` says"), None)
        }
        Hold::Backoff(at) => {
            let wait = seconds(at.ms_since(now.at));
            let attempt = facts.row.attempt;
            (WhyCode::Backoff, format!("attempt {attempt} failed; it is tried again in {wait} s"), None)
        }
        Hold::Session => {
            let session = facts.row.session.as_ref().map_or("its session", |session| session.as_str());
            let holder = facts.session_holder.map_or_else(|| "another task".into(), |task| task.to_string());
            (
                WhyCode::SessionBusy,
                format!("{holder} goes first in session {session}: one task at a time may change a session"),
                Some(format!("cw get {holder}")),
            )
        }
    })
}

fn closed(facts: &WaitingFacts) -> Option<Answer> {
    let repo = &facts.row.repo;
    if facts.is_paused {
        let next = format!("cw repos resume {repo}");
        return Some((WhyCode::RepoPaused, format!("the repo {repo} is paused"), Some(next)));
    }
    let most = facts.max_running.filter(|most| facts.running >= u64::from(*most))?;
    let summary = format!("{repo} runs as many tasks as it may: {most}");
    Some((WhyCode::RepoFull, summary, Some(format!("cw repos set {repo} --max-running N"))))
}

fn unserved(facts: &WaitingFacts, workers: &[WorkerView]) -> Answer {
    let repo = &facts.row.repo;
    let serving: Vec<_> =
        workers.iter().filter(|worker| worker.state == WorkerState::Ready && worker.repos.contains(repo)).collect();
    if serving.is_empty() {
        return no_worker(facts, workers);
    }
    let fitting: Vec<_> = serving.iter().filter(|worker| offer(worker).fits(&facts.needs)).collect();
    if fitting.is_empty() {
        return none_fits(facts, &serving);
    }
    if fitting.iter().all(|worker| worker.running >= worker.slots) {
        let slots: u32 = fitting.iter().map(|worker| worker.slots).sum();
        let summary = format!(
            "the {} worker(s) that could run it are full ({slots} slots); {} task(s) go first",
            fitting.len(),
            facts.ahead
        );
        return (WhyCode::WorkersBusy, summary, Some("start another worker, or wait".into()));
    }
    (WhyCode::Next, format!("a worker can take it; {}", ahead(facts)), None)
}

fn ahead(facts: &WaitingFacts) -> String {
    match facts.ahead {
        0 => "it is next".into(),
        1 => "1 task goes first".into(),
        more => format!("{more} tasks go first"),
    }
}

fn no_worker(facts: &WaitingFacts, workers: &[WorkerView]) -> Answer {
    let repo = &facts.row.repo;
    let known = workers.iter().filter(|worker| worker.repos.contains(repo)).max_by_key(|worker| worker.last_seen_at);
    let summary = match known {
        Some(gone) => {
            let why = gone.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("no worker serves the repo {repo}; the last one, {}, is {}{why}", gone.id, gone.state.as_str())
        }
        None => format!("no worker serves the repo {repo}"),
    };
    (
        WhyCode::NoWorker,
        summary,
        Some(format!(
            "cw keys create --role worker --repo {repo} --save FILE; CW_REPO={repo} CW_KEY_FILE=FILE cw-worker run"
        )),
    )
}

fn none_fits(facts: &WaitingFacts, serving: &[&WorkerView]) -> Answer {
    let closest = serving.iter().map(|worker| offer(worker).lacks(&facts.needs).join(", ")).min_by_key(String::len);
    let summary = format!(
        "no worker that serves {} can run it: what is missing is {}",
        facts.row.repo,
        closest.unwrap_or_default(),
    );
    (
        WhyCode::NoFittingWorker,
        summary,
        Some("`cw workers` shows what each one runs; start one that offers what is missing".into()),
    )
}

fn offer(view: &WorkerView) -> WorkerInfo {
    WorkerInfo {
        id: view.id,
        version: view.version.clone(),
        runs: view.runs.clone(),
        confinement: view.confinement.clone(),
        slots: view.slots,
        state: view.state,
        why: None,
    }
}

fn running(row: &TaskRow, now: Now) -> Answer {
    let worker = row.worker.map_or_else(|| "a worker".into(), |worker| worker.to_string());
    let since = row.started_at.map_or(0, |at| now.at.ms_since(at).max(0) / 1000);
    if row.cancel_requested_at.is_some() {
        let summary = format!("{worker} was told to stop it and has not reported yet");
        return (WhyCode::Stopping, summary, None);
    }
    let summary = format!("{worker} has run attempt {} for {since} s", row.attempt);
    (WhyCode::Running, summary, Some(format!("cw logs -f {}", row.id)))
}

fn done(row: &TaskRow) -> Answer {
    let reason = row.reason.unwrap_or(Reason::LeaseLost);
    let next = row.started_at.map(|_| format!("cw logs {}", row.id));
    (WhyCode::Done, sentence(reason).into(), next)
}

const fn sentence(reason: Reason) -> &'static str {
    match reason {
        Reason::Ok => "its process left with exit code 0",
        Reason::Timeout => "it ran longer than its timeout allows",
        Reason::IdleTimeout => "it wrote nothing for longer than its idle timeout allows",
        Reason::Cancelled => "a client cancelled it",
        Reason::ExitNonzero => "its process left with an exit code other than 0",
        Reason::Signalled => "a signal ended its process",
        Reason::Oom => "it used more memory than it may",
        Reason::CpuLimit => "it used more processor time than it may",
        Reason::DiskLimit => "it filled more disk than it may",
        Reason::OutputLimit => "it wrote more output than it may",
        Reason::Quota => "its files are over the session's quota",
        Reason::Budget => "it spent what it may spend",
        Reason::Conflict => "a client changed the same files meanwhile",
        Reason::PushFailed => "its files could not be kept",
        Reason::SetupFailed => "no worker could prepare it",
        Reason::ConfinementUnavailable => "no worker could confine it as it must be",
        Reason::PolicyDenied => "the operator's policy forbids it",
        Reason::AgentError => "its agent failed",
        Reason::LeaseLost => "its workers vanished without a report, as often as it may be tried",
    }
}
