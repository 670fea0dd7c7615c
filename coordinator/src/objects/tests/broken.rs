//! Claims about a store that does wrong: what is read is whole or a clear error, within bounds; what is written is whole or
//! not there.

use std::time::{Duration, Instant};

use super::proxy::{Harm, Proxy};
use super::servers::{Server, settings};
use super::{blob, bytes, incoming};
use crate::objects::Objects;

struct Behind {
    proxy: Proxy,
    objects: Objects,
    server: Server,
    _dir: tempfile::TempDir,
}

async fn behind_a_proxy() -> Behind {
    let server = Server::rclone();
    let proxy = Proxy::before(&server.url).await;
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&proxy.url);
    settings.patience.answer = Duration::from_secs(5);
    settings.patience.piece = Duration::from_secs(1);
    let objects = Objects::open_s3(settings, dir.path()).await.unwrap();
    Behind { proxy, objects, server, _dir: dir }
}

#[tokio::test]
async fn a_store_that_answers_500_a_few_times_is_asked_again() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    proxy.does(Harm::Refuse(3));
    let name = blob(objects, b"whole").await;
    assert_eq!(objects.bytes(&name, 5).await.unwrap(), "whole");
}

#[tokio::test]
async fn a_store_that_always_answers_500_is_given_up_with_its_name() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let name = blob(objects, b"whole").await;
    proxy.does(Harm::Refuse(usize::MAX));
    for error in [
        objects.bytes(&name, 5).await.unwrap_err(),
        incoming(objects, b"x").await.keep().await.map(|_| ()).unwrap_err(),
        objects.remove(vec![name.clone()]).await.unwrap_err(),
        objects.publish(&name, "s/x").await.unwrap_err(),
    ] {
        let said = error.to_string();
        assert!(said.contains(&proxy.url) && said.contains("bucket") && said.contains("500"), "{said}");
    }
}

#[tokio::test]
async fn small_answers_that_are_cut_are_pieced_together() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let whole = bytes(250_000);
    let name = blob(objects, &whole).await;
    proxy.does(Harm::CutAnswers(64 << 10));
    assert_eq!(objects.bytes(&name, 250_000).await.unwrap(), whole);
}

#[tokio::test]
async fn an_answer_that_is_cut_after_every_64_kib_ends_in_a_clear_error() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let whole = bytes(5_000_000);
    let name = blob(objects, &whole).await;
    proxy.does(Harm::CutAnswers(64 << 10));
    let began = Instant::now();
    let error = objects.bytes(&name, 5_000_000).await.unwrap_err().to_string();
    assert!(error.contains("failed to read") && error.contains(&proxy.url), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(60) && proxy.connections.load(std::sync::atomic::Ordering::Relaxed) < 80
    );
    proxy.does(Harm::None);
    assert_eq!(objects.bytes(&name, 5_000_000).await.unwrap(), whole);
}

#[tokio::test]
async fn a_request_that_is_cut_after_64_kib_leaves_no_blob() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    proxy.does(Harm::CutRequests(64 << 10));
    let error = incoming(objects, &bytes(1_000_000)).await.keep().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("failed to write") && error.contains("connection broke"), "{error}");
    proxy.does(Harm::None);
    let far = protocol::Timestamp::from_ms(i64::MAX / 2);
    assert!(objects.settled(far).await.unwrap().is_empty(), "nothing that could be taken for a blob");
}

#[tokio::test]
async fn a_body_that_is_shorter_than_it_should_be_is_completed_or_refused() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let whole = bytes(300_000);
    let name = blob(objects, &whole).await;
    proxy.does(Harm::Shorten(1000));
    match objects.bytes(&name, 300_000).await {
        Ok(read) => assert_eq!(read, whole),
        Err(error) => assert!(error.to_string().contains("failed to read"), "{error}"),
    }
}

#[tokio::test]
async fn a_store_that_goes_silent_is_given_up_in_time() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let name = blob(objects, b"whole").await;
    proxy.does(Harm::Stall);
    let began = Instant::now();
    let error = objects.bytes(&name, 5).await.unwrap_err().to_string();
    assert!(error.contains("did not answer within 5 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_slow_store_is_waited_for() {
    let behind = behind_a_proxy().await;
    let Behind { proxy, objects, .. } = &behind;
    let whole = bytes(300_000);
    let name = blob(objects, &whole).await;
    proxy.does(Harm::Slow(100));
    assert_eq!(objects.bytes(&name, 300_000).await.unwrap(), whole);
}

#[tokio::test]
async fn bytes_that_changed_in_the_store_are_refused() {
    let behind = behind_a_proxy().await;
    let objects = &behind.objects;
    let name = blob(objects, b"whole").await;
    let file = behind.server.dir.path().join("bucket/some/where/.cw/blobs").join(&name);
    std::fs::write(file, b"whale").unwrap();
    let error = objects.bytes(&name, 5).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("its sum differs"), "{error}");
}
