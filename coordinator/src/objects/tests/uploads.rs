//! Claims about what only a bucket has: uploads in parts that are cut short, a sweep that waits a day, keys that S3 refuses.

use super::servers::{BUCKET, Server, settings};
use super::{Opened, blob, bytes, incoming, kept, open_s3, until};
use crate::objects::Objects;
use crate::objects::tests::proxy::{Harm, Proxy};

const DAY_MS: i64 = 86_400_000;

/// Uploads in parts that the server still waits for.
async fn open_uploads(url: &str) -> usize {
    let answer = reqwest::get(format!("{url}/{BUCKET}?uploads")).await.unwrap();
    answer.text().await.unwrap().matches("<Upload>").count()
}

fn now() -> i64 {
    crate::clock::Clock::start(None).now().wall.as_ms()
}

#[tokio::test]
async fn a_blob_is_swept_when_it_is_older_than_a_day() {
    let Opened { objects, _dir, _server } = open_s3(Server::rclone()).await;
    let name = blob(&objects, b"x").await;
    let settled = async |ms| objects.settled(protocol::Timestamp::from_ms(ms)).await.unwrap();
    assert!(settled(now() + DAY_MS - 60_000).await.is_empty());
    assert_eq!(settled(now() + DAY_MS + 60_000).await, vec![name.clone()]);
    let unnamed = kept(&objects, b"y").await;
    assert_eq!(settled(now() + DAY_MS + 60_000).await, vec![name], "what is about to be named is not nobody's");
    unnamed.is_named();
}

#[tokio::test]
async fn names_that_s3_cannot_take_are_refused_before_they_are_tried() {
    let Opened { objects, _dir, _server } = open_s3(Server::rclone()).await;
    assert!(objects.refuses("s/fine ü.txt").is_none());
    assert!(objects.refuses("s/line\nbreak").unwrap().contains("control character"));
    assert!(objects.refuses(&format!("s/{}", "x/".repeat(600))).unwrap().contains("1024 at most"));
    let error = objects.publish("x", "s/line\nbreak").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidFilename);
}

#[tokio::test]
async fn an_upload_in_parts_that_fails_is_aborted_at_the_server() {
    let server = Server::moto().await;
    let proxy = Proxy::before(&server.url).await;
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_s3(settings(&proxy.url), dir.path()).await.unwrap();
    proxy.does(Harm::CutRequests(64 << 10));
    let error = incoming(&objects, &bytes(20_000_000)).await.keep().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("failed to write") && error.contains(&proxy.url), "{error}");
    proxy.does(Harm::None);
    until("the upload is aborted", async || open_uploads(&server.url).await == 0).await;
    let notes = dir.path().join("s3/uploads");
    until("its note is gone", async || std::fs::read_dir(&notes).unwrap().count() == 0).await;
}

#[tokio::test]
async fn an_upload_that_a_crash_left_is_aborted_at_the_next_start() {
    let server = Server::moto().await;
    let dir = tempfile::tempdir().unwrap();
    drop(Objects::open_s3(settings(&server.url), dir.path()).await.unwrap());
    let begun = reqwest::Client::new().post(format!("{}/{BUCKET}/some/where/.cw/blobs/x?uploads", server.url));
    let begun = begun.send().await.unwrap().text().await.unwrap();
    let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
    let notes = dir.path().join("s3/uploads");
    std::fs::write(notes.join("0"), format!("some/where/.cw/blobs/x\n{id}")).unwrap();
    assert_eq!(open_uploads(&server.url).await, 1);
    drop(Objects::open_s3(settings(&server.url), dir.path()).await.unwrap());
    assert_eq!(open_uploads(&server.url).await, 0);
    assert_eq!(std::fs::read_dir(notes).unwrap().count(), 0);
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_is_used_again() {
    let server = Server::rclone();
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::open_s3(settings(&server.url), dir.path()).await.unwrap();
    let old = blob(&objects, &bytes(9_000_000)).await;
    let mut reading = objects.read(&old, 0..9_000_000).await.unwrap();
    reading.next().await.unwrap().unwrap();
    let (served, url) = server.kill();
    let mut broken = None;
    while broken.is_none() {
        broken = reading.next().await.err();
    }
    let error = kept_or_error(&objects).await.unwrap_err();
    assert!(error.contains("cannot be reached"), "{error}");
    let _server = Server::rclone_in(served, url.trim_start_matches("http://"));
    assert_eq!(objects.bytes(&old, 9_000_000).await.unwrap(), bytes(9_000_000));
    kept_or_error(&objects).await.unwrap();
}

async fn kept_or_error(objects: &Objects) -> Result<(), String> {
    incoming(objects, b"new").await.keep().await.map(|_| ()).map_err(|error| error.to_string())
}
