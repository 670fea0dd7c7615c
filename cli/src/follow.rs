//! A task's events from the first to the last, over any number of connections: it resumes after the last whole event
//! that it read, so nothing is lost and nothing comes twice. Never prints; what it reads goes down a channel.

use std::time::Duration;

use protocol::event::StateEvent;
use protocol::{Stream, TaskId, TaskView};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::client::{Client, Received};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::sse::{Parser, RawEvent};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What happened to a task that is followed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Update {
    /// The next event.
    Event { number: u64, name: String, body: Body, data: Value },
    /// The connection broke; it is tried again.
    Lost(String),
    /// There is a connection again.
    Back,
}

/// An event's content, as far as it means something here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    State(StateEvent),
    Output { stream: Stream, text: String },
    Other,
}

/// Follows a task to its end and gives it as it then stands. The channel closing ends it too.
pub(crate) async fn follow(
    client: Client,
    id: TaskId,
    updates: Sender<(TaskId, Update)>,
) -> Result<Received<TaskView>> {
    let mut follower = Follower { client, id, updates, last: 0, lost_since: None, pause: FIRST_PAUSE };
    loop {
        let broken = match follower.read_stream().await {
            Ok(()) => match follower.client.task(id).await {
                Ok(task) if task.row.state.is_done() => return Ok(task),
                Ok(_) => follower.client.unreachable("the stream of events ended too early"),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        follower.wait_after(broken).await?;
    }
}

struct Follower {
    client: Client,
    id: TaskId,
    updates: Sender<(TaskId, Update)>,
    /// The number of the last event that was passed on.
    last: u64,
    lost_since: Option<Instant>,
    pause: Duration,
}

impl Follower {
    /// Reads until the stream ends or breaks.
    async fn read_stream(&mut self) -> Result<()> {
        let mut answer = self.client.events(self.id, self.last).await?;
        let mut parser = Parser::default();
        if self.lost_since.is_some() {
            self.pass_on(Update::Back).await?;
        }
        loop {
            let broken = |what: &str| self.client.unreachable(what);
            let Some(bytes) = answer.chunk().await.map_err(|_| broken("the connection broke"))? else { return Ok(()) };
            let events = parser.push(&bytes).map_err(|_| broken("an event is too long"))?;
            for event in events {
                self.take(event).await?;
            }
        }
    }

    async fn take(&mut self, raw: RawEvent) -> Result<()> {
        // Only what is kept has a number, and only that can be resumed after.
        let Some(number) = raw.id.filter(|number| *number > self.last) else { return Ok(()) };
        let data: Value = serde_json::from_str(&raw.data).unwrap_or(Value::String(raw.data));
        let body = read_body(&raw.name, &data);
        self.last = number;
        self.lost_since = None;
        self.pause = FIRST_PAUSE;
        self.pass_on(Update::Event { number, name: raw.name, body, data }).await
    }

    /// Waits before the next try, or gives up: at once when the coordinator refuses, later when it is away.
    async fn wait_after(&mut self, broken: Failure) -> Result<()> {
        if broken.exit != Exit::UNREACHABLE {
            return Err(broken);
        }
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.client.reconnect_for() {
            let id = self.id;
            return Err(broken.next(format!("the task goes on without you; come back with `cw logs -f {id}`")));
        }
        if self.pause == FIRST_PAUSE {
            self.pass_on(Update::Lost(broken.message)).await?;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    async fn pass_on(&self, update: Update) -> Result<()> {
        let sent = self.updates.send((self.id, update)).await;
        sent.map_err(|_| Failure::new(Exit::INTERRUPTED, "interrupted", ""))
    }
}

fn read_body(name: &str, data: &Value) -> Body {
    let text = |field: &str| data.get(field).and_then(Value::as_str);
    match name {
        "state" => serde_json::from_value(data.clone()).map_or(Body::Other, Body::State),
        "output" => {
            let stream = if text("stream") == Some("stderr") { Stream::Stderr } else { Stream::Stdout };
            Body::Output { stream, text: text("text").unwrap_or_default().to_owned() }
        }
        _ => Body::Other,
    }
}
