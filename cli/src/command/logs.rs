//! `cw logs`: what tasks wrote, so far or as they write it.

use protocol::{Stream, TaskId, TaskState, TaskView};

use super::Context;
use crate::client::{Client, Received};
use crate::ending::conclude;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;
use crate::task_id::{self, Failures};
use crate::terminal::Harmless;
use crate::watch::{Plan, Show, Watched, watch};

const DOWNLOADS: u32 = 5;

/// What `logs` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks, by id or a part of one; the lines of several begin with `[id] `
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<String>,
    /// Go on until the tasks are done, and end by how they ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines of what is there already
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// Only this stream
    #[arg(long, value_name = "STREAM", value_parser = ["stdout", "stderr"])]
    stream: Option<String>,
    /// With --follow: end with the task's own exit code
    #[arg(long, requires = "follow")]
    exit_code: bool,
}

impl Args {
    fn only(&self) -> Option<Stream> {
        match self.stream.as_deref() {
            Some("stdout") => Some(Stream::Stdout),
            Some(_) => Some(Stream::Stderr),
            None => None,
        }
    }
}

/// Shows what the tasks wrote.
pub(crate) async fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let client = context.connect()?;
    let mut failures = Failures::default();
    let tasks = task_id::fetch_all(&client, &mut context.out, &args.tasks, &mut failures).await?;
    show(&client, &mut context.out, &args, &tasks).await.map(|exit| failures.exit_or(exit))
}

async fn show(client: &Client, out: &mut Output, args: &Args, tasks: &[Received<TaskView>]) -> Result<Exit> {
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.row.id).collect();
    if args.follow {
        return follow(client, out, args, ids).await;
    }
    for task in tasks.iter().filter(|task| task.row.state == TaskState::Queued) {
        let id = task.row.id;
        out.talk(&format!("{id} has not started; `cw why {id}` says why"));
    }
    // The events of a done task end, and they alone know in which order both streams were written.
    let are_done = tasks.iter().all(|task| task.row.state.is_done());
    if are_done && out.mixes_streams() && !out.json() {
        return match watch(client, out, plan(args, ids, Show::Output)).await? {
            Watched::Left(failure) => Err(failure),
            Watched::Done(_) => Ok(Exit::DONE),
        };
    }
    copy_all(client, out, args, &ids).await
}

/// What is there now, as it was written, one stream after the other.
async fn copy_all(client: &Client, out: &mut Output, args: &Args, ids: &[TaskId]) -> Result<Exit> {
    for id in ids {
        let prefix = if ids.len() > 1 { format!("[{id}] ") } else { String::new() };
        let streams = args.only().map_or_else(|| vec![Stream::Stdout, Stream::Stderr], |only| vec![only]);
        for stream in streams {
            print(client, out, *id, stream, Part { lines: args.lines, prefix: &prefix }).await?;
        }
    }
    Ok(Exit::DONE)
}

fn plan(args: &Args, tasks: Vec<TaskId>, show: Show) -> Plan {
    Plan { tasks, show, stream: args.only(), lines: args.lines, timeout: None, is_explained: false }
}

async fn follow(client: &Client, out: &mut Output, args: &Args, tasks: Vec<TaskId>) -> Result<Exit> {
    let show = if out.json() { Show::Events } else { Show::Output };
    let done = match watch(client, out, plan(args, tasks, show)).await? {
        Watched::Left(failure) => return Err(failure),
        Watched::Done(done) => done,
    };
    for task in &done {
        if out.json() {
            out.value(task)?;
        }
        conclude(out, task);
    }
    Ok(super::wait::exit_of(&done, args.exit_code))
}

/// Prints everything that a task wrote, each stream to its own.
pub(crate) async fn print_all(client: &Client, out: &mut Output, task: &TaskView) -> Result<()> {
    for stream in [Stream::Stdout, Stream::Stderr] {
        print(client, out, task.row.id, stream, Part { lines: None, prefix: "" }).await?;
    }
    Ok(())
}

/// What of a stream is printed.
#[derive(Debug, Clone, Copy)]
struct Part<'text> {
    lines: Option<usize>,
    prefix: &'text str,
}

async fn print(client: &Client, out: &mut Output, id: TaskId, stream: Stream, part: Part<'_>) -> Result<()> {
    let mut harmless = Harmless::default();
    let is_whole = part.lines.is_none() && part.prefix.is_empty() && !out.json();
    if is_whole {
        return copy(client, id, stream, |bytes| out.task_output(stream, bytes, &mut harmless)).await;
    }
    let mut text = Vec::new();
    copy(client, id, stream, |bytes| {
        text.extend_from_slice(bytes);
        Ok(())
    })
    .await?;
    let text = last_lines(&text, part.lines);
    if out.json() {
        let text = String::from_utf8_lossy(text);
        return out.value(&serde_json::json!({"task": id, "stream": stream, "text": text}));
    }
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let mut line = [part.prefix.as_bytes(), line].concat();
        if !part.prefix.is_empty() && !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        out.task_output(stream, &line, &mut harmless)?;
    }
    Ok(())
}

/// Reads a stream from its beginning. A connection that breaks is made again, and what was read is skipped.
async fn copy(client: &Client, id: TaskId, stream: Stream, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut done = 0;
    for _ in 0..DOWNLOADS {
        let mut answer = client.output(id, stream).await?;
        let mut place = 0;
        loop {
            match answer.chunk().await {
                Ok(Some(bytes)) => {
                    let skip = (done - place).min(bytes.len());
                    write(&bytes[skip..])?;
                    place += bytes.len();
                    done = done.max(place);
                }
                Ok(None) => return Ok(()),
                Err(_) => break,
            }
        }
    }
    Err(client.unreachable("the output breaks off again and again"))
}

/// The end of a text, from its nth last line on.
fn last_lines(text: &[u8], lines: Option<usize>) -> &[u8] {
    let Some(lines) = lines else { return text };
    let ends = text.strip_suffix(b"\n").unwrap_or(text).iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match lines.checked_sub(1) {
        None => &[],
        Some(before) => ends.map(|(place, _)| place).nth(before).map_or(text, |place| &text[place + 1..]),
    }
}

#[cfg(test)]
mod tests;
