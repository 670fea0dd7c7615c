//! What of the updates is printed, and how: streams kept apart, lines of several tasks prefixed, the live line.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use protocol::event::StateEvent;
use protocol::{Stream, TaskId, TaskState};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{Plan, Show};
use crate::failure::Result;
use crate::follow::{Body, Update};
use crate::output::Output;
use crate::table::span;
use crate::terminal::Harmless;

/// Silence after which what was there already has been read, and everything else is new.
const CAUGHT_UP_AFTER: Duration = Duration::from_millis(200);
const MAX_REMARK_CHARS: usize = 300;

/// One task that is followed.
struct Followed {
    state: TaskState,
    has_started: bool,
    since: Instant,
    is_lost: bool,
    asked_why: bool,
    streams: [Line; 2],
}

/// One stream of a task: what is needed to print it whole.
#[derive(Default)]
struct Line {
    harmless: Harmless,
    /// A line that has not ended, held back where lines are prefixed or counted.
    partial: Vec<u8>,
}

/// The last lines of what was there already.
struct Backlog {
    most: usize,
    lines: VecDeque<(TaskId, Stream, Vec<u8>)>,
}

/// Prints updates.
pub(super) struct Printer {
    show: Show,
    only: Option<Stream>,
    is_prefixed: bool,
    tasks: BTreeMap<TaskId, Followed>,
    started: Instant,
    last_update: Instant,
    /// The last lines of what was there already, until everything else is new.
    backlog: Option<Backlog>,
}

impl Printer {
    pub(super) fn new(plan: &Plan) -> Self {
        let now = Instant::now();
        let followed = || Followed {
            state: TaskState::Queued,
            has_started: false,
            since: now,
            is_lost: false,
            asked_why: plan.is_explained,
            streams: [Line::default(), Line::default()],
        };
        Self {
            show: plan.show,
            only: plan.stream,
            is_prefixed: plan.tasks.len() > 1,
            tasks: plan.tasks.iter().map(|id| (*id, followed())).collect(),
            started: now,
            last_update: now,
            backlog: plan.lines.map(|most| Backlog { most, lines: VecDeque::new() }),
        }
    }

    /// Prints one update.
    pub(super) fn take(&mut self, out: &mut Output, id: TaskId, update: Update) -> Result<()> {
        self.last_update = Instant::now();
        match update {
            Update::Lost(why) => self.lose(out, id, &why),
            Update::Back => self.find_again(out, id),
            Update::Event { number, name, body, data } => {
                if self.show == Show::Events {
                    out.value(&event_line(id, number, &name, data.clone()))?;
                }
                match body {
                    Body::State(event) => self.take_state(out, id, &event),
                    Body::Output { stream, text } => self.take_output(out, id, stream, text.as_bytes())?,
                    Body::Other => self.remark(out, id, &name, &data),
                }
            }
        }
        Ok(())
    }

