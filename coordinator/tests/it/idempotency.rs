//! A submission that is repeated under the same key happens once.

use std::sync::Arc;

use protocol::Code;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::running::{Running, eventually, id, kept, spec, spec_with};

async fn submit(on: &Running, key: &str, name: &str, spec: &Value) -> Answer {
    let request = on.request(Method::POST, "/v1/tasks").bearer_auth(key).header("idempotency-key", name);
    let request = request.header("content-type", "application/json").body(spec.to_string());
    Answer::read(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_body_gets_the_first_answer_even_after_the_task_is_done() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let first = submit(&on, &on.admin, "n1", &spec("a")).await;
    assert_eq!(first.status, 201);
    for step in ["queued", "running", "done"] {
        let again = submit(&on, &on.admin, "n1", &spec("a")).await;
        assert_eq!((again.status, &again.bytes), (201, &first.bytes), "{step}");
        match step {
            "queued" => drop(worker.lease().await.exit(0).await.ok()),
            "running" => drop(on.done(&id(&first.json(201))).await),
            _ => {}
        }
    }
    assert_eq!(on.get("/v1/tasks").await.ok()["items"].as_array().unwrap().len(), 1);
    assert!(worker.look().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_body_under_the_same_key_is_refused_and_makes_nothing() {
    let on = Running::start().await;
    submit(&on, &on.admin, "n1", &spec("a")).await.json(201);
    let before = on.contents().await;
    submit(&on, &on.admin, "n1", &spec("b")).await.refused(Code::IdempotencyMismatch);
    submit(&on, &on.admin, "n1", &spec_with("a", json!({"priority": "high"}))).await.refused(Code::IdempotencyMismatch);
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_is_the_callers_own() {
    let on = Running::start().await;
    let (_, other) = on.key(json!({"role": "client"})).await;
    let first = submit(&on, &on.admin, "n1", &spec("a")).await.json(201);
    let second = submit(&on, &other, "n1", &spec("a")).await.json(201);
    let third = submit(&on, &on.admin, "n2", &spec("a")).await.json(201);
    assert!(first["id"] != second["id"] && first["id"] != third["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_make_one_task() {
    let on = Arc::new(Running::start().await);
    let tries: Vec<_> = (0..50)
        .map(|_| {
            let on = on.clone();
            tokio::spawn(async move { id(&submit(&on, &on.admin, "n1", &spec("a")).await.json(201)) })
        })
        .collect();
    let mut ids = Vec::new();
    for made in tries {
        ids.push(made.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(on.get("/v1/repos/a").await.ok()["queued"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_survives_a_restart() {
    let on = Running::start().await;
    let first = submit(&on, &on.admin, "n1", &spec("a")).await.json(201);
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(submit(&on, &on.admin, "n1", &spec("a")).await.json(201), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_after_its_task_was_deleted_never_finds_another_task() {
    let on = Running::start().await;
    let first = submit(&on, &on.admin, "n1", &spec("a")).await.json(201);
    on.cancel(&id(&first)).await.ok();
    let at_once = kept(0, 0);
    let on = Running::start_in(on.stop().await, |config| config.retention = at_once).await;
    let gone = async || (on.get(&format!("/v1/tasks/{}", id(&first))).await.status == 404).then_some(());
    eventually("the task is deleted", gone).await;
    let secret = on.submit(&spec_with("b", json!({"env": {"SECRET": "of another"}}))).await;
    let again = submit(&on, &on.admin, "n1", &spec("a")).await.json(201);
    assert_ne!(id(&again), secret);
    assert_eq!(again["repo"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_is_refused() {
    let on = Running::start().await;
    for bad in ["", &"x".repeat(256), "ä"] {
        submit(&on, &on.admin, bad, &spec("a")).await.refused(Code::InvalidHeader);
    }
    let request = on.request(Method::POST, "/v1/keys").bearer_auth(&on.admin).header("idempotency-key", "n1");
    let request = request.header("content-type", "application/json").body("{\"role\": \"client\"}");
    Answer::read(request.send().await.unwrap()).await.refused(Code::InvalidHeader);
    assert_eq!(on.get("/v1/tasks").await.ok()["items"], json!([]));
}
