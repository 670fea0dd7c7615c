//! What a connection may do before it is cut: heads that are huge, slow, malformed or ambiguous, and very many at once.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::raw::{Raw, request};
use crate::running::{DEADLINE, Running, eventually, spec};

async fn lives(on: &Running) {
    assert_eq!(on.get("/readyz").await.text(), "ok\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused_and_the_coordinator_lives() {
    let on = Running::start().await;
    let one_huge = format!("X-Huge: {}\r\n", "x".repeat(200_000));
    let many: String = (0..5_000).map(|number| format!("X-{number}: y\r\n")).collect();
    for headers in [one_huge, many] {
        let answer = Raw::connect(&on).await.send(request("GET /livez", "", &headers)).await.rest().await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let long_path = format!("GET /v1/tasks?cursor={}", "1".repeat(70_000));
    let answer = Raw::connect(&on).await.send(request(&long_path, "", "")).await.rest().await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    lives(&on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_trickles_in_is_cut() {
    let timeout = Duration::from_millis(300);
    let on = Running::start_with(|config| config.patience.header_timeout = timeout).await;
    for begun in ["", "G", "GET /livez HTTP/1.1\r\n", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        // To the end: the coordinator closes it.
        let answer = Raw::connect(&on).await.send(begun).await.rest().await;
        assert!(!answer.contains("200"), "{begun:?}: {answer}");
    }
    lives(&on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_answer_outlives_the_timeout_of_heads() {
    let on = Running::start_with(|config| config.patience.header_timeout = Duration::from_millis(200)).await;
    let worker = on.worker(&["a"]).await;
    assert_eq!(worker.ask(1).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused() {
    let on = Running::start().await;
    for nonsense in [
        "\0\0\0\0\r\n\r\n".as_bytes(),
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = Raw::connect(&on).await.send(nonsense).await.rest().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{nonsense:?}: {answer}");
    }
    lives(&on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_end_is_ambiguous_does_not_smuggle_another() {
    let on = Running::start().await;
    let body = spec("a").to_string();
    let smuggled = request(
        "POST /v1/tasks",
        &on.admin,
        &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
    );
    let before = on.contents().await;
    for framing in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length : 5\r\n",
    ] {
        let first = request("POST /v1/nowhere", &on.admin, framing);
        let mut raw = Raw::connect(&on).await;
        // Whoever goes by the one length sees a second request, whoever goes by the other does not.
        let answer = raw.send(format!("{first}0\r\n\r\n{smuggled}{body}")).await.rest().await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{framing}: {answer}");
        assert!(answer.starts_with("HTTP/1.1 4"), "{framing}: {answer}");
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_fills_the_workers_listener_leaves_the_clients_alone() {
    let on = Running::start_with(|config| config.patience.max_connections = 8).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(Raw::connect_to(on.worker_url.trim_start_matches("http://")).await);
    }
    lives(&on).await;
    on.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_parked_workers_are_all_answered_at_once_when_it_stops() {
    const PARKED: usize = 2_000;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let body = worker.request(60).to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let poll = request("POST /v1/leases", &worker.key, &headers) + &body;
    let mut parked = Vec::with_capacity(PARKED);
    for _ in 0..PARKED {
        let mut raw = Raw::connect(&on).await;
        raw.send(&poll).await;
        parked.push(raw);
    }
    // One more, whose task shows that the others do not stop the queue.
    let other = on.worker(&["b"]).await;
    let task = on.submit(&spec("b")).await;
    assert_eq!(other.lease().await.task, task);
    eventually("all are parked", async || {
        let mut quiet = true;
        for raw in parked.iter_mut().rev().take(3) {
            quiet &= raw.is_quiet_for(Duration::from_millis(20)).await;
        }
        quiet.then_some(())
    })
    .await;
    let since = std::time::Instant::now();
    let stopped = tokio::spawn(on.stop());
    for mut raw in parked {
        let answer = raw.rest().await;
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }
    stopped.await.unwrap();
    assert!(since.elapsed() < DEADLINE / 2, "{:?}", since.elapsed());
}
