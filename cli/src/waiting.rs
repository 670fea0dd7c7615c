//! Why a task has not started. It is asked for beside the command's own work: no answer is no failure.

use std::time::Duration;

use protocol::why::{Why, WhyCode};
use protocol::{TaskId, TaskState};

use crate::client::Client;
use crate::output::Output;

const TIMEOUT: Duration = Duration::from_secs(1);

/// Why the task waits; nothing when it does not, or when nobody says so in time.
pub(crate) async fn ask(client: &Client, id: TaskId) -> Option<Why> {
    let answer = tokio::time::timeout(TIMEOUT, client.why(id)).await.ok()?.ok()?;
    (answer.state == TaskState::Queued).then(|| Why::clone(&answer))
}

/// Says why it waits, and what to do about it.
pub(crate) fn say(out: &mut Output, who: &str, why: &Why) {
    out.talk(&format!("{who} waits: {}", why.summary));
    if let Some(next) = &why.next {
        out.talk(&format!("  next: {next}"));
    }
}

/// Whether the task waits until a person does something.
pub(crate) const fn needs_a_person(why: &Why) -> bool {
    matches!(why.code, WhyCode::RepoPaused | WhyCode::NoWorker | WhyCode::NoFittingWorker)
}

/// Whether the task waits for something else than its turn.
pub(crate) const fn is_worth_saying(why: &Why) -> bool {
    needs_a_person(why) || matches!(why.code, WhyCode::NotBefore | WhyCode::SessionBusy | WhyCode::RepoFull)
}
