//! Files of tasks: brought by a live lease, published by its report, fetched by who may see the task, and swept when nobody
//! names them. Everything that a worker says of them is untrusted.

use std::path::PathBuf;
use std::sync::Arc;

use protocol::Code;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::{Running, eventually, kept, short_leases, spec, spec_with};
use crate::worker::Lease;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

async fn leased(on: &Running) -> Lease {
    on.submit(&spec("a")).await;
    let lease = on.worker(&["a"]).await.lease().await;
    lease.renew(0).await.ok();
    lease
}

fn blobs(dir: &TempDir) -> Vec<PathBuf> {
    let found = ["blobs", "incoming"].map(|part| std::fs::read_dir(dir.path().join("objects").join(part)).unwrap());
    found.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

async fn swept(on: &Running, left: usize) {
    eventually("the blobs are swept", async || (blobs(&on.dir).len() == left).then_some(())).await;
}

async fn artifacts(on: &Running, lease: &Lease) -> Value {
    on.done(&lease.task).await["result"]["artifacts"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_file_is_published_by_the_report_and_fetched_as_a_download() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    assert_eq!(lease.upload("output/ä b.csv", b"abc").await.ok(), json!({"size": 3, "sha256": ABC}));
    let path = format!("/v1/tasks/{}/artifacts/output/%C3%A4%20b.csv", lease.task);
    on.get(&path).await.refused(Code::NotFound);
    lease.exit(0).await.ok();
    let expected = json!([{"path": "output/ä b.csv", "size": 3, "sha256": ABC, "media_type": "text/csv", "kind": "output",
        "stored": true}]);
    assert_eq!(artifacts(&on, &lease).await, expected);
    let file = on.get(&path).await;
    assert_eq!((file.status, file.text().as_str()), (200, "abc"));
    assert_eq!(file.headers["content-type"], "text/csv");
    assert_eq!(file.headers["content-length"], "3");
    assert_eq!(file.headers["etag"], format!("\"{ABC}\""));
    assert_eq!(file.headers["x-content-type-options"], "nosniff");
    assert!(file.headers["content-disposition"].to_str().unwrap().starts_with("attachment; filename=\"__b.csv\""));
    let again = on.request(Method::GET, &path).bearer_auth(&on.admin).header("if-none-match", format!("\"{ABC}\""));
    assert_eq!(again.send().await.unwrap().status(), 304);
    let on = Running::start_in(on.stop().await, |_| {}).await;
    assert_eq!(on.get(&path).await.text(), "abc", "it outlives the coordinator");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_for_those_who_may_see_the_task() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    lease.upload("x", b"abc").await.ok();
    lease.exit(0).await.ok();
    let path = format!("/v1/tasks/{}/artifacts/x", lease.task);
    let (_, other) = on.key(json!({"role": "client", "repos": ["b"]})).await;
    on.ask(&other, Method::GET, &path, None).await.refused(Code::WrongRepo);
    on.ask(&lease.worker.key, Method::GET, &path, None).await.refused(Code::WrongRole);
    let (_, own) = on.key(json!({"role": "client", "repos": ["a"]})).await;
    assert_eq!(on.ask(&own, Method::GET, &path, None).await.text(), "abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_coordinator_counted_wins_over_what_the_worker_says() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    lease.upload("x", b"abc").await.ok();
    let said = |path: &str, sha256: &str, stored: bool| json!({"path": path, "size": 9, "sha256": sha256, "media_type": "text/html\r\nx: y", "kind": "evil", "stored": stored});
    let zeros = "0".repeat(64);
    let report = json!({"outcome": {"exited": {"code": 0}}, "artifacts": [
        said("x", &zeros, false), said("big.bin", &zeros, true), said("big.bin", ABC, true), said("lie", "no hash", true),
    ], "skipped": [{"path": "x", "why": "no answer"}, {"path": "big.bin", "why": "w".repeat(5000)}]});
    lease.report(&report).await.ok();
    let result = on.done(&lease.task).await["result"].clone();
    assert_eq!(
        result["artifacts"],
        json!([
            {"path": "big.bin", "size": 9, "sha256": zeros, "media_type": "application/octet-stream", "kind": "artifact",
                "stored": false},
            {"path": "x", "size": 3, "sha256": ABC, "media_type": "application/octet-stream", "kind": "artifact",
                "stored": true},
        ])
    );
    assert_eq!(result["skipped"][0]["why"].as_str().unwrap().len(), 1024);
    on.get(&format!("/v1/tasks/{}/artifacts/big.bin", lease.task)).await.refused(Code::NotStored);
    on.get(&format!("/v1/tasks/{}/artifacts/lie", lease.task)).await.refused(Code::NotFound);
    on.get(&format!("/v1/tasks/{}/artifacts/..%2F..%2Fqueue.db", lease.task)).await.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_path_is_refused_by_name_in_an_upload_and_in_a_report() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    for bad in ["../x", "/etc/passwd", "a//b", "a/./b", "nul\0", &"x".repeat(1025)] {
        let problem = lease.upload(bad, b"abc").await.refused(Code::InvalidQuery);
        assert!(problem.detail.contains("`path`"), "{problem:?}");
        let named = json!([{"path": bad, "size": 1, "sha256": ABC, "media_type": "", "kind": ""}]);
        let report = json!({"outcome": "oom", "artifacts": named});
        let problem = lease.report(&report).await.refused(Code::InvalidField);
        assert_eq!(problem.errors[0].field, "artifacts[0].path");
    }
    lease.upload_with(&[], b"").await.refused(Code::InvalidQuery);
    lease.upload_with(&[("path", "a"), ("size", "1")], b"").await.refused(Code::InvalidQuery);
    assert!(blobs(&on.dir).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_live_or_not_the_callers_uploads_nothing() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let (_, thief) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    lease.stolen_by(&thief).upload("x", b"abc").await.refused(Code::LeaseLost);
    lease.exit(0).await.ok();
    lease.upload("x", b"abc").await.refused(Code::LeaseLost);
    assert_eq!(artifacts(&on, &lease).await, json!([]));
    assert!(blobs(&on.dir).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_while_it_uploads_leaves_nothing() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let request = on.request(Method::POST, &format!("/v1/leases/{}/uploads?path=x", lease.id));
    let uploading = tokio::spawn(request.bearer_auth(&lease.worker.key).body(body).send());
    // More than waits in memory.
    sender.send(Ok(vec![0; 300 << 10].into())).await.unwrap();
    swept(&on, 1).await;
    lease.upload("y", b"abc").await.refused(Code::Conflict);
    lease.exit(0).await.ok();
    sender.send(Ok("c".into())).await.unwrap();
    drop(sender);
    let answer = crate::answer::Answer::read(uploading.await.unwrap().unwrap()).await;
    answer.refused(Code::LeaseLost);
    swept(&on, 0).await;
    assert_eq!(artifacts(&on, &lease).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let request = on.request(Method::POST, &format!("/v1/leases/{}/uploads?path=x", lease.id));
    let uploading = tokio::spawn(request.bearer_auth(&lease.worker.key).body(body).send());
    // More than waits in memory.
    sender.send(Ok(vec![0; 300 << 10].into())).await.unwrap();
    swept(&on, 1).await;
    sender.send(Err(std::io::Error::other("gone"))).await.unwrap();
    assert!(uploading.await.unwrap().is_err());
    swept(&on, 0).await;
    lease.exit(0).await.ok();
    assert_eq!(artifacts(&on, &lease).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_brings_no_more_bytes_than_it_may_and_what_fits_stays() {
    let on = Running::start_with(|config| config.artifacts_limit = 10).await;
    let lease = leased(&on).await;
    lease.upload("x", b"12345678").await.ok();
    lease.upload("y", b"abc").await.refused(Code::TooLarge);
    lease.upload("y", &[0; 3 << 20]).await.refused(Code::TooLarge);
    lease.upload("x", b"1234567890").await.ok();
    assert_eq!(blobs(&on.dir).len(), 1, "a repeat replaces the first");
    lease.exit(0).await.ok();
    assert_eq!(artifacts(&on, &lease).await[0]["size"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_brings_no_more_files_than_it_may() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    for number in 0..protocol::artifact::MAX_ARTIFACTS {
        lease.upload(&format!("f{number}"), b"").await.ok();
    }
    lease.upload("one-more", b"").await.refused(Code::TooLarge);
    lease.exit(0).await.ok();
    assert_eq!(artifacts(&on, &lease).await.as_array().unwrap().len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_tried_again_publishes_only_the_last_ones_files() {
    let on = Running::start_with(short_leases).await;
    on.submit(&spec_with("a", json!({"retry": {"on": ["exit_nonzero"]}, "max_attempts": 2}))).await;
    let worker = on.worker(&["a"]).await;
    let first = worker.lease().await;
    first.upload("first", b"abc").await.ok();
    first.exit(1).await.ok();
    let second = worker.lease().await;
    second.upload("second", b"abc").await.ok();
    second.exit(0).await.ok();
    assert_eq!(artifacts(&on, &second).await[0]["path"], "second");
    swept(&on, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upload_of_a_lapsed_lease_is_swept_and_never_seen() {
    let on = Running::start_with(short_leases).await;
    let lease = leased(&on).await;
    lease.upload("x", b"abc").await.ok();
    on.in_state(&lease.task, "queued").await;
    lease.upload("x", b"abcd").await.refused(Code::LeaseLost);
    swept(&on, 0).await;
    let next = lease.worker.lease().await;
    next.exit(0).await.ok();
    assert_eq!(artifacts(&on, &next).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_with_their_task_and_what_belongs_to_nobody_goes_at_the_start() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    lease.upload("x", b"abc").await.ok();
    lease.exit(0).await.ok();
    let dir = on.stop().await;
    std::fs::write(dir.path().join("objects/blobs/orphan.1"), "x").unwrap();
    let on = Running::start_in(Arc::clone(&dir), |_| {}).await;
    swept(&on, 1).await;
    assert_eq!(on.get(&format!("/v1/tasks/{}/artifacts/x", lease.task)).await.text(), "abc");
    let dir = on.stop().await;
    let on = Running::start_in(dir, |config| config.retention = kept(0, 0)).await;
    swept(&on, 0).await;
    on.get(&format!("/v1/tasks/{}/artifacts/x", lease.task)).await.refused(Code::NotFound);
}
