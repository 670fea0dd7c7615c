//! Lists: pages without gaps or doubles, filters, and nothing bulky in them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::running::{Running, spec, spec_with};

/// All ids of a list, page by page.
async fn all(on: &Running, query: &str) -> Vec<String> {
    all_after(on, query, String::new()).await
}

async fn all_after(on: &Running, query: &str, mut cursor: String) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = on.get(&format!("{query}{cursor}")).await.ok();
        let items = page["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| item["id"].as_str().or(item["repo"].as_str()).unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_over_a_thousand_tasks_have_neither_gaps_nor_doubles_while_more_come() {
    let on = Running::start().await;
    let mut submitted = Vec::new();
    for _ in 0..1_000 {
        submitted.push(on.submit(&spec("a")).await);
    }
    submitted.reverse();
    for limit in [7, 50, 500] {
        assert_eq!(all(&on, &format!("/v1/tasks?limit={limit}")).await, submitted, "newest first");
    }
    let first = on.get("/v1/tasks?limit=400").await.ok();
    on.submit(&spec("a")).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = all_after(&on, "/v1/tasks?limit=400", format!("&cursor={cursor}")).await;
    assert_eq!(rest, submitted[400..], "what came meanwhile moves nothing");
    assert_eq!(on.get("/v1/tasks").await.ok()["items"].as_array().unwrap().len(), 50, "50 when nobody says");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_page_says_that_it_is_the_last() {
    let on = Running::start().await;
    for _ in 0..4 {
        on.submit(&spec("a")).await;
    }
    let page = on.get("/v1/tasks?limit=4").await.ok();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_cursor"]), (4, &Value::Null));
    assert!(on.get("/v1/tasks?limit=3").await.ok()["next_cursor"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_found_by_repo_state_session_label_and_worker() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let done = on.submit(&spec_with("a", json!({"labels": {"team": "x", "n": "1"}}))).await;
    worker.lease().await.exit(0).await.ok();
    let failed = on.submit(&spec_with("a", json!({"labels": {"team": "x"}, "session": "s"}))).await;
    worker.lease().await.exit(1).await.ok();
    let running = on.submit(&spec("a")).await;
    let other_worker = on.worker(&["a"]).await;
    other_worker.lease().await;
    let queued = on.submit(&spec_with("b", json!({"session": "t", "labels": {"team": "y=z"}}))).await;
    let cancelled = on.submit(&spec("b")).await;
    on.cancel(&cancelled).await.ok();
    let (first, second) = (worker.id(), other_worker.id());
    for (query, expected) in [
        ("repo=a", vec![&done, &failed, &running]),
        ("repo=b", vec![&queued, &cancelled]),
        ("repo=never-used", vec![]),
        ("state=queued", vec![&queued]),
        ("state=running", vec![&running]),
        ("state=completed", vec![&done]),
        ("state=failed", vec![&failed]),
        ("state=cancelled", vec![&cancelled]),
        ("state=timed_out", vec![]),
        ("session=s", vec![&failed]),
        ("session=t", vec![&queued]),
        ("label=team=x", vec![&done, &failed]),
        ("label=team%3Dx", vec![&done, &failed]),
        ("label=team=y=z", vec![&queued]),
        ("label=team=", vec![]),
        ("label=n=1&state=completed&repo=a", vec![&done]),
        ("label=team=x&repo=b", vec![]),
        (&format!("worker={first}"), vec![&done, &failed]),
        (&format!("worker={second}&state=running"), vec![&running]),
    ] {
        let expected: Vec<String> = expected.into_iter().rev().cloned().collect();
        assert_eq!(all(&on, &format!("/v1/tasks?limit=2&{query}")).await, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_leaves_out_code_files_stdin_event_and_result() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await.runs(&["python", "handler"]);
    let bulky = json!({
        "run": {"kind": "python", "code": "SECRET_code"}, "files": {"SECRET_file": "x"}, "stdin": "SECRET_stdin",
        "event": "SECRET_event", "args": ["shown"], "labels": {"k": "v"},
    });
    on.submit(&spec_with("a", bulky)).await;
    let lease = worker.lease().await;
    lease.events(json!([crate::worker::output(1, "stdout", "SECRET_output")])).await.ok();
    lease.exit(0).await.ok();
    let list = on.get("/v1/tasks").await;
    assert!(!list.text().contains("SECRET"), "{}", list.text());
    let row = list.ok()["items"][0].clone();
    assert_eq!(
        (&row["labels"], &row["spec"]["args"], &row["spec"]["run"]),
        (&json!({"k": "v"}), &json!(["shown"]), &json!({"kind": "python"}))
    );
    assert_eq!(row.get("result"), None);
    serde_json::from_value::<protocol::TaskView>(row).unwrap();
    assert!(on.task(&lease.task).await.to_string().contains("SECRET_code"), "the task itself has all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_prompt_is_cut_in_a_list() {
    let on = Running::start().await;
    on.submit(&json!({"repo": "a", "run": {"kind": "agent", "prompt": "ä".repeat(10_000)}})).await;
    let prompt = on.get("/v1/tasks").await.ok()["items"][0]["spec"]["run"]["prompt"].as_str().unwrap().to_owned();
    assert_eq!(prompt.chars().count(), 501);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_workers_and_repos_have_pages_too() {
    let on = Running::start().await;
    let mut workers = BTreeSet::new();
    for number in 0..7 {
        on.submit(&spec(&format!("r{number}"))).await;
        let worker = on.worker(&["x"]).await;
        worker.look().await;
        workers.insert(worker.id().to_owned());
    }
    for limit in [1, 3, 7, 8, 500] {
        assert_eq!(all(&on, &format!("/v1/workers?limit={limit}")).await.into_iter().collect::<BTreeSet<_>>(), workers);
        let repos: Vec<_> = (0..7).map(|number| format!("r{number}")).collect();
        assert_eq!(all(&on, &format!("/v1/repos?limit={limit}")).await, repos);
        assert_eq!(all(&on, &format!("/v1/keys?limit={limit}")).await.len(), 8);
    }
}
