//! Why a task is where it is: one test, one task for each code.

use serde_json::{Value, json};

use crate::running::{Running, spec, spec_with};

async fn code(on: &Running, task: &str) -> Value {
    let why = on.why(task).await;
    assert!(!why["summary"].as_str().unwrap().is_empty());
    assert_eq!(why["state"], on.task(task).await["state"]);
    why["code"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_what_a_queued_task_waits_for() {
    let on = Running::start().await;
    let task = on.submit(&spec("a")).await;
    assert_eq!(code(&on, &task).await, "no_worker");
    let worker = on.worker(&["a"]).await;
    let shell = worker.clone().runs(&["shell"]);
    assert!(shell.look().await.is_none());
    assert_eq!(code(&on, &task).await, "no_fitting_worker");
    assert!(on.why(&task).await["summary"].as_str().unwrap().contains("python"), "says what is missing");
    on.change_repo("a", json!({"paused": true})).await.ok();
    assert!(worker.look().await.is_none());
    assert_eq!(code(&on, &task).await, "repo_paused");
    on.change_repo("a", json!({"paused": false})).await.ok();
    assert_eq!(code(&on, &task).await, "next");
    let lease = worker.lease().await;
    let second = on.submit(&spec("a")).await;
    assert_eq!(code(&on, &second).await, "workers_busy");
    on.change_repo("a", json!({"max_running": 1})).await.ok();
    assert_eq!(code(&on, &second).await, "repo_full");
    lease.exit(0).await.ok();
    assert_eq!(code(&on, &second).await, "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_hold_of_a_task() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let later = on.submit(&spec_with("a", json!({"not_before": "2999-01-01T00:00:00Z"}))).await;
    assert_eq!(code(&on, &later).await, "not_before");
    let first = on.submit(&spec_with("a", json!({"session": "s"}))).await;
    let second = on.submit(&spec_with("a", json!({"session": "s"}))).await;
    assert_eq!(code(&on, &second).await, "session_busy");
    assert!(on.why(&second).await["summary"].as_str().unwrap().contains(&first), "says who goes first");
    worker.lease().await;
    assert!(on.why(&second).await["summary"].as_str().unwrap().contains(&first), "says who works there");
    let retried = on.submit(&spec_with("a", json!({"retry": {"on": ["exit_nonzero"], "backoff_s": 600}}))).await;
    worker.lease().await.exit(1).await.ok();
    assert_eq!(code(&on, &retried).await, "backoff");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_says_who_runs_a_task_and_how_it_ended() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    assert_eq!(code(&on, &task).await, "running");
    assert!(on.why(&task).await["summary"].as_str().unwrap().contains(worker.id()));
    on.cancel(&task).await.ok();
    assert_eq!(code(&on, &task).await, "stopping");
    lease.exit(0).await.ok();
    let why = on.why(&task).await;
    assert_eq!((&why["code"], &why["state"], &why["ahead"]), (&json!("done"), &json!("cancelled"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn why_counts_the_tasks_that_go_first() {
    let on = Running::start().await;
    on.submit(&spec("a")).await;
    on.submit(&spec_with("a", json!({"priority": "low"}))).await;
    on.submit(&spec("b")).await;
    let task = on.submit(&spec("a")).await;
    assert_eq!(on.why(&task).await["ahead"], 1);
    on.submit(&spec_with("a", json!({"priority": "high"}))).await;
    assert_eq!(on.why(&task).await["ahead"], 2);
}