    fn lose(&mut self, out: &mut Output, id: TaskId, why: &str) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if !std::mem::replace(&mut task.is_lost, true) {
            out.talk(&format!("{why}; trying again"));
        }
    }

    fn find_again(&mut self, out: &mut Output, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if std::mem::take(&mut task.is_lost) {
            out.talk(&format!("the coordinator is back; going on with {id}"));
        }
    }

    fn take_state(&mut self, out: &mut Output, id: TaskId, event: &StateEvent) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.state = event.state;
        task.has_started |= event.state != TaskState::Queued || event.attempt > 0;
        task.since = Instant::now();
        if event.state == TaskState::Queued && event.attempt > 0 {
            let reason = event.reason.map_or("given back", |reason| reason.as_str());
            out.talk(&format!("{id}: attempt {} ended ({reason}); it is tried again", event.attempt));
        }
    }

    fn take_output(&mut self, out: &mut Output, id: TaskId, stream: Stream, bytes: &[u8]) -> Result<()> {
        if self.show != Show::Output || self.only.is_some_and(|only| only != stream) {
            return Ok(());
        }
        if !self.is_prefixed && self.backlog.is_none() {
            return self.print(out, id, stream, bytes);
        }
        let Some(task) = self.tasks.get_mut(&id) else { return Ok(()) };
        let line = &mut task.streams[stream as usize];
        line.partial.extend_from_slice(bytes);
        let Some(end) = line.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = line.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut line.partial, rest);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            self.print_line(out, id, stream, line)?;
        }
        Ok(())
    }

    fn print_line(&mut self, out: &mut Output, id: TaskId, stream: Stream, line: &[u8]) -> Result<()> {
        let line = if self.is_prefixed { [format!("[{id}] ").as_bytes(), line].concat() } else { line.to_vec() };
        let Some(backlog) = &mut self.backlog else { return self.print(out, id, stream, &line) };
        backlog.lines.push_back((id, stream, line));
        if backlog.lines.len() > backlog.most {
            backlog.lines.pop_front();
        }
        Ok(())
    }

    fn print(&mut self, out: &mut Output, id: TaskId, stream: Stream, bytes: &[u8]) -> Result<()> {
        let Some(task) = self.tasks.get_mut(&id) else { return Ok(()) };
        out.task_output(stream, bytes, &mut task.streams[stream as usize].harmless)
    }

    /// What an agent or a program says about itself.
    fn remark(&mut self, out: &mut Output, id: TaskId, name: &str, data: &Value) {
        if self.show != Show::Output || name == "usage" {
            return;
        }
        let text = ["text", "message", "detail"].iter().find_map(|field| data.get(field).and_then(Value::as_str));
        let text = text.map_or_else(|| data.to_string(), str::to_owned);
        let text: String = text.chars().take(MAX_REMARK_CHARS).collect();
        let prefix = if self.is_prefixed { format!("[{id}] ") } else { String::new() };
        out.talk(&format!("{prefix}{name}: {text}"));
    }

    /// Shows what is going on while nothing comes.
    pub(super) fn tick(&mut self, out: &mut Output) -> Result<()> {
        if self.backlog.is_some() && self.last_update.elapsed() >= CAUGHT_UP_AFTER {
            self.show_backlog(out)?;
        }
        let open: Vec<_> = self.tasks.iter().filter(|(_, task)| !task.state.is_done()).collect();
        let elapsed = span(i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX));
        match open.as_slice() {
            [] => {}
            [(id, task)] => out.live(&format!("{id} {} · {elapsed}", task.state)),
            several => out.live(&format!("{} of {} tasks not done · {elapsed}", several.len(), self.tasks.len())),
        }
        Ok(())
    }

    /// Prints the last lines of what was there; from now on lines are printed as they come.
    fn show_backlog(&mut self, out: &mut Output) -> Result<()> {
        for (id, stream, line) in self.backlog.take().map(|backlog| backlog.lines).unwrap_or_default() {
            self.print(out, id, stream, &line)?;
        }
        Ok(())
    }

    /// Prints what was held back.
    pub(super) fn finish(&mut self, out: &mut Output) -> Result<()> {
        let ids: Vec<_> = self.tasks.keys().copied().collect();
        for (id, stream) in ids.iter().flat_map(|id| [(*id, Stream::Stdout), (*id, Stream::Stderr)]) {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            let mut rest = std::mem::take(&mut task.streams[stream as usize].partial);
            if rest.is_empty() {
                continue;
            }
            if self.is_prefixed {
                rest.push(b'\n');
            }
            self.print_line(out, id, stream, &rest)?;
        }
        self.show_backlog(out)
    }

    /// Whether a task must be named to be known.
    pub(super) const fn has_several(&self) -> bool {
        self.is_prefixed
    }

    /// A task that never started, if none of them did.
    pub(super) fn unstarted(&self) -> Option<TaskId> {
        let none_started = self.tasks.values().all(|task| !task.has_started);
        self.tasks.keys().next().copied().filter(|_| none_started)
    }

    /// The tasks that have waited that long; each is named once.
    pub(super) fn waiting_longer_than(&mut self, patience: Duration) -> Vec<TaskId> {
        let waits = |task: &Followed| {
            task.state == TaskState::Queued && !task.is_lost && !task.asked_why && task.since.elapsed() > patience
        };
        let waiting = self.tasks.iter_mut().filter(|(_, task)| waits(task));
        waiting
            .map(|(id, task)| {
                task.asked_why = true;
                *id
            })
            .collect()
    }
}

/// An event as one line of JSON: its number, its task, its type, and what it carries.
fn event_line(task: TaskId, number: u64, name: &str, data: Value) -> Value {
    let mut line = Map::new();
    if let Value::Object(fields) = data {
        line = fields;
    } else {
        line.insert("data".to_owned(), data);
    }
    line.insert("event".to_owned(), number.into());
    line.insert("task".to_owned(), task.to_string().into());
    line.insert("type".to_owned(), name.into());
    Value::Object(line)
}
