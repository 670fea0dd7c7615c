//! One writing task a session; readers run side by side.

use serde_json::{Value, json};

use crate::running::short_leases;
use crate::running::{Running, spec_with};

fn writer(session: &str) -> Value {
    spec_with("a", json!({"session": session}))
}

fn reader(session: &str) -> Value {
    spec_with("a", json!({"session": session, "session_mode": "read"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_at_a_time_writes_in_a_session() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let first = on.submit(&writer("s")).await;
    let second = on.submit(&writer("s")).await;
    let elsewhere = on.submit(&writer("t")).await;
    let lease = worker.look().await.unwrap();
    assert_eq!(lease.task, first);
    assert_eq!(worker.look().await.unwrap().task, elsewhere);
    assert!(worker.look().await.is_none(), "the second waits");
    lease.exit(0).await.ok();
    assert_eq!(worker.look().await.unwrap().task, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_session_run_side_by_side_also_beside_a_writer() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&writer("s")).await;
    for _ in 0..3 {
        on.submit(&reader("s")).await;
    }
    for _ in 0..4 {
        assert!(worker.look().await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_session_the_more_urgent_goes_first() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let mut tasks = Vec::new();
    for priority in ["normal", "low", "high", "critical"] {
        tasks.push(on.submit(&spec_with("a", json!({"session": "s", "priority": priority}))).await);
    }
    for place in [3, 2, 0, 1] {
        let lease = worker.look().await.unwrap();
        assert_eq!(lease.task, tasks[place]);
        assert!(worker.look().await.is_none());
        lease.exit(0).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_a_writer_wakes_a_parked_worker_for_the_next() {
    let on = Running::start_with(short_leases).await;
    let worker = on.worker(&["a"]).await;
    for end in ["report", "cancel while queued", "lapse to the end"] {
        let first = on.submit(&spec_with("a", json!({"session": "s", "max_attempts": 1, "priority": "high"}))).await;
        if end == "cancel while queued" {
            let second = on.submit(&writer("s")).await;
            on.cancel(&first).await.ok();
            let lease = worker.lease().await;
            assert_eq!(lease.task, second, "{end}");
            lease.exit(0).await.ok();
            continue;
        }
        let lease = worker.lease().await;
        let second = on.submit(&writer("s")).await;
        let parked = tokio::spawn({
            let worker = worker.clone();
            async move { worker.lease().await }
        });
        lease.renew(0).await.ok();
        if end == "report" {
            lease.exit(0).await.ok();
        }
        let next = parked.await.unwrap();
        assert_eq!(next.task, second, "{end}");
        next.exit(0).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_writer_goes_before_those_that_came_later() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let first = on.submit(&writer("s")).await;
    on.submit(&writer("s")).await;
    worker.look().await.unwrap().release().await.ok();
    let again = worker.look().await.unwrap();
    assert_eq!(again.task, first);
    assert!(worker.look().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_waits_for_an_instant_does_not_hold_its_session() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec_with("a", json!({"session": "s", "not_before": "2999-01-01T00:00:00Z"}))).await;
    let now = on.submit(&writer("s")).await;
    assert_eq!(worker.look().await.unwrap().task, now);
}
