//! Who goes first, how many at once, and who never.

use anyhow::{Result, ensure};
use e2e::worker::Setup;
use e2e::{Api, Coordinator, Pretender, Worker, bounded, eventually};
use protocol::{TaskId, TaskState};
use serde_json::json;

async fn submit(api: &Api, priority: &str, code: &str) -> Result<TaskId> {
    let run = json!({"kind": "shell", "code": code});
    Ok(api.submit(json!({"repo": "r", "priority": priority, "run": run})).await?.row.id)
}

#[tokio::test]
async fn one_slot_runs_tasks_by_priority_and_then_in_the_order_of_submission() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let mut ids = Vec::new();
        for priority in ["low", "normal", "critical", "high", "normal", "critical"] {
            ids.push((priority, submit(&api, priority, "true").await?));
        }
        let setup = Setup { name: "one", repo: "r", variables: &[("CW_SLOTS", "1")] };
        let _worker = Worker::start_as(&coordinator, setup).await?;
        let mut ran = Vec::new();
        for (number, (priority, id)) in ids.into_iter().enumerate() {
            let row = api.done(id).await?.row;
            assert_eq!(row.state, TaskState::Completed);
            ran.push((row.started_at, format!("{priority}-{number}")));
        }
        ran.sort();
        let ran: Vec<&str> = ran.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(ran, ["critical-2", "critical-5", "high-3", "normal-1", "normal-4", "low-0"]);
        Ok(())
    })
    .await
}

/// Each task waits for the gate, so all that may run do run at once.
#[tokio::test]
async fn a_worker_never_runs_more_than_its_slots() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let setup = Setup { name: "two", repo: "r", variables: &[("CW_SLOTS", "2")] };
        let _worker = Worker::start_as(&coordinator, setup).await?;
        let gate = coordinator.gate();
        let code = gate.wait();
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(submit(&api, "normal", &code).await?);
        }
        let running = async || {
            let repo: serde_json::Value = api.get("/v1/repos/r").await?.value()?;
            anyhow::Ok(repo["running"].as_u64().unwrap_or(0))
        };
        eventually("two tasks run", async || Ok((running().await? == 2).then_some(()))).await?;
        let why = coordinator.cw(&["why", &ids[4].to_string()]).await?.with_code(0)?;
        assert!(why.out.contains("full (2 slots)"), "{why:?}");
        // Long enough for a third one to be taken, if it could be.
        e2e::wait::pass(std::time::Duration::from_millis(700)).await;
        assert_eq!(running().await?, 2);
        gate.open()?;
        for id in ids {
            assert_eq!(api.done(id).await?.row.state, TaskState::Completed);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_that_is_cancelled_while_it_waits_never_runs() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let unwanted = submit(&api, "normal", "echo ran").await?;
        let wanted = submit(&api, "normal", "echo wanted").await?;
        coordinator.cw(&["cancel", &unwanted.to_string()]).await?.with_code(0)?;
        let worker = Worker::start(&coordinator, "r").await?;
        assert_eq!(api.done(wanted).await?.row.state, TaskState::Completed);
        let task = api.task(unwanted).await?;
        assert_eq!((task.row.state, task.row.attempt), (TaskState::Cancelled, 0));
        assert_eq!((worker.starts(wanted), worker.starts(unwanted)), (1, 0), "it was run all the same");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_task_of_one_repo_is_never_leased_by_a_worker_of_another() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let _other = Worker::start(&coordinator, "b").await?;
        let task = api.submit_shell("a", "echo mine").await?.row.id;
        let after = api.submit_shell("b", "echo yours").await?.row.id;
        assert_eq!(api.done(after).await?.row.state, TaskState::Completed);

        // Nor does a key for one repo get a lease of the other by asking for it.
        let key = api.worker_key(&["b"]).await?.key;
        let asked =
            json!({"worker": {"id": protocol::WorkerId::new(0, 1).to_string(), "runs": ["shell"]}, "repos": ["a"]});
        let answer = Api::new(&coordinator.worker_url(), &key)?.post("/v1/leases", asked).await?;
        assert_eq!(answer.code(), Some(protocol::Code::WrongRepo));
        assert_eq!(api.task(task).await?.row.attempt, 0);

        let right = Pretender::new(&coordinator, "a", 2).await?;
        assert_eq!(right.lease().await?.task, task);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_empty_queue_answers_a_long_poll_with_nothing() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let worker = Pretender::new(&coordinator, "r", 1).await?;
        let answer = worker.ask(1).await?;
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_paused_repo_waits_and_why_says_so() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let _worker = Worker::start(&coordinator, "r").await?;
        coordinator.cw(&["repos", "pause", "r"]).await?.with_code(0)?;
        let sent = coordinator.cw(&["send", "r", "--shell", "echo resumed"]).await?.with_code(0)?;
        let id = sent.out.trim();
        let why = coordinator.cw(&["why", id]).await?.with_code(0)?;
        ensure!(why.out.contains("paused") && why.out.contains("cw repos resume r"), "{why:?}");
        coordinator.cw(&["wait", id, "--timeout", "500ms"]).await?.with_code(124)?;
        coordinator.cw(&["repos", "resume", "r"]).await?.with_code(0)?;
        coordinator.cw(&["wait", id]).await?.with_code(0)?;
        Ok(())
    })
    .await
}
