//! Ends of a task that are not its own: cancel, deadline, a worker that drains, dies or comes back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::program::{is_alive, processes_of};
use e2e::worker::Setup;
use e2e::{Coordinator, Worker, bounded, eventually};
use protocol::{TaskId, TaskState};
use rustix::process::Signal;
use serde_json::json;

/// A tree of processes that does not want to end: a child in a session of its own, and a shell that ignores TERM.
const STUBBORN_TREE: &str = r#"trap '' TERM; echo partial
setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
sh -c 'echo $$ >> pids; sleep 600' &
echo $$ >> pids
while [ $(wc -l < pids) -lt 3 ]; do sleep 0.02; done
echo ready
while :; do sleep 0.1; done"#;

/// The processes of such a tree, as the machine knows them.
fn tree_of(task: TaskId) -> Result<Vec<i32>> {
    let pids = processes_of(task);
    ensure!(pids.len() >= 3, "the tree is not there: {pids:?}");
    Ok(pids)
}

async fn all_gone(pids: &[i32]) -> Result<()> {
    eventually(&format!("{pids:?} are gone"), async || Ok((!pids.iter().any(|pid| is_alive(*pid))).then_some(()))).await
}

#[tokio::test]
async fn cancel_kills_the_whole_tree_and_keeps_the_output() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let id = api.submit_shell("r", STUBBORN_TREE).await?.row.id;
        api.wrote(id, "ready").await?;
        let pids = tree_of(id)?;
        let asked_at = Instant::now();
        let ran = coordinator.cw(&["cancel", &id.to_string()]).await?;
        assert_eq!(ran.code, 0, "{ran:?}");
        let task = api.done(id).await?;
        // TERM is ignored here, so it takes the grace of 5 s; a held renewal would have taken 10 s more.
        assert!(asked_at.elapsed() < Duration::from_secs(10), "{:?}", asked_at.elapsed());
        assert_eq!((task.row.state, task.row.cancel_requested_at.is_some()), (TaskState::Cancelled, true));
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("partial\nready\n"));
        all_gone(&pids).await
    })
    .await
}

#[tokio::test]
async fn cancel_stops_a_task_that_heeds_term_at_once() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let _worker = Worker::start(&coordinator, "r").await?;
        let id = api.submit_shell("r", "echo ready; exec sleep 600").await?.row.id;
        api.wrote(id, "ready").await?;
        let asked_at = Instant::now();
        api.cancel(id).await?;
        assert_eq!(api.done(id).await?.row.state, TaskState::Cancelled);
        assert!(asked_at.elapsed() < Duration::from_secs(3), "{:?}", asked_at.elapsed());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_deadline_kills_the_tree_and_keeps_what_was_written() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let setup = Setup { name: "w", repo: "r", variables: &[("CW_GRACE", "1s")] };
        let _worker = Worker::start_as(&coordinator, setup).await?;
        let run = json!({"kind": "shell", "code": STUBBORN_TREE});
        let id = api.submit(json!({"repo": "r", "run": run, "timeout_s": 3})).await?.row.id;
        api.wrote(id, "ready").await?;
        let pids = tree_of(id)?;
        let task = api.done(id).await?;
        assert_eq!((task.row.state, task.row.attempt), (TaskState::TimedOut, 1));
        let result = task.result.expect("a done task has a result");
        assert_eq!((result.stdout.as_str(), result.exit_code), ("partial\nready\n", None));
        all_gone(&pids).await
    })
    .await
}

#[tokio::test]
async fn term_lets_a_worker_finish_its_task_and_take_no_other() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let mut worker = Worker::start(&coordinator, "r").await?;
        let gate = coordinator.gate();
        let code = format!("echo begun; {}; echo finished", gate.wait());
        let running = api.submit_shell("r", &code).await?.row.id;
        api.wrote(running, "begun").await?;
        worker.program().signal(Signal::TERM)?;
        worker.says("draining").await?;
        let late = api.submit_shell("r", "echo late").await?.row.id;
        gate.open()?;
        let task = api.done(running).await?;
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("begun\nfinished\n"));
        assert_eq!(worker.program().ended().await?.code(), Some(0));
        let late = api.task(late).await?;
        assert_eq!((late.row.state, late.row.attempt), (TaskState::Queued, 0));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_second_term_gives_the_task_back_without_spending_an_attempt() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start().await?;
        let api = coordinator.api()?;
        let mut worker = Worker::start(&coordinator, "r").await?;
        let run = json!({"kind": "shell", "code": "echo ready; exec sleep 600"});
        let id = api.submit(json!({"repo": "r", "run": run, "max_attempts": 1})).await?.row.id;
        api.wrote(id, "ready").await?;
        worker.program().signal(Signal::TERM)?;
        worker.says("draining").await?;
        worker.program().signal(Signal::TERM)?;
        worker.program().ended().await?;
        assert_eq!(api.task(id).await?.row.state, TaskState::Queued);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_killed_worker_leaves_no_process_of_its_task_alive() -> Result<()> {
    bounded(async {
        let coordinator = Coordinator::start_with(&[("CW_LEASE_TTL", "2s"), ("CW_FIRST_LEASE_TTL", "2s")]).await?;
        let api = coordinator.api()?;
        let mut worker = Worker::start(&coordinator, "r").await?;
        let run = json!({"kind": "shell", "code": STUBBORN_TREE});
        let id = api.submit(json!({"repo": "r", "run": run, "max_attempts": 1})).await?.row.id;
        api.wrote(id, "ready").await?;
        let pids = tree_of(id)?;
        worker.program().kill().await?;
        all_gone(&pids).await?;
        let task = api.done(id).await?;
        assert_eq!(task.row.reason, Some(protocol::Reason::LeaseLost));
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("partial\nready\n"), "output is kept");
        Ok(())
    })
    .await
}

/// The worker dies between the end of its task and the acknowledgement of the report: the coordinator is away.
#[tokio::test]
async fn a_restarted_worker_resends_the_report_that_nobody_acknowledged() -> Result<()> {
    bounded(async {
        let mut coordinator = Coordinator::start_lasting(&[]).await?;
        let mut worker = Worker::start(&coordinator, "r").await?;
        let gate = coordinator.gate();
        let code = format!("echo begun; {}; echo finished", gate.wait());
        let id = coordinator.api()?.submit_shell("r", &code).await?.row.id;
        coordinator.api()?.wrote(id, "begun").await?;
        coordinator.kill().await?;
        gate.open()?;
        let spool = worker.state_dir().join("spool");
        let in_spool = || std::fs::read_dir(&spool).into_iter().flatten().flatten();
        let is_report = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|kind| kind == "json");
        eventually("the report is in the spool", async || Ok(in_spool().any(is_report).then_some(()))).await?;
        worker.program().kill().await?;
        coordinator.restart().await?;
        worker.restart().await?;
        let task = coordinator.api()?.done(id).await?;
        assert_eq!((task.row.state, task.row.attempt), (TaskState::Completed, 1));
        assert_eq!(task.result.map(|result| result.stdout).as_deref(), Some("begun\nfinished\n"));
        assert_eq!(worker.starts(id), 1, "it ran once");
        eventually("the spool is empty", async || Ok((!in_spool().any(is_report)).then_some(()))).await
    })
    .await
}
