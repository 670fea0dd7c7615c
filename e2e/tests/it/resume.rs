//! Following a task across restarts of the coordinator.

use anyhow::Result;
use e2e::{Coordinator, Worker, bounded};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const LINES: usize = 60;

/// The coordinator is killed three times while the task writes; the follower must show each line once, in order.
#[tokio::test]
async fn a_follow_across_restarts_of_the_coordinator_loses_and_doubles_nothing() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let code = format!("for i in $(seq {LINES}); do echo line $i; sleep 0.1; done");
        let id = coordinator.api()?.submit_shell("r", &code).await?.row.id;
        let mut cw = coordinator.cw_command()?.args(["logs", "-f", &id.to_string()]).spawn()?;
        let mut lines = BufReader::new(cw.stdout.take().expect("piped")).lines();
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().await? {
            seen.push(line);
            if [5, 20, 35].contains(&seen.len()) {
                coordinator.kill().await?;
                coordinator.restart().await?;
            }
        }
        let expected: Vec<String> = (1..=LINES).map(|number| format!("line {number}")).collect();
        assert_eq!(seen, expected);
        assert!(cw.wait().await?.success());
        let events = coordinator.api()?.events(id).await?;
        let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "numbers without gaps");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_wait_across_a_restart_of_the_coordinator_gets_the_result() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let gate = coordinator.gate();
        let code = format!("echo begun; {}; echo finished", gate.wait());
        let id = coordinator.api()?.submit_shell("r", &code).await?.row.id;
        let cw = coordinator.cw_command()?.args(["--json", "wait", &id.to_string()]).spawn()?;
        coordinator.api()?.wrote(id, "begun").await?;
        coordinator.kill().await?;
        coordinator.restart().await?;
        gate.open()?;
        let task = e2e::cw::ended(cw).await?.with_code(0)?.json()?;
        assert_eq!((&task["state"], &task["attempt"]), (&"completed".into(), &1.into()));
        Ok(())
    })
    .await
}
