//! Claims about the check at the start: each error names what is wrong, says what to do, and never the secret.

use std::time::Duration;

use super::servers::{BUCKET, SECRET_KEY, Server, settings};
use crate::objects::Objects;
use crate::objects::s3::{Secret, Settings};

async fn refusal(settings: Settings) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = Objects::open_s3(settings, dir.path()).await.map(|_| ()).unwrap_err();
    let said = format!("{error:#}");
    assert!(!said.contains(SECRET_KEY) && !said.contains("guess"), "{said}");
    said
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_said() {
    let server = Server::rclone();
    let right = settings(&server.url);
    let said = refusal(Settings { access_key: "AKIDOTHER".into(), ..right.clone() }).await;
    assert!(said.contains("CW_S3_ACCESS_KEY"), "{said}");
    let said = refusal(Settings { secret_key: Secret("guess".into()), ..right.clone() }).await;
    assert!(said.contains("CW_S3_SECRET_KEY"), "{said}");
    let said = refusal(Settings { bucket: "none".into(), ..right.clone() }).await;
    assert!(said.contains("bucket none") && said.contains("CW_S3_BUCKET"), "{said}");
    assert!(said.contains(&server.url), "{said}");
}

#[tokio::test]
async fn a_bucket_that_is_missing_is_said() {
    let server = Server::moto().await;
    let said = refusal(Settings { bucket: "none".into(), ..settings(&server.url) }).await;
    assert!(said.contains("there is no such bucket; make it, or check CW_S3_BUCKET"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said() {
    let server = Server::rclone();
    let (_dir, url) = server.kill();
    let said = refusal(settings(&url)).await;
    assert!(said.contains("cannot be reached") && said.contains("CW_S3_ENDPOINT"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_silent_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = settings(&format!("http://{}", listener.local_addr().unwrap()));
    settings.patience.answer = Duration::from_millis(200);
    let said = refusal(settings).await;
    assert!(said.contains("did not answer within 0.2"), "{said}");
}

#[tokio::test]
async fn a_prefix_of_another_coordinator_is_not_taken() {
    let server = Server::rclone();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for _ in 0..2 {
        Objects::open_s3(settings(&server.url), one.path()).await.map(|_| ()).unwrap();
    }
    let error = Objects::open_s3(settings(&server.url), two.path()).await.map(|_| ()).unwrap_err();
    let said = format!("{error:#}");
    assert!(said.contains("another coordinator") && said.contains("CW_S3_PREFIX"), "{said}");
    let other = Settings { prefix: "other".into(), ..settings(&server.url) };
    Objects::open_s3(other, two.path()).await.map(|_| ()).unwrap();
}

#[tokio::test]
async fn a_check_leaves_nothing_but_the_mark() {
    let server = Server::rclone();
    let dir = tempfile::tempdir().unwrap();
    Objects::open_s3(settings(&server.url), dir.path()).await.map(|_| ()).unwrap();
    let left = std::fs::read_dir(server.dir.path().join(BUCKET).join("some/where/.cw")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["owner"]);
}
