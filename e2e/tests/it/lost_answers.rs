//! The coordinator did what was asked, and its answer was lost on the way: nothing is spent, lost or doubled.

use anyhow::Result;
use e2e::proxy::Proxy;
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded, eventually};
use protocol::{TaskState, TaskView};
use serde_json::json;

/// Runs a task that has one attempt, by a worker that loses these answers.
async fn run_losing(answers: &[&str], code: &str) -> Result<TaskView> {
    let coordinator = Coordinator::start_with(&[("CW_FIRST_LEASE_TTL", "2s"), ("CW_LEASE_TTL", "3s")]).await?;
    let api = coordinator.api()?;
    let proxy = Proxy::before(&coordinator.worker_url()).await?;
    answers.iter().for_each(|answer| proxy.swallow_next(answer));
    let spec = json!({"repo": "r", "max_attempts": 1, "run": {"kind": "shell", "code": code}});
    let id = api.submit(spec).await?.row.id;
    let setup = Setup { name: "w", repo: "r", variables: &[("CW_COORDINATOR", proxy.url())] };
    let worker = Worker::launch(&coordinator, setup).await?;
    let task = api.done(id).await?;
    // The coordinator is done before the worker knows; its spool tells when it does.
    let lost = async || Ok((proxy.swallowed() == answers.len()).then_some(()));
    eventually("every answer is lost as planned", lost).await?;
    let spool = worker.state_dir().join("spool");
    let is_report = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|kind| kind == "json");
    let is_settled = || anyhow::Ok(!std::fs::read_dir(&spool)?.flatten().any(is_report));
    eventually("the worker knows", async || Ok(is_settled()?.then_some(()))).await?;
    let events = api.events(id).await?;
    let ends = events.iter().filter(|event| event.data["state"] == "completed").count();
    assert_eq!((task.row.state, ends), (TaskState::Completed, 1), "{events:?}");
    // A repeat is answered as the first was: the worker never hears that its word came too late.
    assert!(!worker.log().contains("dropped"), "{}", worker.log());
    Ok(task)
}

fn stdout(task: TaskView) -> String {
    task.result.map(|result| result.stdout).unwrap_or_default()
}

#[tokio::test]
async fn a_lost_lease_costs_no_attempt() -> Result<()> {
    bounded(async {
        let task = run_losing(&["POST /v1/leases HTTP"], "echo hi").await?;
        assert_eq!((task.row.attempt, stdout(task).as_str()), (2, "hi\n"), "an attempt is a label that only grows");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn lost_renewals_cost_no_attempt() -> Result<()> {
    bounded(async {
        let task = run_losing(&["/renew HTTP", "/renew HTTP"], "echo one; sleep 4; echo two").await?;
        assert_eq!((task.row.attempt, stdout(task).as_str()), (1, "one\ntwo\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn lost_answers_to_events_double_no_output() -> Result<()> {
    bounded(async {
        let lost = ["/events HTTP", "/events HTTP", "/events HTTP"];
        let code = "for i in $(seq 20); do echo line $i; sleep 0.1; done";
        let task = run_losing(&lost, code).await?;
        let expected: String = (1..=20).map(|number| format!("line {number}\n")).collect();
        assert_eq!((task.row.attempt, stdout(task)), (1, expected));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lost_answer_to_a_report_loses_no_result() -> Result<()> {
    bounded(async {
        let task = run_losing(&["/report HTTP"], "echo hi").await?;
        assert_eq!((task.row.attempt, stdout(task).as_str()), (1, "hi\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_kind_of_answer_can_be_lost_in_one_life() -> Result<()> {
    bounded(async {
        let lost = ["POST /v1/leases HTTP", "/renew HTTP", "/events HTTP", "/report HTTP"];
        let task = run_losing(&lost, "echo hi; sleep 1; echo there").await?;
        assert_eq!((task.row.attempt, stdout(task).as_str()), (2, "hi\nthere\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lost_answer_to_a_submission_makes_no_second_task() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let proxy = Proxy::before(&coordinator.url()).await?;
        proxy.swallow_next("POST /v1/tasks HTTP");
        let sent = coordinator.cw(&["--coordinator", proxy.url(), "send", "r", "--shell", "echo once"]).await?;
        let id = sent.with_code(0)?.out.trim().parse()?;
        assert_eq!(proxy.swallowed(), 1);
        assert_eq!(coordinator.api()?.all_tasks("r").await?, [id]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lost_answer_to_a_cancel_is_asked_for_again() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let id = coordinator.api()?.submit_shell("r", "true").await?.row.id;
        let proxy = Proxy::before(&coordinator.url()).await?;
        proxy.swallow_next("/cancel HTTP");
        coordinator.cw(&["--coordinator", proxy.url(), "cancel", &id.to_string()]).await?.with_code(0)?;
        assert_eq!(proxy.swallowed(), 1);
        assert_eq!(coordinator.api()?.task(id).await?.row.state, TaskState::Cancelled);
        Ok(())
    })
    .await
}
