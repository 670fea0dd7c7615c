//! Files of tasks in a bucket of a real S3 server, through the whole coordinator, and its program's settings of it.

use std::process::Command;

use coordinator::objects::s3::{Patience, Secret, Settings};
use protocol::Code;
use reqwest::Method;

use crate::running::{Running, spec};

// The same servers as those of the object stores' own suite.
#[path = "../../src/objects/tests/servers.rs"]
#[allow(dead_code, reason = "not all of them are needed here")]
mod servers;
use servers::{ACCESS_KEY, BUCKET, SECRET_KEY, Server, settings};

fn patient(settings: Settings) -> Settings {
    Settings {
        patience: Patience { retries: 2, ..settings.patience },
        secret_key: Secret(SECRET_KEY.into()),
        ..settings
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_tasks_come_from_the_bucket_and_the_disk_keeps_none() {
    let server = Server::rclone();
    let settings = patient(settings(&server.url));
    let on = Running::start_with(|config| config.s3 = Some(settings)).await;
    on.submit(&spec("a")).await;
    let lease = on.worker(&["a"]).await.lease().await;
    lease.renew(0).await.ok();
    let bytes = vec![7; 700_000];
    lease.upload("output/x.bin", &bytes).await.ok();
    lease.exit(0).await.ok();
    let path = format!("/v1/tasks/{}/artifacts/output/x.bin", lease.task);
    assert_eq!(on.get(&path).await.bytes, bytes);
    let blobs = server.dir.path().join(BUCKET).join("some/where/.cw/blobs");
    assert_eq!(std::fs::read_dir(&blobs).unwrap().count(), 1);
    for part in ["blobs", "incoming"] {
        assert_eq!(std::fs::read_dir(on.dir.path().join("objects").join(part)).unwrap().count(), 0);
    }
    server.kill();
    on.get(&path).await.refused(Code::Unavailable);
    let still = on.ask(&on.admin, Method::GET, "/v1/tasks", None).await;
    assert_eq!(still.status, 200, "without its bucket it serves all else");
}

/// What the program says when it cannot start.
fn refusal(variables: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cw-coordinator"));
    command.env_clear().env("CW_STATE_DIR", dir.path()).env("CW_LISTEN", "127.0.0.1:0").env("CW_WORKER_LISTEN", "none");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains(SECRET_KEY) && !said.contains("guess"), "{said}");
    said
}

#[test]
fn the_program_says_what_is_wrong_with_its_bucket() {
    let server = Server::rclone();
    let right = [
        ("CW_S3_BUCKET", BUCKET),
        ("CW_S3_ENDPOINT", &server.url),
        ("CW_S3_ACCESS_KEY", ACCESS_KEY),
        ("CW_S3_PREFIX", "p"),
    ];
    let with = |more: &[(&str, &str)]| refusal(&[&right[..], more].concat());
    let said = with(&[]);
    assert!(said.contains("CW_S3_SECRET_KEY is missing, as is CW_S3_SECRET_KEY_FILE"), "{said}");
    let said = with(&[("CW_S3_SECRET_KEY", "guess")]);
    assert!(
        said.contains("checking the object store") && said.contains("check the secret in CW_S3_SECRET_KEY"),
        "{said}"
    );
    let said = with(&[("CW_S3_SECRET_KEY", SECRET_KEY), ("CW_S3_SECRET_KEY_FILE", "/x")]);
    assert!(said.contains("leave one out"), "{said}");
    let said = with(&[("CW_S3_SECRET_KEY_FILE", "/nowhere/key")]);
    assert!(said.contains("reading /nowhere/key"), "{said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET_KEY}\n")).unwrap();
    let said = with(&[("CW_S3_SECRET_KEY_FILE", file.path().to_str().unwrap()), ("CW_S3_BUCKET", "none")]);
    assert!(said.contains("bucket none"), "{said}");
}
