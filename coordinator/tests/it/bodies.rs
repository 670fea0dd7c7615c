//! Bodies that are too large or never come: refused, unread where their size is declared.

use std::time::Duration;

use coordinator::config::Patience;
use protocol::Code;
use reqwest::Method;
use serde_json::json;

use crate::answer::Answer;
use crate::raw::{Raw, request};
use crate::running::{Running, spec, spec_with};

const MIB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_that_it_is_too_large_is_refused_unread() {
    let on = Running::start().await;
    for (line, length) in [
        ("POST /v1/tasks", 8 * MIB + 1),
        ("POST /v1/leases", 64 * 1024 + 1),
        ("POST /v1/keys", 64 * 1024 + 1),
        ("PUT /v1/leases/lease_00000000000000000000000000/report", usize::MAX / 2),
        ("PATCH /v1/repos/a", 1 << 40),
    ] {
        let headers = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        // Not a byte of the body is sent: the answer comes all the same.
        let mut raw = Raw::connect(&on).await;
        let answer = raw.send(request(line, &on.admin, &headers)).await.until("request_id").await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"), "{line}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_is_cut_at_the_cap() {
    let on = Running::start().await;
    let before = on.contents().await;
    for (line, pieces) in [("POST /v1/tasks", 9), ("POST /v1/keys", 1)] {
        let mut raw = Raw::connect(&on).await;
        raw.send(request(line, &on.admin, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")).await;
        for _ in 0..pieces {
            raw.send(format!("{MIB:x}\r\n{}\r\n", " ".repeat(MIB))).await;
        }
        let answer = raw.until("request_id").await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too_large"), "{line}: {answer}");
    }
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_may_have_eight_mebibytes_but_its_parts_less() {
    let on = Running::start().await;
    let code = |bytes: usize| json!({"repo": "a", "run": {"kind": "python", "code": "x".repeat(bytes)}});
    assert_eq!(on.post("/v1/tasks", &code(MIB)).await.status, 201);
    on.post("/v1/tasks", &code(MIB + 1)).await.refused(Code::InvalidField);
    let files = |bytes: usize| spec_with("a", json!({"files": {"big": "x".repeat(bytes)}}));
    assert_eq!(on.post("/v1/tasks", &files(4 * MIB)).await.status, 201);
    on.post("/v1/tasks", &files(4 * MIB + 1)).await.refused(Code::InvalidField);
    let body = spec("a").to_string();
    let padded = format!("{body}{}", " ".repeat(8 * MIB - body.len()));
    let send = async |body: String| {
        let request = on.request(Method::POST, "/v1/tasks").bearer_auth(&on.admin);
        Answer::read(request.header("content-type", "application/json").body(body).send().await.unwrap()).await
    };
    assert_eq!(send(padded).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_far_too_much_reads_why_it_was_refused() {
    let on = Running::start().await;
    for _ in 0..10 {
        let request = on.request(Method::POST, "/v1/tasks").bearer_auth(&on.admin);
        let request = request.header("content-type", "application/json").body(vec![b' '; 16 * MIB]);
        Answer::read(request.send().await.unwrap()).await.refused(Code::TooLarge);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_trickles_in_is_cut() {
    let timeout = Duration::from_millis(300);
    let on = Running::start_with(|config| config.patience.body_timeout = timeout).await;
    let before = on.contents().await;
    let mut raw = Raw::connect(&on).await;
    raw.send(request("POST /v1/tasks", &on.admin, "Content-Type: application/json\r\nContent-Length: 1000\r\n")).await;
    raw.send("{\"repo\"").await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("body_timeout"), "{answer}");
    assert_eq!(on.contents().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_changes_nothing() {
    let on = Running::start().await;
    let before = on.contents().await;
    let body = spec("a").to_string();
    for headers in ["Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut raw = Raw::connect(&on).await;
        raw.send(request("POST /v1/tasks", &on.admin, &format!("Content-Type: application/json\r\n{headers}"))).await;
        raw.send(if headers.starts_with('T') { format!("{:x}\r\n{body}\r\n", body.len()) } else { body.clone() }).await;
        drop(raw);
    }
    assert_eq!(on.contents().await, before);
}

#[test]
fn a_body_and_a_head_have_half_a_minute_each() {
    let usual = Patience::default();
    assert_eq!((usual.header_timeout, usual.body_timeout), (Duration::from_secs(30), Duration::from_secs(30)));
}
