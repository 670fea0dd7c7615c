//! Files that came of a task, from the process that wrote them to the user who fetches them.

use anyhow::{Context as _, Result};
use e2e::{Coordinator, Pretender, Worker, bounded, eventually};
use protocol::Code;

#[tokio::test]
async fn a_file_that_a_task_made_is_fetched_as_it_was() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let code = "mkdir -p output/deep; head -c 3000000 /dev/urandom > output/deep/random.bin; sha256sum output/deep/random.bin; \
                    echo made > made.txt";
        let id = coordinator.api()?.submit_shell("r", code).await?.row.id;
        let task = coordinator.api()?.done(id).await?;
        let result = task.result.context("no result")?;
        let paths: Vec<&str> = result.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
        assert_eq!(paths, ["made.txt", "output/deep/random.bin"], "{result:?}");
        assert!(result.artifacts.iter().all(protocol::Artifact::is_stored), "{result:?}");
        assert!(result.stdout.starts_with(&result.artifacts[1].sha256), "the task itself counted the same");
        let into = coordinator.home().join("into");
        let id = id.to_string();
        coordinator.cw(&["artifacts", &id, "--all", &into.display().to_string()]).await?.with_code(0)?;
        assert_eq!(std::fs::read_to_string(into.join("made.txt"))?, "made\n");
        assert_eq!(std::fs::metadata(into.join("output/deep/random.bin"))?.len(), 3_000_000);
        Ok(())
    })
    .await
}

fn blobs(coordinator: &Coordinator) -> Result<usize> {
    Ok(std::fs::read_dir(coordinator.state_dir().join("objects/blobs"))?.count())
}

#[tokio::test]
async fn a_coordinator_killed_between_upload_and_report_keeps_no_orphan() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[("CW_LEASE_TTL", "1s")]).await?;
        let pretender = Pretender::new(&coordinator, "r", 1).await?;
        let id = coordinator.api()?.submit_shell("r", "true").await?.row.id;
        let lease = pretender.lease().await?.lease;
        pretender.renew(lease, 0).await?;
        assert_eq!(pretender.upload(lease, "x").await?.status, 200);
        assert_eq!(blobs(&coordinator)?, 1);
        coordinator.kill().await?;
        coordinator.restart().await?;
        eventually("the upload of the lapsed lease is swept", async || Ok((blobs(&coordinator)? == 0).then_some(())))
            .await?;
        assert_eq!(pretender.upload(lease, "x").await?.code(), Some(Code::LeaseLost));
        assert_eq!(blobs(&coordinator)?, 0, "a stale lease changes nothing");
        let next = pretender.lease().await?.lease;
        pretender.report(next).await?;
        let task = coordinator.api()?.done(id).await?;
        assert!(task.result.context("no result")?.artifacts.is_empty());
        Ok(())
    })
    .await
}
