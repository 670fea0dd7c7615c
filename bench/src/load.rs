//! Drives many clients of one queue at once and counts. All clients share one thread, because the load generator
//! shares the machine with what it measures. It knows no queue by name.

pub(crate) mod http;

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::percentile::Spread;

/// How long an idle queue is left alone before each hand-over, so that the taker is parked.
const PARK: Duration = Duration::from_millis(5);

/// How much longer than asked a measurement may take before it is given up.
const GRACE: Duration = Duration::from_secs(60);

/// One connection that can put tasks in.
pub(crate) trait Submit {
    /// Puts one task in; returns once the queue says that it is kept.
    async fn submit(&mut self) -> Result<()>;
}

/// One connection that can also take tasks and end them.
pub(crate) trait Cycle: Submit {
    /// Waits for a task and takes it.
    async fn take(&mut self) -> Result<()>;

    /// Ends the task that was taken last; returns once the queue says that this is kept.
    async fn finish(&mut self) -> Result<()>;
}

/// Submits per second of these clients together.
pub(crate) async fn submits<C: Submit + 'static>(clients: Vec<C>, time: Duration) -> Result<f64> {
    rate(clients, time, async |client: &mut C| client.submit().await).await
}

/// Full cycles (submit, take, finish) per second of these clients together.
pub(crate) async fn cycles<C: Cycle + 'static>(clients: Vec<C>, time: Duration) -> Result<f64> {
    let cycle = async |client: &mut C| {
        client.submit().await?;
        client.take().await?;
        client.finish().await
    };
    rate(clients, time, cycle).await
}

/// Submits this many tasks as fast as these clients can.
pub(crate) async fn fill<C: Submit + 'static>(clients: Vec<C>, tasks: usize) -> Result<()> {
    let mut running = JoinSet::new();
    let each = tasks.div_ceil(clients.len());
    for mut client in clients {
        running.spawn_local(async move {
            for _ in 0..each {
                client.submit().await?;
            }
            Ok(())
        });
    }
    running.join_all().await.into_iter().collect()
}

/// The first tenth of the time warms up and is not counted.
async fn rate<C, F>(clients: Vec<C>, time: Duration, operation: F) -> Result<f64>
where
    C: 'static,
    F: AsyncFn(&mut C) -> Result<()> + Copy + 'static,
{
    let begin = Instant::now() + time / 10;
    let end = begin + time;
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn_local(count(client, operation, begin, end));
    }
    let all = timeout(time + GRACE, running.join_all()).await.context("the queue stopped answering")?;
    let counted = all.into_iter().sum::<Result<u32>>()?;
    Ok(f64::from(counted) / time.as_secs_f64())
}

async fn count<C, F>(mut client: C, operation: F, begin: Instant, end: Instant) -> Result<u32>
where
    F: AsyncFn(&mut C) -> Result<()>,
{
    let mut counted = 0;
    loop {
        operation(&mut client).await?;
        let now = Instant::now();
        if now >= end {
            return Ok(counted);
        }
        counted += u32::from(now >= begin);
    }
}

/// The time from a submit being sent to a parked taker holding the task, with nothing else going on.
pub(crate) async fn handover<C: Cycle + 'static>(mut client: C, taker: C, samples: usize) -> Result<Spread> {
    let (took, mut taken) = mpsc::unbounded_channel();
    let mut taking = JoinSet::new();
    taking.spawn_local(take_for_ever(taker, took));
    let mut times = Vec::with_capacity(samples);
    while times.len() < samples {
        sleep(PARK).await;
        let sent_at = Instant::now();
        timeout(GRACE, client.submit()).await.context("the queue stopped answering")??;
        match timeout(GRACE, taken.recv()).await.context("a task was never handed to the parked taker")? {
            Some(taken_at) => times.push(taken_at - sent_at),
            None => taking.join_next().await.context("the parked taker left")???,
        }
    }
    Spread::of(times).context("no hand-over was asked for")
}

/// Says when it held each task, once it has ended it too.
async fn take_for_ever<C: Cycle>(mut taker: C, took: mpsc::UnboundedSender<Instant>) -> Result<()> {
    loop {
        taker.take().await?;
        let taken_at = Instant::now();
        taker.finish().await?;
        took.send(taken_at).context("nobody waits for the parked taker")?;
    }
}
