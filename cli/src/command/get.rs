//! `cw get`: one task, what was submitted and what came of it.

use protocol::{Run, TaskView, Timestamp};

use super::Context;
use crate::clock;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
use crate::table::{age, cut, took};
use crate::task_id;
use crate::terminal::{harmless_line, harmless_text};

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
        let text = describe(&task, clock::now(), &context.out);
        context.out.data(&text)?;
    }
    Ok(if args.exit_code { Exit::of_process(&task) } else { Exit::DONE })
}

fn describe(task: &TaskView, now: Timestamp, out: &Output) -> String {
    let row = &task.row;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| text.push_str(&format!("{name:<9} {}\n", harmless_line(value)));
    field("task", &row.id.to_string());
    field("repo", row.repo.as_str());
    field("state", &super::wait::ending(task));
    field("run", &summary(&task.spec.run));
    field("priority", row.priority.as_str());
    field("attempt", &format!("{} of {}", row.attempt, row.max_attempts));
    field("created", &format!("{} ({} ago)", row.created_at, age(now, row.created_at)));
    if let Some(started_at) = row.started_at {
        field("started", &format!("{started_at} ({} ago)", age(now, started_at)));
    }
    if let Some(finished_at) = row.finished_at {
        let lasted = row
            .started_at
            .map_or_else(String::new, |started_at| format!(", after {}", took(finished_at.ms_since(started_at))));
        field("finished", &format!("{finished_at} ({} ago{lasted})", age(now, finished_at)));
    }
    if let Some(asked_at) = row.cancel_requested_at.filter(|_| !row.state.is_done()) {
        field("cancel", &format!("asked for {} ago", age(now, asked_at)));
    }
    if let Some(worker) = row.worker {
        field("worker", &worker.to_string());
    }
    if let Some(session) = &row.session {
        field("session", session.as_str());
    }
    if !row.labels.is_empty() {
        field("labels", &labels(&row.labels));
    }
    text.push_str(&written(task, out.stdout_is_terminal()));
    text
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
