//! Sessions: whose they are, snapshots, forks, and their end.

use protocol::Code;
use reqwest::Method;
use serde_json::json;

use crate::files::Files;
use crate::running::{Running, eventually, kept, spec_with};

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_never_see_each_other() {
    let on = Running::start().await;
    let (one, two) = (Files::of(&on, "one"), Files::of(&on, "two"));
    one.write("hello.txt", "1").await;
    two.write("hello.txt", "2").await;
    assert_eq!((one.text("hello.txt").await, two.text("hello.txt").await), ("1".to_owned(), "2".to_owned()));
    Files::of(&on, "three").read("hello.txt").await.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_one_repo_and_others_are_refused() {
    let on = Running::start().await;
    let (_, a) = on.key(json!({"role": "client", "repos": ["a"]})).await;
    let (_, b) = on.key(json!({"role": "client", "repos": ["b"]})).await;
    let (_, both) = on.key(json!({"role": "client", "repos": ["a", "b"]})).await;
    let (_, worker) = on.key(json!({"role": "worker", "repos": ["a"]})).await;
    let as_a = Files { key: &a, ..Files::of(&on, "s") };
    as_a.write("f", "1").await;
    assert_eq!(as_a.get("", &[]).await.ok()["repo"], "a");
    let as_b = Files { key: &b, ..as_a };
    as_b.read("f").await.refused(Code::WrongRepo);
    as_b.put("f", b"2", &[]).await.refused(Code::WrongRepo);
    as_b.post("/exec", json!({"command": "ls"})).await.refused(Code::WrongRepo);
    on.ask(&b, Method::POST, "/v1/tasks", Some(&spec_with("b", json!({"session": "s"}))))
        .await
        .refused(Code::WrongRepo);
    on.ask(&b, Method::POST, "/v1/workspaces", Some(&json!({"session": "s"}))).await.refused(Code::WrongRepo);
    assert_eq!(on.ask(&b, Method::GET, "/v1/workspaces", None).await.ok()["items"], json!([]));
    Files { key: &worker, ..as_a }.read("f").await.refused(Code::WrongRole);
    assert_eq!(Files { key: &both, ..as_a }.text("f").await, "1");
    Files { key: &both, ..Files::of(&on, "new") }.put("f", b"1", &[]).await.refused(Code::NotFound);
    on.ask(&both, Method::POST, "/v1/workspaces", Some(&json!({"session": "new", "repo": "b"}))).await.json(201);
    Files { key: &both, ..Files::of(&on, "new") }.write("f", "1").await;
    on.submit(&spec_with("c", json!({"session": "by-task"}))).await;
    assert_eq!(Files::of(&on, "by-task").get("", &[]).await.ok()["repo"], "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_made_with_labels_and_quota_and_found_by_them_in_pages() {
    let on = Running::start_with(|config| {
        config.sessions.rules.layout = vec!["repos".parse().unwrap(), "a/b".parse().unwrap()]
    })
    .await;
    for number in 0..5 {
        let new = json!({"session": format!("s{number}"), "repo": "a", "labels": {"n": format!("{}", number % 2)}, "quota_bytes": 10});
        let made = on.post("/v1/workspaces", &new).await.json(201);
        assert_eq!((made["allowed_bytes"].as_u64(), made["entries"].as_u64()), (Some(10), Some(3)));
    }
    assert_eq!(Files::of(&on, "s0").names("").await, ["a", "repos", "skills", "utils"]);
    on.post("/v1/workspaces", &json!({"session": "s0"})).await.refused(Code::Conflict);
    let page = on.get("/v1/workspaces?limit=2").await.ok();
    assert_eq!(page["next_cursor"], "s1");
    assert_eq!(on.get("/v1/workspaces?limit=2&cursor=s3").await.ok()["items"][0]["session"], "s4");
    assert_eq!(on.get("/v1/workspaces?label=n=1").await.ok()["items"].as_array().unwrap().len(), 2);
    assert_eq!(on.get("/v1/workspaces?repo=b").await.ok()["items"], json!([]));
    on.post("/v1/workspaces", &json!({"session": "x", "labels": {"a b": "c"}})).await.refused(Code::InvalidField);
    on.post("/v1/workspaces", &json!({"session": "x", "quota": 1})).await.refused(Code::InvalidField);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_read_forked_and_restored() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("f", "old").await;
    files.post("/snapshots", json!({"name": "before"})).await.json(201);
    files.post("/snapshots", json!({"name": "before"})).await.refused(Code::Conflict);
    files.post("/snapshots", json!({"name": "task_x"})).await.refused(Code::InvalidField);
    files.post("/snapshots", json!({"name": "../x"})).await.refused(Code::InvalidField);
    files.write("f", "new").await;
    files.write("g", "new").await;
    let old = files.get("/files/content", &[("path", "f"), ("snapshot", "before")]).await.ok();
    assert_eq!(old["content"], "old");
    files.get("/files", &[("snapshot", "never")]).await.refused(Code::NotFound);
    let fork = files.post("/fork", json!({"session": "t", "snapshot": "before", "labels": {"k": "v"}})).await.json(201);
    assert_eq!((fork["session"].as_str(), fork["used_bytes"].as_u64()), (Some("t"), Some(3)));
    assert_eq!(Files::of(&on, "t").text("f").await, "old");
    files.post("/fork", json!({"session": "t"})).await.refused(Code::Conflict);
    let restored = files.post("/restore", json!({"snapshot": "before"})).await.ok();
    assert_eq!((restored["version"].as_u64(), restored["changed"].as_u64()), (Some(4), Some(2)));
    assert_eq!(files.names("").await, ["skills", "utils", "f"]);
    assert_eq!(files.get("/snapshots", &[]).await.ok()["items"][0]["name"], "before");
    assert_eq!(files.send(Method::DELETE, "/snapshots/before", &[], &[]).await.status, 204);
    files.post("/restore", json!({"snapshot": "before"})).await.refused(Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_deleted_only_when_nobody_works_in_it_and_its_blobs_are_swept() {
    let on = Running::start().await;
    let files = Files::of(&on, "s");
    files.write("f", "1").await;
    let task = on.submit(&spec_with("a", json!({"session": "s"}))).await;
    let problem = files.send(Method::DELETE, "", &[], &[]).await.refused(Code::SessionBusy);
    assert_eq!(problem.holder.unwrap().to_string(), task);
    on.cancel(&task).await.ok();
    files.send(Method::DELETE, "", &[], &[]).await.ok();
    files.read("f").await.refused(Code::NotFound);
    let on = Running::start_in(on.stop().await, |config| config.retention = kept(YEAR_MS, YEAR_MS)).await;
    let blobs = || std::fs::read_dir(on.dir.path().join("objects/blobs")).unwrap().count();
    eventually("the blobs are swept", async || (blobs() == 0).then_some(())).await;
}

const YEAR_MS: i64 = 365 * 86_400_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_nobody_uses_expires() {
    let on = Running::start().await;
    Files::of(&on, "s").write("f", "1").await;
    let on = Running::start_in(on.stop().await, |config| config.retention.sessions_ms = Some(0)).await;
    eventually("the session expires", async || {
        (on.get("/v1/workspaces").await.ok()["items"] == json!([])).then_some(())
    })
    .await;
}
