//! `kill -9` at random moments under load. The seed is printed; the moments it gives are the same in every run.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chance::Chance;
use e2e::wait::pass;
use e2e::worker::Setup;
use e2e::{Api, Coordinator, Pretender, Worker, bounded};
use protocol::{TaskId, TaskState};
use tokio::task::LocalSet;

mod load;

use load::{Load, OVERLAP};

const KILLS: usize = 50;

/// Real workers serve `real`, where every task looks out for another attempt of it; pretended ones serve `fast`, at full speed.
#[tokio::test]
async fn fifty_kills_of_the_coordinator_lose_double_and_block_no_task() -> Result<()> {
    let test = bounded(async {
        let mut chance = seeded(0x5eed_0001);
        let mut coordinator = Coordinator::start_lasting(&[("CW_FIRST_LEASE_TTL", "2s")]).await?;
        let workers = [
            Worker::start_as(&coordinator, Setup { name: "one", repo: "real", variables: &[] }).await?,
            Worker::start_as(&coordinator, Setup { name: "two", repo: "real", variables: &[] }).await?,
        ];
        let api = coordinator.api()?;
        let mut load = Load::new(coordinator.shared());
        for number in 0..4 {
            load.pretend(Pretender::new(&coordinator, "fast", number).await?);
        }
        for number in 0..8 {
            load.submit(api.clone(), "fast", number);
        }
        for number in 0..4 {
            load.submit(api.clone(), "real", number);
        }
        for _ in 0..KILLS {
            pass(chance.time_ms(20, 600)).await;
            coordinator.kill().await?;
            coordinator.restart().await?;
        }
        let done = load.finish().await?;
        eprintln!("{} tasks went through {KILLS} kills", done.len());
        ensure!(done.len() > 200, "too little load: {} tasks", done.len());
        let acknowledged = |repo| done.iter().filter(move |task| task.repo == repo);
        for repo in ["fast", "real"] {
            let kept = api.all_tasks(repo).await?.len();
            assert_eq!(kept, acknowledged(repo).count(), "tasks of {repo}: kept and acknowledged");
        }
        for task in &done {
            done_once(&api, task.id, &task.wrote).await?;
        }
        // Nothing made a worker lose a lease that it ran under, so nothing ran twice.
        for task in acknowledged("real") {
            let runs: usize = workers.iter().map(|worker| worker.starts(task.id)).sum();
            assert_eq!(runs, 1, "{} ran {runs} times", task.id);
        }
        drop(workers);
        Ok(())
    });
    LocalSet::new().run_until(test).await
}

/// A killed worker's task is tried again, so it may begin twice; but never at the same time, and it is done once.
#[tokio::test]
async fn fifty_kills_of_workers_lose_double_and_block_no_task() -> Result<()> {
    let test = bounded(async {
        let mut chance = seeded(0x5eed_0002);
        let ttls = [("CW_LEASE_TTL", "2s"), ("CW_FIRST_LEASE_TTL", "2s")];
        let coordinator = Coordinator::start_with(&ttls).await?;
        let mut workers = Vec::new();
        for name in ["one", "two", "three"] {
            let setup = Setup { name, repo: "real", variables: &[("CW_SLOTS", "2")] };
            workers.push(Worker::start_as(&coordinator, setup).await?);
        }
        let api = coordinator.api()?;
        let mut load = Load::new(coordinator.shared());
        for number in 0..8 {
            load.submit(api.clone(), "real", number);
        }
        for _ in 0..KILLS {
            pass(chance.time_ms(20, 600)).await;
            let victim = chance.place(workers.len());
            workers[victim].restart().await?;
        }
        let done = load.finish().await?;
        eprintln!("{} tasks went through {KILLS} kills", done.len());
        ensure!(done.len() > 50, "too little load: {} tasks", done.len());
        assert_eq!(api.all_tasks("real").await?.len(), done.len(), "tasks: kept and acknowledged");
        for task in &done {
            done_once(&api, task.id, &task.wrote).await?;
        }
        Ok(())
    });
    LocalSet::new().run_until(test).await
}

fn seeded(seed: u64) -> Chance {
    eprintln!("seed {seed:#x}");
    Chance::new(seed)
}

/// The task completed, exactly once, and its result is what one attempt wrote.
async fn done_once(api: &Api, id: TaskId, wrote: &str) -> Result<()> {
    let task = api.task(id).await?;
    ensure!(task.row.state == TaskState::Completed, "{id} is {}: {:?}", task.row.state, task.row.reason);
    let stdout = task.result.context("a done task has a result")?.stdout;
    ensure!(stdout == wrote, "{id} wrote {stdout:?} instead of {wrote:?}");
    let events = api.events(id).await?;
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    ensure!(numbers == (1..=events.len() as u64).collect::<Vec<_>>(), "{id} has gaps: {numbers:?}");
    let overlaps = events.iter().filter(|event| event.data.to_string().contains(OVERLAP)).count();
    ensure!(overlaps == 0, "two attempts of {id} ran at the same time");
    let completed = events.iter().filter(|event| event.data["state"] == "completed").count();
    ensure!(completed == 1, "{id} completed {completed} times: {events:?}");
    let last = events.last().context("a task has events")?;
    ensure!(last.data["state"] == "completed", "{id} went on after its end: {events:?}");
    Ok(())
}

/// How long a client waits for one answer before it asks again.
const WAIT: Duration = Duration::from_secs(10);
