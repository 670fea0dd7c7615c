//! What is older than it must be kept goes, and nothing else.

use coordinator::config::Config;
use protocol::Code;
use serde_json::json;

use crate::running::{Running, eventually, kept, spec, spec_with};
use crate::sse::Sse;
use crate::worker::{Worker, output};

const YEAR_MS: i64 = 365 * 86_400_000;

fn keep(tasks_ms: i64, output_ms: i64) -> impl FnOnce(&mut Config) {
    move |config| config.retention = kept(tasks_ms, output_ms)
}

async fn one_done(on: &Running, worker: &Worker) -> String {
    let task = on.submit(&spec_with("a", json!({"labels": {"k": "v"}}))).await;
    let lease = worker.lease().await;
    lease.events(json!([output(1, "stdout", "text"), {"number": 2, "type": "message", "data": "said"}])).await.ok();
    lease.exit(0).await.ok();
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn done_tasks_that_are_old_are_deleted_with_all_that_is_kept_of_them_and_others_stay() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let done = one_done(&on, &worker).await;
    let cancelled = on.submit(&spec("a")).await;
    on.cancel(&cancelled).await.ok();
    let running = on.submit(&spec("a")).await;
    worker.lease().await.renew(0).await.ok();
    let queued = on.submit(&spec_with("a", json!({"labels": {"k": "v"}}))).await;
    let on = Running::start_in(on.stop().await, keep(0, 0)).await;
    for gone in [&done, &cancelled] {
        let look = async || (on.get(&format!("/v1/tasks/{gone}")).await.status == 404).then_some(());
        eventually("it is deleted", look).await;
        on.get(&format!("/v1/tasks/{gone}/events")).await.refused(Code::NotFound);
        on.get(&format!("/v1/tasks/{gone}/output")).await.refused(Code::NotFound);
    }
    assert_eq!(on.task(&running).await["state"], "running");
    assert_eq!(on.task(&queued).await["state"], "queued");
    let labelled = on.get("/v1/tasks?label=k=v").await.ok();
    assert_eq!(labelled["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_output_goes_before_its_task_whose_result_keeps_what_it_shows() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = one_done(&on, &worker).await;
    let on = Running::start_in(on.stop().await, keep(YEAR_MS, 0)).await;
    let output = format!("/v1/tasks/{task}/output");
    eventually("its output is deleted", async || on.get(&output).await.bytes.is_empty().then_some(())).await;
    let kept = on.task(&task).await;
    assert_eq!((&kept["state"], &kept["result"]["stdout"]), (&json!("completed"), &json!("text")));
    let told = Sse::open(&on, &format!("/v1/tasks/{task}/events")).await.rest().await;
    let kinds: Vec<_> = told.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(kinds, ["state", "state", "message", "state"], "and the stream still ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_before_its_time() {
    let on = Running::start_with(keep(YEAR_MS, YEAR_MS)).await;
    let worker = on.worker(&["a"]).await;
    let task = one_done(&on, &worker).await;
    let before = on.contents().await;
    let on = Running::start_in(on.stop().await, keep(YEAR_MS, YEAR_MS)).await;
    assert_eq!(on.contents().await, before);
    assert_eq!(on.get(&format!("/v1/tasks/{task}/output")).await.text(), "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_one_batch_of_old_tasks_goes_in_one_pass() {
    let on = Running::start().await;
    for _ in 0..450 {
        let task = on.submit(&spec("a")).await;
        on.cancel(&task).await.ok();
    }
    let on = Running::start_in(on.stop().await, keep(0, 0)).await;
    let is_empty = async || on.get("/v1/tasks").await.ok()["items"].as_array().unwrap().is_empty().then_some(());
    eventually("all are deleted", is_empty).await;
}
