//! Who goes first: the more urgent, then repos in turn, then the order of submission; and what waits for a time.

use std::time::{Duration, Instant};

use protocol::Timestamp;
use serde_json::{Value, json};

use crate::running::{Running, spec, spec_with};
use crate::worker::Worker;

async fn leased_in_order(worker: &Worker) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(lease) = worker.look().await {
        order.push(lease.task);
    }
    order
}

fn in_ms(ms: i64) -> Value {
    let now = coordinator::clock::Clock::start(None).now().wall;
    json!(Timestamp::to_string(&now.plus_ms(ms)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_more_urgent_goes_first() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let mut submitted = Vec::new();
    for priority in ["low", "normal", "critical", "high", "low", "critical"] {
        submitted.push(on.submit(&spec_with("a", json!({"priority": priority}))).await);
    }
    let expected: Vec<_> = [2, 5, 3, 1, 0, 4].map(|place| submitted[place].clone()).into();
    assert_eq!(leased_in_order(&worker).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn within_a_repo_the_order_of_submission_holds_whatever_the_kinds() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await.runs(&["python", "shell", "command"]);
    let mut submitted = Vec::new();
    for place in 0..12 {
        let run = match place % 3 {
            0 => json!({"kind": "shell", "code": "ls"}),
            1 => json!({"kind": "command", "argv": ["ls"]}),
            _ => json!({"kind": "python", "code": "1"}),
        };
        submitted.push(on.submit(&json!({"repo": "a", "run": run})).await);
    }
    assert_eq!(leased_in_order(&worker).await, submitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn within_one_priority_repos_take_turns() {
    let on = Running::start().await;
    let worker = on.worker(&["a", "b", "c"]).await;
    for repo in ["a", "a", "a", "a", "b", "b", "c"] {
        on.submit(&spec(repo)).await;
    }
    let mut repos = Vec::new();
    while let Some(lease) = worker.look().await {
        repos.push(lease.grant["repo"].as_str().unwrap().to_owned());
    }
    let mut first_round = repos[..3].to_vec();
    first_round.sort();
    assert_eq!(first_round, ["a", "b", "c"], "{repos:?}");
    let mut second_round = repos[3..5].to_vec();
    second_round.sort();
    assert_eq!(second_round, ["a", "b"], "{repos:?}");
    assert_eq!(repos[5..], ["a", "a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn urgency_goes_before_turns() {
    let on = Running::start().await;
    let worker = on.worker(&["a", "b"]).await;
    on.submit(&spec("b")).await;
    for _ in 0..3 {
        on.submit(&spec_with("a", json!({"priority": "high"}))).await;
    }
    let mut repos = Vec::new();
    while let Some(lease) = worker.look().await {
        repos.push(lease.grant["repo"].as_str().unwrap().to_owned());
    }
    assert_eq!(repos, ["a", "a", "a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_not_before_waits_for_its_instant_and_then_wakes_a_worker() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let since = Instant::now();
    let later = on.submit(&spec_with("a", json!({"not_before": in_ms(1_000)}))).await;
    let now = on.submit(&spec("a")).await;
    assert_eq!(worker.look().await.unwrap().task, now);
    assert!(worker.look().await.is_none());
    assert_eq!(worker.lease().await.task, later);
    let waited = since.elapsed();
    assert!((Duration::from_millis(990)..Duration::from_millis(2_500)).contains(&waited), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_not_before_in_the_past_holds_nothing() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec_with("a", json!({"not_before": "2001-01-01T00:00:00Z"}))).await;
    assert_eq!(worker.look().await.unwrap().task, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_task_waits_for_its_backoff() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec_with("a", json!({"retry": {"on": ["exit_nonzero"], "backoff_s": 1}}))).await;
    let first = worker.lease().await;
    let since = Instant::now();
    first.exit(1).await.ok();
    assert!(worker.look().await.is_none());
    assert_eq!(worker.lease().await.task, first.task);
    let waited = since.elapsed();
    assert!((Duration::from_millis(990)..Duration::from_millis(2_500)).contains(&waited), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_task_can_be_cancelled() {
    let on = Running::start().await;
    let task = on.submit(&spec_with("a", json!({"not_before": in_ms(3_600_000)}))).await;
    assert_eq!(on.cancel(&task).await.ok()["state"], "cancelled");
    assert_eq!(on.get("/v1/repos/a").await.ok()["queued"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_cannot_run_are_not_in_the_way_of_those_that_can() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    for _ in 0..50 {
        on.submit(&spec_with("a", json!({"priority": "critical", "not_before": in_ms(3_600_000)}))).await;
        on.submit(&spec_with("a", json!({"priority": "high", "run": {"kind": "shell", "code": "ls"}}))).await;
    }
    let task = on.submit(&spec_with("a", json!({"priority": "low"}))).await;
    assert_eq!(worker.look().await.unwrap().task, task);
}
