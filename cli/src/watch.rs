//! Following tasks in front of a person or a script: prints what comes, shows that something happens while nothing
//! does, says why a task does not start, and lets go of it on a signal or when the wait runs out. The task itself is
//! never touched.

mod printer;

use std::time::Duration;

use protocol::{Stream, TaskId, TaskView};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Client, Received};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::follow;
use crate::output::Output;
use crate::waiting;
use printer::Printer;

const TICK: Duration = Duration::from_millis(250);
/// How long a task may wait before its reason is asked for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Updates that are read ahead of what is printed.
const READ_AHEAD: usize = 64;

/// What is printed of what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Nothing: somebody only waits.
    Nothing,
    /// What the tasks write, to where they write it.
    Output,
    /// Every event, as a line of JSON.
    Events,
}

/// What is followed, and how.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) show: Show,
    /// Only this stream.
    pub(crate) stream: Option<Stream>,
    /// Only that many of the lines that are there already.
    pub(crate) lines: Option<usize>,
    /// How long to wait.
    pub(crate) timeout: Option<Duration>,
    /// Why they wait was said already.
    pub(crate) is_explained: bool,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Watched {
    /// All of them are done, in the order in which they were named.
    Done(Vec<Received<TaskView>>),
    /// The wait ran out, or a signal came.
    Left(Failure),
}

/// Follows tasks until all are done, the wait runs out or a signal comes.
pub(crate) async fn watch(client: &Client, out: &mut Output, plan: Plan) -> Result<Watched> {
    let mut leave = Leave::new(&plan)?;
    let (sender, mut updates) = mpsc::channel(READ_AHEAD);
    let mut followers = JoinSet::new();
    for (place, id) in plan.tasks.iter().enumerate() {
        let follower = follow::follow(client.clone(), *id, sender.clone());
        followers.spawn(async move { (place, follower.await) });
    }
    drop(sender);
    let mut printer = Printer::new(&plan);
    let mut tick = tokio::time::interval_at(Instant::now() + TICK, TICK);
    loop {
        tokio::select! {
            biased;
            failure = leave.asked() => {
                out.clear_live();
                printer.finish(out)?;
                return Ok(Watched::Left(explain_leaving(client, &printer, failure).await));
            }
            update = updates.recv() => match update {
                Some((id, update)) => printer.take(out, id, update)?,
                None => break,
            },
            _ = tick.tick() => {
                printer.tick(out)?;
                hint(client, out, &mut printer).await;
            }
        }
    }
    printer.finish(out)?;
    out.clear_live();
    collect(followers).await.map(Watched::Done)
}

async fn collect(mut followers: JoinSet<(usize, Result<Received<TaskView>>)>) -> Result<Vec<Received<TaskView>>> {
    let mut done = Vec::new();
    while let Some(joined) = followers.join_next().await {
        let (place, task) = joined.map_err(|error| Failure::from(std::io::Error::other(error.to_string())))?;
        done.push((place, task?));
    }
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, task)| task).collect())
}

/// Says once why a task does not start, if it is for a reason that a person should know.
async fn hint(client: &Client, out: &mut Output, printer: &mut Printer) {
    for id in printer.waiting_longer_than(PATIENCE) {
        match waiting::ask(client, id).await {
            Some(why) if waiting::is_worth_saying(&why) => waiting::say(out, &id.to_string(), &why),
            _ => {}
        }
    }
}

/// Says of a task that never started what keeps it, instead of that it goes on.
async fn explain_leaving(client: &Client, printer: &Printer, failure: Failure) -> Failure {
    let unstarted = printer.unstarted().filter(|_| failure.exit == Exit::WAIT_RAN_OUT);
    let Some(id) = unstarted else { return failure };
    let Some(why) = waiting::ask(client, id).await else {
        return Failure { message: "the wait ran out".to_owned(), ..failure };
    };
    let next = why.next.or(failure.next);
    let who = if printer.has_several() { id.to_string() } else { "it".to_owned() };
    Failure { message: format!("the wait ran out; {who} has not started: {}", why.summary), next, ..failure }
}

/// The ways in which a person leaves before the tasks are done.
struct Leave {
    interrupt: Signal,
    terminate: Signal,
    deadline: Option<Instant>,
    /// How to come back.
    next: String,
}

impl Leave {
    fn new(plan: &Plan) -> Result<Self> {
        let listen = |kind| signal(kind).map_err(Failure::from);
        let ids: Vec<_> = plan.tasks.iter().map(TaskId::to_string).collect();
        let ids = ids.join(" ");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            deadline: plan.timeout.map(|timeout| Instant::now() + timeout),
            next: format!("come back with `cw logs -f {ids}`, or stop it with `cw cancel {ids}`"),
        })
    }

    async fn asked(&mut self) -> Failure {
        let far = Instant::now() + Duration::from_secs(86_400);
        let failure = tokio::select! {
            _ = self.interrupt.recv() => Failure::new(Exit::INTERRUPTED, "interrupted", "detached; the task goes on"),
            _ = self.terminate.recv() => Failure::new(Exit::TERMINATED, "terminated", "detached; the task goes on"),
            () = tokio::time::sleep_until(self.deadline.unwrap_or(far)), if self.deadline.is_some() => {
                Failure::new(Exit::WAIT_RAN_OUT, "wait_ran_out", "the wait ran out; the task goes on")
            }
        };
        failure.next(self.next.clone())
    }
}
