//! How a repo is served: paused, limited, and by which agent.

use std::time::{Duration, Instant};

use protocol::Code;
use serde_json::{Value, json};

use crate::running::{Running, id, spec, spec_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_runs_no_more_tasks_than_its_limit() {
    let on = Running::start().await;
    let worker = on.worker(&["a", "b"]).await;
    on.change_repo("a", json!({"max_running": 2})).await.ok();
    for _ in 0..4 {
        on.submit(&spec("a")).await;
    }
    let first = worker.look().await.unwrap();
    worker.look().await.unwrap();
    assert!(worker.look().await.is_none(), "a is full");
    on.submit(&spec("b")).await;
    assert_eq!(worker.look().await.unwrap().grant["repo"], "b", "a full repo is skipped whole");
    let repo = on.get("/v1/repos/a").await.ok();
    assert_eq!((&repo["queued"], &repo["running"], &repo["max_running"]), (&json!(2), &json!(2), &json!(2)));
    first.exit(0).await.ok();
    assert!(worker.look().await.is_some());
    assert!(worker.look().await.is_none());
    on.change_repo("a", json!({"max_running": null})).await.ok();
    assert!(worker.look().await.is_some(), "no limit any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_repo_gives_nothing_until_it_is_resumed() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.change_repo("a", json!({"paused": true})).await.ok();
    let task = on.submit(&spec("a")).await;
    assert!(worker.look().await.is_none());
    let parked = tokio::spawn(async move { worker.lease().await });
    on.change_repo("a", json!({"paused": false})).await.ok();
    assert_eq!(parked.await.unwrap().task, task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_of_a_paused_repo_finishes() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let lease = worker.lease().await;
    on.change_repo("a", json!({"paused": true})).await.ok();
    lease.renew(0).await.ok();
    lease.exit(0).await.ok();
    assert_eq!(on.done(&lease.task).await["state"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_parked_workers_are_woken_when_a_repo_opens() {
    let on = Running::start().await;
    on.change_repo("a", json!({"paused": true})).await.ok();
    let mut parked = Vec::new();
    for _ in 0..6 {
        on.submit(&spec("a")).await;
        let worker = on.worker(&["a"]).await;
        parked.push(tokio::spawn(async move { worker.lease().await }));
    }
    on.seen(6).await;
    let since = Instant::now();
    on.change_repo("a", json!({"paused": false})).await.ok();
    for lease in parked {
        lease.await.unwrap();
    }
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn room_in_a_full_repo_wakes_a_worker_for_whatever_it_can_run() {
    let on = Running::start().await;
    on.change_repo("a", json!({"max_running": 1})).await.ok();
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    let running = worker.lease().await;
    on.submit(&spec("a")).await;
    let shell = on.submit(&spec_with("a", json!({"run": {"kind": "shell", "code": "ls"}}))).await;
    let only_shell = on.worker(&["a"]).await.runs(&["shell"]);
    let parked = tokio::spawn(async move { only_shell.lease().await });
    on.seen(2).await;
    let since = Instant::now();
    running.exit(0).await.ok();
    assert_eq!(parked.await.unwrap().task, shell);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_prompt_goes_to_the_repos_agent_else_to_the_coordinators() {
    let on = Running::start_with(|config| config.default_agent = "aider".into()).await;
    let prompt = |repo: &str| json!({"repo": repo, "run": {"kind": "agent", "prompt": "fix it"}});
    let agent = |task: Value| task["spec"]["run"]["agent"].clone();
    assert_eq!(agent(on.post("/v1/tasks", &prompt("a")).await.json(201)), "aider");
    on.change_repo("a", json!({"agent": "claude"})).await.ok();
    let task = on.post("/v1/tasks", &prompt("a")).await.json(201);
    assert_eq!(agent(on.task(&id(&task)).await), "claude");
    assert_eq!(agent(on.post("/v1/tasks", &prompt("b")).await.json(201)), "aider");
    on.change_repo("a", json!({"agent": null})).await.ok();
    assert_eq!(agent(on.post("/v1/tasks", &prompt("a")).await.json(201)), "aider");
    let named = json!({"repo": "a", "run": {"kind": "agent", "agent": "codex", "prompt": "fix it"}});
    assert_eq!(agent(on.post("/v1/tasks", &named).await.json(201)), "codex");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_repo_touches_only_what_it_names() {
    let on = Running::start().await;
    on.change_repo("a", json!({"agent": "claude", "max_running": 3, "paused": true})).await.ok();
    let changed = on.change_repo("a", json!({"max_running": null})).await.ok();
    let expected =
        json!({"repo": "a", "agent": "claude", "max_running": null, "paused": true, "queued": 0, "running": 0});
    assert_eq!(changed, expected);
    assert_eq!(on.get("/v1/repos/a").await.ok(), expected);
    for bad in [json!({"max_running": 0}), json!({"max_running": -1}), json!({"pause": true}), json!({"agent": "a b"})]
    {
        on.change_repo("a", bad).await.refused(Code::InvalidField);
    }
    assert_eq!(on.get("/v1/repos/a").await.ok(), expected);
}
