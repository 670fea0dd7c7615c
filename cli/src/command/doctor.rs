//! `cw doctor`: checks everything that `cw` needs, in the order in which it is needed, and says what to do about what
//! is wrong. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol::admin::{RepoView, WorkerView};
use protocol::why::Why;
use protocol::{PROTOCOL, RepoName, TaskId, TaskState, Timestamp, WorkerState};
use serde::Serialize;

use super::Context;
use crate::client::{Client, PageQuery};
use crate::clock;
use crate::config::Settings;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::key_file;
use crate::output::Mark;
use crate::recipe;
use crate::table::span;
use crate::waiting;

const MAX_CLOCK_DIFFERENCE_MS: i64 = 5000;
/// How many waiting tasks of a repo are looked at, which is one page.
const NEWEST: u32 = 500;

/// What `doctor` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// What was found in one place.
#[derive(Debug, Clone, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Wrong,
    /// It could not be looked at, or is worth knowing.
    Note,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, message: message.into(), next: None, exit: Exit::DONE }
    }

    fn note(name: &'static str, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, ..Self::ok(name, message) }
    }

    fn wrong(name: &'static str, failure: Failure) -> Self {
        let Failure { exit, message, next, .. } = failure;
        Self { name, verdict: Verdict::Wrong, message, next, exit }
    }
}

/// Checks everything. The exit code is that of the first thing that is wrong.
pub(crate) async fn run(_: Args, context: &mut Context) -> Result<Exit> {
    let mut checks = vec![Check::ok("cw", format!("version {}, protocol {PROTOCOL}", env!("CARGO_PKG_VERSION")))];
    match context.settings.clone() {
        Err(failure) => checks.push(Check::wrong("config", failure)),
        Ok(settings) => {
            checks.push(check_config(&settings));
            checks.extend(check_key_file(&settings));
            checks.extend(check_coordinator(&settings).await);
        }
    }
    report(context, &checks)?;
    let wrong = checks.iter().find(|check| check.verdict == Verdict::Wrong);
    Ok(wrong.map_or(Exit::DONE, |check| if check.exit == Exit::DONE { Exit::FAILED } else { check.exit }))
}

fn report(context: &mut Context, checks: &[Check]) -> Result<()> {
    let out = &mut context.out;
    let is_well = checks.iter().all(|check| check.verdict != Verdict::Wrong);
    if out.json() {
        return out.value(&serde_json::json!({"ok": is_well, "checks": checks}));
    }
    for check in checks {
        let mark = match check.verdict {
            Verdict::Ok => out.mark(Mark::Good, "✓"),
            Verdict::Wrong => out.mark(Mark::Bad, "✗"),
            Verdict::Note => out.mark(Mark::Faint, "·"),
        };
        let message = crate::terminal::harmless_line(&check.message);
        out.data(&format!("{mark} {:<11} {message}", check.name))?;
        if let Some(next) = &check.next {
            out.data(&format!("              next: {}", crate::terminal::harmless_line(next)))?;
        }
    }
    Ok(())
}

fn check_config(settings: &Settings) -> Check {
    match &settings.config_file {
        Some(path) => Check::ok("config", path.display().to_string()),
        None => Check::ok("config", "no config file; the defaults are in force (`cw init` writes one)"),
    }
}

fn check_key_file(settings: &Settings) -> Vec<Check> {
    let path = settings.key_file.display();
    match key_file::read(&settings.key_file, settings.key_file_is_named) {
        Err(failure) => return vec![Check::wrong("key file", failure)],
        Ok(None) => {
            let failure = Failure::new(Exit::AUTH, "no_key", format!("{path} is not there"))
                .next("a coordinator on this machine writes it at its first start; else name a key by CW_KEY_FILE");
            return vec![Check::wrong("key file", failure)];
        }
        Ok(Some(_)) => {}
    }
    vec![match key_file::exposure(&settings.key_file) {
        None => Check::ok("key file", path.to_string()),
        Some(exposure) => Check::wrong("key file", Failure::new(Exit::AUTH, "exposed_key", exposure)),
    }]
}

async fn check_coordinator(settings: &Settings) -> Vec<Check> {
    let client = match Client::new(settings) {
        Ok(client) => client,
        // That the key cannot be read was said already.
        Err(failure) if failure.code == "no_key" => return Vec::new(),
        Err(failure) => return vec![Check::wrong("coordinator", failure)],
    };
    let mut checks = Vec::new();
    match client.version().await {
        Err(failure) => return vec![Check::wrong("coordinator", failure)],
        Ok(version) if !(version.oldest_protocol..=version.protocol).contains(&PROTOCOL) => {
            let message =
                format!("it speaks protocol {} to {}, cw {PROTOCOL}", version.oldest_protocol, version.protocol);
            let failure = Failure::new(Exit::UNREACHABLE, "protocol_unsupported", message);
            checks.push(Check::wrong(
                "coordinator",
                failure.next("install `cw` and the coordinator in the same version"),
            ));
        }
        Ok(version) => checks.push(Check::ok(
            "coordinator",
            format!("{}, version {}, protocol {}", settings.coordinator, version.version, version.protocol),
        )),
    }
    match client.ready().await {
        Err(failure) => checks.push(Check::wrong("ready", failure)),
        Ok(date) => {
            checks.extend([Check::ok("ready", "it takes requests"), check_clock(date.as_deref(), clock::now())])
        }
    }
    checks.extend(check_access(&client).await);
    checks
}

