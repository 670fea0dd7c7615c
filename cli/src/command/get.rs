//! `cw get`: one task, what was submitted and what came of it.

use std::fmt::Display;

use protocol::why::Why;
use protocol::{Run, TaskState, TaskView, Timestamp};

use super::Context;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
use crate::table::{age, cut, took};
use crate::task_id;
use crate::terminal::{harmless_line, harmless_text};
use crate::waiting;
use crate::{clock, ending};

/// What `get` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, by id or a part of one
    #[arg(value_name = "TASK")]
    task: String,
    /// End with the task's own exit code (0 while it is not done)
    #[arg(long)]
    exit_code: bool,
}

/// Shows the task. That it failed is data here: the exit code is 0.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let id = task_id::find(&client, &args.task).await?;
    let task = client.task(id).await?;
    if context.out.json() {
        context.out.value(&task)?;
    } else if context.out.quiet() {
        context.out.data(task.row.state.as_str())?;
    } else {
        let why = if task.row.state == TaskState::Queued { waiting::ask(&client, id).await } else { None };
        let text = describe(&task, why.as_ref(), clock::now(), &context.out);
        context.out.data(&text)?;
    }
    Ok(if args.exit_code { Exit::of_process(&task) } else { Exit::DONE })
}

/// Rows of a name and a value.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push_str(&format!("{name:<10} {}\n", harmless_line(&value.to_string())));
    }

    fn add_given(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

fn describe(task: &TaskView, why: Option<&Why>, now: Timestamp, out: &Output) -> String {
    let row = &task.row;
    let mut rows = Rows::default();
    rows.add("task", row.id);
    rows.add("repo", &row.repo);
    rows.add("state", ending::ending(task));
    rows.add_given("why", why.map(|why| &why.summary));
    rows.add_given("next", why.and_then(|why| why.next.as_ref()));
    rows.add("run", summary(&task.spec.run));
    rows.add("priority", row.priority.as_str());
    rows.add("attempt", format!("{} of {}", row.attempt, row.max_attempts));
    rows.add("timeout", whole(task.spec.timeout_s()));
    add_times(&mut rows, task, now);
    rows.add_given("exit code", task.result.as_ref().and_then(|result| result.exit_code));
    let artifacts = task.result.as_ref().map_or(0, |result| result.artifacts.len());
    rows.add_given("artifacts", (artifacts > 0).then(|| format!("{artifacts} (cw artifacts {})", row.id)));
    let result = task.result.as_ref();
    rows.add_given("used", result.and_then(|result| result.usage.as_ref()).map(ending::used));
    rows.add_given("confined", result.and_then(|result| result.confinement.as_ref()));
    rows.add_given("worker", row.worker);
    rows.add_given("session", row.session.as_ref());
    rows.add_given("labels", Some(labels(&row.labels)).filter(|labels| !labels.is_empty()));
    rows.0 + &written(task, out.stdout_is_terminal())
}

fn add_times(rows: &mut Rows, task: &TaskView, now: Timestamp) {
    let row = &task.row;
    let ago = |at: Timestamp| format!("{at} ({} ago)", age(now, at));
    rows.add("created", ago(row.created_at));
    rows.add_given("not before", task.spec.not_before);
    rows.add_given("started", row.started_at.map(ago));
    if let Some(finished_at) = row.finished_at {
        let lasted = row.started_at.map(|started_at| format!(", after {}", took(finished_at.ms_since(started_at))));
        rows.add("finished", format!("{finished_at} ({} ago{})", age(now, finished_at), lasted.unwrap_or_default()));
    }
    let asked_at = row.cancel_requested_at.filter(|_| !row.state.is_done());
    rows.add_given("cancel", asked_at.map(|at| format!("asked for {} ago", age(now, at))));
}

/// Seconds as people type them: `90s`, `5m`, `1h`.
fn whole(seconds: u32) -> String {
    match seconds {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// What the task wrote, as far as it stands in the result.
fn written(task: &TaskView, is_terminal: bool) -> String {
    let Some(result) = &task.result else { return String::new() };
    let mut text = String::new();
    let streams = [
        ("stdout", &result.stdout, result.dropped_bytes.stdout),
        ("stderr", &result.stderr, result.dropped_bytes.stderr),
    ];
    for (name, content, dropped) in streams.into_iter().filter(|(_, content, _)| !content.is_empty()) {
        let note = if dropped > 0 { format!(", {dropped} bytes left out") } else { String::new() };
        let content = if is_terminal { harmless_text(content) } else { content.clone() };
        text.push_str(&format!("--- {name}{note}\n{content}"));
        if !content.ends_with('\n') {
            text.push('\n');
        }
    }
    if let Some(value) = &result.return_value {
        text.push_str(&format!("--- return value\n{}\n", harmless_text(&value.to_string())));
    }
    text
}

/// Labels as they are typed.
pub(super) fn labels(labels: &std::collections::BTreeMap<String, String>) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// What is run, in a few words.
pub(super) fn summary(run: &Run) -> String {
    const WIDTH: usize = 200;
    match run {
        Run::Command { argv } => cut(&format!("command: {}", argv.join(" ")), WIDTH),
        Run::Agent { prompt, .. } => cut(&format!("{}: {prompt}", run.word()), WIDTH),
        Run::Python { code } | Run::Javascript { code } | Run::Shell { code } => {
            let first = code.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let colon = if first.is_empty() { "" } else { ": " };
            cut(&format!("{}{colon}{}", run.word(), first.trim()), WIDTH)
        }
    }
}
