//! A worker that was frozen past its lease and then woken publishes nothing.

use std::time::Duration;

use anyhow::Result;
use e2e::program::processes_of;
use e2e::wait::pass;
use e2e::worker::Setup;
use e2e::{Coordinator, Pretender, Worker, bounded, eventually};
use protocol::{Code, TaskState};
use rustix::process::Signal;

const TTLS: [(&str, &str); 2] = [("CW_LEASE_TTL", "2s"), ("CW_FIRST_LEASE_TTL", "2s")];

/// One slot: with a second one, the request for a lease that it left behind would be given the task once more.
async fn start_to_freeze(coordinator: &Coordinator) -> Result<Worker> {
    Worker::start_as(coordinator, Setup { name: "one", repo: "r", variables: &[("CW_SLOTS", "1")] }).await
}

/// The first attempt ends while its worker is frozen: on waking, a result is there to be reported.
#[tokio::test]
async fn a_worker_frozen_past_its_lease_reports_nothing_when_it_wakes() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start_with(&TTLS).await?;
        let api = coordinator.api()?;
        let mut frozen = start_to_freeze(&coordinator).await?;
        let gate = coordinator.gate();
        let code = format!("echo attempt $CW_ATTEMPT; if [ $CW_ATTEMPT = 1 ]; then {}; echo late; fi", gate.wait());
        let id = api.submit_shell("r", &code).await?.row.id;
        api.wrote(id, "attempt 1").await?;
        frozen.program().signal(Signal::STOP)?;
        gate.open()?;
        eventually("the first attempt's process ends", async || Ok(processes_of(id).is_empty().then_some(()))).await?;
        api.in_state(id, TaskState::Queued).await?;
        let second = Worker::start_as(&coordinator, Setup { name: "two", repo: "r", variables: &[] }).await?;
        let done = api.done(id).await?;
        let (task, events) = (api.task(id).await?, api.events(id).await?);
        assert_eq!((done.row.state, done.row.attempt), (TaskState::Completed, 2));

        frozen.program().signal(Signal::CONT)?;
        // Whichever of its two looks comes first: at the lease, or at the end of the process.
        eventually("it sees that the lease is over", async || {
            let log = frozen.log();
            Ok((log.contains("lease lost") || log.contains("the lease is over")).then_some(()))
        })
        .await?;
        pass(Duration::from_secs(1)).await;
        assert_eq!((api.task(id).await?, api.events(id).await?), (task.clone(), events));
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("attempt 2\n"));
        drop(second);
        let next = api.submit_shell("r", "echo again").await?.row.id;
        assert_eq!(api.done(next).await?.row.state, TaskState::Completed, "it is a good worker again");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_process_whose_worker_was_frozen_past_its_lease_dies_when_it_wakes() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start_with(&TTLS).await?;
        let api = coordinator.api()?;
        let mut frozen = start_to_freeze(&coordinator).await?;
        let code = "if [ $CW_ATTEMPT = 1 ]; then while :; do sleep 0.1; echo zombie; done; fi";
        let id = api.submit_shell("r", code).await?.row.id;
        api.wrote(id, "zombie").await?;
        assert!(!processes_of(id).is_empty());
        frozen.program().signal(Signal::STOP)?;
        api.in_state(id, TaskState::Queued).await?;
        let _second = Worker::start_as(&coordinator, Setup { name: "two", repo: "r", variables: &[] }).await?;
        assert_eq!(api.done(id).await?.row.attempt, 2);
        let events = api.events(id).await?;
        frozen.program().signal(Signal::CONT)?;
        eventually("the first attempt's process dies", async || Ok(processes_of(id).is_empty().then_some(()))).await?;
        pass(Duration::from_millis(500)).await;
        assert_eq!(api.events(id).await?, events, "nothing more was published");
        Ok(())
    })
    .await
}

/// What the coordinator does when a worker does not notice: it refuses every word of the old lease.
#[tokio::test]
async fn everything_from_a_lapsed_lease_is_refused_and_changes_nothing() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start_with(&TTLS).await?;
        let api = coordinator.api()?;
        let id = api.submit_shell("r", "true").await?.row.id;
        let (first, second) =
            (Pretender::new(&coordinator, "r", 1).await?, Pretender::new(&coordinator, "r", 2).await?);
        let old = first.lease().await?.lease;
        assert_eq!(first.renew(old, 0).await?.status, 200);
        assert_eq!(first.write(old, 1, "old\n").await?.status, 200);
        api.in_state(id, TaskState::Queued).await?;
        let refused = async || {
            let release = first.api.post(&format!("/v1/leases/{old}/release"), serde_json::json!({})).await?;
            let answers =
                [first.renew(old, 0).await?, first.write(old, 2, "x").await?, first.report(old).await?, release];
            anyhow::Ok(answers.map(|answer| answer.code()))
        };
        let lost = [Some(Code::LeaseLost); 4];
        assert_eq!(refused().await?, lost, "while it waits");
        let new = second.lease().await?.lease;
        assert_eq!(second.renew(new, 0).await?.status, 200);
        assert_eq!(refused().await?, lost, "while another has it");
        // Nor may one key use the lease of another.
        assert_eq!(first.report(new).await?.code(), Some(Code::LeaseLost));
        assert_eq!(second.write(new, 1, "new\n").await?.status, 200);
        assert_eq!(second.report(new).await?.status, 200);
        let before = (api.task(id).await?, api.events(id).await?);
        assert_eq!(refused().await?, lost, "when it is done");
        assert_eq!((api.task(id).await?, api.events(id).await?), before);
        assert_eq!(before.0.result.map(|result| result.stdout).as_deref(), Some("new\n"));
        Ok(())
    })
    .await
}