fn check_clock(date: Option<&str>, now: Timestamp) -> Check {
    let theirs = date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let Some(theirs) = theirs else { return Check::note("clock", "the coordinator does not say its time") };
    // Its time has no parts of a second.
    let difference = now.ms_since(Timestamp::from_ms(theirs.as_millisecond()));
    if difference.abs() <= MAX_CLOCK_DIFFERENCE_MS {
        return Check::ok("clock", "the coordinator's and this machine's agree");
    }
    let message = format!("the coordinator's and this machine's differ by {}", span(difference.abs()));
    Check::wrong(
        "clock",
        Failure::new(Exit::FAILED, "clock", message).next("set one of them: --delay counts by this one"),
    )
}

/// What the key allows, found out by asking for what each role may see.
async fn check_access(client: &Client) -> Vec<Check> {
    let refused = match client.keys(1).await {
        Ok(_) => return [vec![Check::ok("key", "accepted, role admin")], check_workers(client).await].concat(),
        Err(failure) => failure,
    };
    if refused.code != "wrong_role" {
        return vec![Check::wrong("key", refused)];
    }
    match client.tasks(&PageQuery { limit: 1, ..PageQuery::default() }).await {
        Ok(_) => {
            vec![Check::ok("key", "accepted, role client"), Check::note("workers", "only an admin's key shows them")]
        }
        Err(failure) if failure.code == "wrong_role" => {
            let failure =
                Failure { message: "accepted, role worker: it cannot send or read tasks".to_owned(), ..failure };
            vec![Check::wrong("key", failure)]
        }
        Err(failure) => vec![Check::wrong("key", failure)],
    }
}

async fn check_workers(client: &Client) -> Vec<Check> {
    match (client.workers().await, client.repos().await) {
        (Ok(workers), Ok(repos)) => {
            let blocked = find_blocked(client, &repos.items).await;
            judge_workers(&workers.items, &repos.items, &Waiting { blocked, key_file: client.key_file() })
        }
        (Err(failure), _) | (_, Err(failure)) => vec![Check::wrong("workers", failure)],
    }
}

/// What is known of the tasks that wait.
struct Waiting<'client> {
    /// Why a task of that repo waits that no worker can run.
    blocked: BTreeMap<RepoName, Why>,
    key_file: &'client Path,
}

/// Asks for each repo why its newest and its oldest waiting task wait.
async fn find_blocked(client: &Client, repos: &[RepoView]) -> BTreeMap<RepoName, Why> {
    let mut blocked = BTreeMap::new();
    for repo in repos.iter().filter(|repo| repo.queued > 0 && !repo.paused) {
        let filters = vec![("repo", repo.repo.to_string()), ("state", TaskState::Queued.as_str().to_owned())];
        let Ok(page) = client.tasks(&PageQuery { filters, limit: NEWEST, cursor: None }).await else { continue };
        let ends: BTreeSet<TaskId> =
            page.items.first().into_iter().chain(page.items.last()).map(|task| task.row.id).collect();
        for id in ends {
            if let Some(why) = waiting::ask(client, id).await.filter(waiting::needs_a_person) {
                blocked.insert(repo.repo.clone(), why);
            }
        }
    }
    blocked
}

fn judge_workers(workers: &[WorkerView], repos: &[RepoView], waiting: &Waiting<'_>) -> Vec<Check> {
    let ready: Vec<&WorkerView> = workers.iter().filter(|worker| worker.state == WorkerState::Ready).collect();
    if ready.is_empty() {
        let repo = repos.iter().find(|repo| repo.queued > 0).map_or("REPO", |repo| repo.repo.as_str());
        let failure = Failure::new(Exit::FAILED, "no_worker", "none is ready, so no task starts");
        return vec![Check::wrong("workers", failure.next(recipe::worker(repo, waiting.key_file)))];
    }
    let mut checks = vec![Check::ok("workers", format!("{} ready", ready.len()))];
    checks.extend(repos.iter().map(|repo| judge_repo(repo, &ready, waiting)));
    checks
}

fn judge_repo(repo: &RepoView, ready: &[&WorkerView], waiting: &Waiting<'_>) -> Check {
    let serving = ready.iter().filter(|worker| worker.repos.contains(&repo.repo)).count();
    let (name, queued) = (&repo.repo, repo.queued);
    if repo.paused {
        return Check::note("repo", format!("{name} is paused; waiting tasks {queued}"));
    }
    match (serving, queued, waiting.blocked.get(name)) {
        (0, 0, _) => Check::note("repo", format!("{name} has no ready worker; no task waits")),
        (0, queued, _) => {
            let message = format!("{name} has no ready worker; waiting tasks {queued}");
            let failure = Failure::new(Exit::FAILED, "no_worker", message);
            Check::wrong("repo", failure.next(recipe::worker(name.as_str(), waiting.key_file)))
        }
        (_, queued, Some(why)) => {
            let message = format!("{name}: {}; waiting tasks {queued}", why.summary);
            Check::wrong("repo", Failure { next: why.next.clone(), ..Failure::new(Exit::FAILED, "no_worker", message) })
        }
        (serving, queued, None) => {
            Check::ok("repo", format!("{name}: ready workers {serving}, waiting tasks {queued}"))
        }
    }
}

#[cfg(test)]
mod tests;
