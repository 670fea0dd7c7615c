//! Results find their way: past a coordinator that is away, a key that is refused, a worker that must leave.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::wait::pass;
use e2e::{Coordinator, Worker, bounded, eventually};
use protocol::{Reason, TaskId, TaskState};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Ended, Place};

/// The reports that wait on the worker's disk.
fn spooled(worker: &Worker) -> usize {
    let files = std::fs::read_dir(worker.state_dir().join("spool")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|kind| kind == "json")).count()
}

async fn spool_holds(worker: &Worker, count: usize) -> Result<()> {
    eventually(&format!("{count} reports wait on disk"), async || Ok((spooled(worker) == count).then_some(()))).await
}

/// Sends a task that waits at the gate once it has begun.
async fn begun(place: &Place, more: Value) -> Result<TaskId> {
    let code = format!("echo begun; {}; echo finished", place.coordinator.gate().wait());
    let mut spec = more;
    spec["run"] = json!({"kind": "shell", "code": code});
    let id = place.send(spec).await?;
    place.api.wrote(id, "begun").await?;
    Ok(id)
}

#[tokio::test]
async fn a_result_that_finds_no_coordinator_waits_on_disk_and_is_sent_when_it_is_back() -> Result<()> {
    bounded(async {
        let mut place = Place::of(Coordinator::start_lasting(&[]).await?, &[]).await?;
        let id = begun(&place, json!({})).await?;
        place.coordinator.kill().await?;
        place.coordinator.gate().open()?;
        spool_holds(&place.worker, 1).await?;
        place.worker.says("cannot connect to coordinator").await?;
        place.coordinator.restart().await?;
        let ended = Ended::of(place.coordinator.api()?.done(id).await?)?.well()?;
        assert_eq!((ended.result.stdout.as_str(), ended.task.row.attempt), ("begun\nfinished\n", 1));
        spool_holds(&place.worker, 0).await
    })
    .await
}

#[tokio::test]
async fn a_result_whose_key_is_refused_is_kept_and_said_and_another_worker_does_the_task() -> Result<()> {
    bounded(async {
        let place = Place::of(Coordinator::start_with(&[("CW_LEASE_TTL", "10s")]).await?, &[]).await?;
        let id = begun(&place, json!({})).await?;
        let keys = place.coordinator.cw(&["--json", "keys"]).await?.with_code(0)?.json()?;
        let of_worker = |key: &&Value| key["role"] == "worker";
        let key = keys["items"].as_array().and_then(|keys| keys.iter().find(of_worker)).context("the worker's key")?;
        place.coordinator.cw(&["keys", "revoke", key["id"].as_str().unwrap_or_default()]).await?.with_code(0)?;
        place.coordinator.gate().open()?;
        place.worker.says("report kept in").await?;
        place.worker.says("coordinator refused the key (401)").await?;
        assert_eq!(spooled(&place.worker), 1);
        let second = place.another_worker().await?;
        let ended = Ended::of(place.api.done(id).await?)?.well()?;
        assert_eq!((ended.task.row.attempt, second.starts(id)), (2, 1));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_longer_than_its_lease_is_renewed_and_runs_once() -> Result<()> {
    bounded(async {
        let place = Place::of(Coordinator::start_with(&[("CW_LEASE_TTL", "4s")]).await?, &[]).await?;
        let id = begun(&place, json!({})).await?;
        pass(Duration::from_secs(9)).await;
        assert_eq!(place.api.task(id).await?.row.state, TaskState::Running);
        place.coordinator.gate().open()?;
        let ended = Ended::of(place.api.done(id).await?)?.well()?;
        assert_eq!((ended.task.row.attempt, place.worker.starts(id)), (1, 1));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_that_must_leave_gives_its_task_back_and_another_does_it_in_the_same_attempt() -> Result<()> {
    bounded(async {
        let mut place = Place::with(&[("CW_GRACE", "300ms")]).await?;
        let id = begun(&place, json!({"max_attempts": 1})).await?;
        place.worker.program().signal(Signal::TERM)?;
        assert_eq!(place.worker.program().ended().await?.code(), Some(0));
        assert_eq!(place.api.task(id).await?.row.state, TaskState::Queued);
        place.coordinator.gate().open()?;
        let second = place.another_worker().await?;
        let ended = Ended::of(place.api.done(id).await?)?.well()?;
        assert_eq!((ended.result.stdout.as_str(), second.starts(id)), ("begun\nfinished\n", 1));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn states_come_in_order_and_the_last_one_ends_the_stream() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let ended = place.code("shell", "echo one; echo two").await?.well()?;
        let events = place.api.events(ended.task.row.id).await?;
        let states: Vec<&str> = events.iter().filter_map(|event| event.data["state"].as_str()).collect();
        assert_eq!(states, ["queued", "running", "completed"]);
        let last = events.last().context("there are events")?;
        assert_eq!((&last.data["state"], &last.data["reason"]), (&json!("completed"), &json!("ok")));
        let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
        assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_that_uses_more_memory_than_it_may_ends_as_out_of_memory() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let hog = "hog = [b'x' * (1 << 20) for _ in range(2000)]\nprint('never')";
        let args = ["--json", "send", "--wait", "r", "--memory", "64M", "--python", "-"];
        let task = place.coordinator.cw_reading(hog, &args).await?.with_code(1)?.json()?;
        assert_eq!((&task["state"], &task["reason"]), (&json!("failed"), &json!("oom")), "{task}");
        assert_eq!(task["result"]["stdout"], "", "{task}");
        let next = place.code("shell", "echo still here").await?;
        assert_eq!(next.out()?, "still here\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failure_is_reported_with_its_own_exit_code_or_signal() -> Result<()> {
    bounded(async {
        let place = Place::open().await?;
        let exited = place.code("python", "import sys; sys.exit(42)").await?;
        assert_eq!(exited.ending(), (TaskState::Failed, Some(Reason::ExitNonzero)));
        assert_eq!((exited.result.exit_code, exited.result.signal), (Some(42), None));
        let signalled = place.code("shell", "kill -9 $$").await?;
        assert_eq!(signalled.ending(), (TaskState::Failed, Some(Reason::Signalled)));
        assert_eq!((signalled.result.exit_code, signalled.result.signal), (None, Some(9)));
        Ok(())
    })
    .await
}
