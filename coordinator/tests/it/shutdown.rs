//! An orderly end: whoever waits is answered at once, and nothing that was acknowledged is lost.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::raw::Raw;
use crate::running::{Running, spec};
use crate::sse::Sse;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_answered_at_once_when_it_stops() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    let parked = tokio::spawn({
        let idle = on.worker(&["b"]).await;
        async move { idle.ask(60).await }
    });
    let held = tokio::spawn({
        let lease = lease.clone();
        async move { lease.renew(10).await }
    });
    let waited = tokio::spawn({
        let request = on.http.get(format!("{}/v1/tasks/{task}?wait_s=60", on.url)).bearer_auth(&on.admin);
        async move { crate::answer::Answer::read(request.send().await.unwrap()).await }
    });
    let mut stream = Sse::open(&on, &format!("/v1/tasks/{task}/events")).await;
    let mut feed = Sse::open(&on, "/v1/events?after=0").await;
    stream.take(2).await;
    feed.take(2).await;
    on.seen(2).await;
    let since = Instant::now();
    on.tell_to_stop();
    assert_eq!(parked.await.unwrap().status, 204);
    assert_eq!(held.await.unwrap().ok(), json!({"ttl_s": 30, "stop": null}));
    assert_eq!(waited.await.unwrap().ok()["state"], "running");
    assert_eq!((stream.next().await, feed.next().await), (None, None));
    on.stop().await;
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_not_ready_while_it_stops() {
    let on = Running::start().await;
    let mut begun = Raw::connect(&on).await;
    begun.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n").await;
    // Answered: so the coordinator has taken the first connection too.
    assert_eq!(on.get("/readyz").await.status, 200);
    on.tell_to_stop();
    let answer = begun.send("\r\n").await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"unavailable\""), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    on.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_begun_is_finished() {
    let on = Running::start().await;
    let body = spec("a").to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut begun = Raw::connect(&on).await;
    begun.send(crate::raw::request("POST /v1/tasks", &on.admin, &headers)).await;
    assert_eq!(on.get("/readyz").await.status, 200);
    on.tell_to_stop();
    let answer = begun.send(&body).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(on.get("/v1/repos/a").await.ok()["queued"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_never_finishes_is_cut_after_the_grace() {
    let on = Running::start_with(|config| config.grace = Duration::from_millis(300)).await;
    let mut stuck = Raw::connect(&on).await;
    stuck.send("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Never-Ends: ").await;
    assert_eq!(on.get("/readyz").await.status, 200);
    let since = Instant::now();
    on.stop().await;
    assert!((Duration::from_millis(300)..Duration::from_secs(5)).contains(&since.elapsed()), "{:?}", since.elapsed());
    assert_eq!(stuck.rest().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_again_after_a_restart() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.change_repo("b", json!({"agent": "claude", "max_running": 2, "paused": true})).await.ok();
    on.submit(&spec("a")).await;
    worker.lease().await.exit(0).await.ok();
    on.submit(&spec("a")).await;
    let held = worker.lease().await;
    held.events(json!([crate::worker::output(1, "stdout", "half")])).await.ok();
    on.submit(&spec("b")).await;
    let before: Value = on.contents().await;
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(on.contents().await, before);
    let mut held = held;
    held.worker = crate::worker::Worker::new(&on, held.worker.key.clone(), &["a"]);
    held.renew(0).await.ok();
    held.events(json!([crate::worker::output(2, "stdout", " and half")])).await.ok();
    held.exit(0).await.ok();
    assert_eq!(on.done(&held.task).await["result"]["stdout"], "half and half");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_lease_has_its_full_time_again_after_a_restart() {
    let short = |config: &mut coordinator::config::Config| {
        config.ttls = coordinator::store::Ttls { first_s: 2, code_s: 2, agent_s: 2 };
    };
    let on = Running::start_with(short).await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    lease.renew(0).await.ok();
    // A poll that finds nothing spends half of the lease's time.
    assert_eq!(worker.ask(1).await.status, 204);
    let dir = on.stop().await;
    let since = Instant::now();
    let on = Running::start_in(dir, short).await;
    on.in_state(&lease.task, "queued").await;
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&since.elapsed()), "{:?}", since.elapsed());
}
