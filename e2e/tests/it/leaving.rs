//! Programs that leave as they should: the coordinator when told to, workers that were started for a while.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::worker::Setup;
use e2e::{Api, Coordinator, Pretender, Worker, bounded, eventually};
use protocol::TaskState;
use rustix::process::Signal;

#[tokio::test]
async fn a_coordinator_that_is_told_to_stop_answers_parked_polls_at_once() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let api = coordinator.api()?;
        let worker = Pretender::new(&coordinator, "r", 1).await?;
        let task = api.submit_shell("other", "true").await?.row.id;
        let path = format!("/v1/tasks/{task}?wait_s=60");
        let (parked, waiting) = (worker.ask(60), api.get(&path));
        let stop = async {
            api.knows_worker(protocol::WorkerId::new(0, 1)).await?;
            let asked_at = Instant::now();
            coordinator.program()?.signal(Signal::TERM)?;
            let status = coordinator.program()?.ended().await?;
            anyhow::Ok((status, asked_at.elapsed()))
        };
        let (parked, waiting, stopped) = tokio::join!(parked, waiting, stop);
        let (status, took) = stopped?;
        ensure!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}");
        assert_eq!((parked?.status, waiting?.status), (204, 200));
        coordinator.restart().await?;
        assert_eq!(coordinator.api()?.task(task).await?.row.state, TaskState::Queued);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_started_for_one_task_leaves_after_it() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let (first, second) = (api.submit_shell("r", "echo 1").await?, api.submit_shell("r", "echo 2").await?);
        let setup = Setup { name: "once", repo: "r", variables: &[("CW_ONCE", "true")] };
        let mut worker = Worker::launch(&coordinator, setup).await?;
        assert_eq!(worker.program().ended().await?.code(), Some(0));
        assert_eq!(api.task(first.row.id).await?.row.state, TaskState::Completed);
        assert_eq!(api.task(second.row.id).await?.row.attempt, 0);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_worker_that_finds_no_work_leaves_when_told_to() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let setup = Setup { name: "idle", repo: "r", variables: &[("CW_IDLE_EXIT", "1s")] };
        let mut worker = Worker::launch(&coordinator, setup).await?;
        assert_eq!(worker.program().ended().await?.code(), Some(0));
        let workers = coordinator.cw(&["workers", "--all"]).await?.with_code(0)?;
        ensure!(workers.out.contains("gone"), "it said that it left: {workers:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_workers_health_needs_no_key_and_tells_a_lost_coordinator() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let setup = Setup { name: "w", repo: "r", variables: &[("CW_HTTP", "127.0.0.1:0")] };
        let worker = Worker::start_as(&coordinator, setup).await?;
        let line = worker.says("health at http://").await?;
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_default();
        let health = Api::new(url, "")?;
        // It has heard from the coordinator once a task went through.
        coordinator.cw(&["send", "-w", "r", "--shell", "true"]).await?.with_code(0)?;
        assert_eq!((health.get("/livez").await?.status, health.get("/readyz").await?.status), (200, 200));
        ensure!(health.get("/metrics").await?.text().contains("# TYPE"), "no metrics");
        coordinator.kill().await?;
        let unready = eventually("it is not ready", async || {
            Ok(Some(health.get("/readyz").await?).filter(|answer| answer.status == 503))
        })
        .await?;
        ensure!(unready.text().contains("cannot connect to coordinator"), "{}", unready.text());
        assert_eq!(health.get("/livez").await?.status, 200);
        Ok(())
    })
    .await
}
