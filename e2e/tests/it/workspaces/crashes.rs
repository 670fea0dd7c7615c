//! Workers and coordinators that are killed while a session's files are on their way.

use anyhow::Result;
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded, eventually};
use protocol::TaskState;

use super::{said, shell};

#[tokio::test]
async fn a_worker_killed_while_its_task_runs_publishes_nothing_and_the_next_begins_at_the_same_version() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start_with(&[("CW_LEASE_TTL", "1s")]).await?;
        let (api, gate) = (coordinator.api()?, coordinator.gate());
        api.write("s", "a", b"base\n").await?;
        let mut worker =
            Worker::start_as(&coordinator, Setup { name: "w", repo: "r", variables: &[("CW_SLOTS", "1")] }).await?;
        let code =
            format!("cat a; [ -e half ] && echo half; echo changed > a; echo x > half; echo begun; {}", gate.wait());
        let id = api.submit(shell("s", &code)).await?.row.id;
        api.wrote(id, "begun").await?;
        worker.program().kill().await?;
        assert_eq!(api.read("s", "a").await?.text(), "base\n");
        worker.restart().await?;
        eventually("it begins again", async || {
            let task = api.task(id).await?;
            Ok((task.row.attempt == 2 && task.row.state == TaskState::Running).then_some(()))
        })
        .await?;
        gate.open()?;
        let task = api.done(id).await?;
        let stdout = task.result.map(|result| result.stdout).unwrap_or_default();
        assert!(stdout.ends_with("base\nbegun\n"), "{stdout}");
        assert_eq!(api.read("s", "a").await?.text(), "changed\n");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_coordinator_that_is_started_again_while_a_task_runs_takes_its_stage() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let (api, gate) = (coordinator.api()?, coordinator.gate());
        api.write("s", "a", b"base\n").await?;
        let id = api.submit(shell("s", &format!("echo begun; {}; echo task >> a", gate.wait()))).await?.row.id;
        api.wrote(id, "begun").await?;
        coordinator.kill().await?;
        gate.open()?;
        coordinator.restart().await?;
        let api = coordinator.api()?;
        assert_eq!(super::reason(&api, id).await?, "ok");
        assert_eq!(said(&api, shell("s", "cat a")).await?, "base\ntask\n");
        Ok(())
    })
    .await
}
