//! The queue-wide feed: state changes of all tasks, under numbers of their own.

use reqwest::Method;
use serde_json::json;

use crate::running::{Running, spec};
use crate::sse::Sse;

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_numbers_every_state_change_of_every_task_without_gaps() {
    let on = Running::start().await;
    let worker = on.worker(&["a", "b"]).await;
    let mut feed = Sse::open(&on, "/v1/events?after=0").await;
    for repo in ["a", "b", "a"] {
        on.submit(&spec(repo)).await;
    }
    for _ in 0..3 {
        let lease = worker.lease().await;
        lease.events(json!([crate::worker::output(1, "stdout", "not a state")])).await.ok();
        lease.exit(0).await.ok();
    }
    let told = feed.take(9).await;
    assert_eq!(told.iter().map(|frame| frame.id).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    assert!(told.iter().all(|frame| frame.event == "state"));
    for frame in &told {
        serde_json::from_value::<protocol::admin::FeedEvent>(frame.data.clone()).unwrap();
    }
    assert_eq!(Sse::open(&on, "/v1/events?after=0").await.take(9).await, told, "a replay is identical");
    assert_eq!(Sse::open_with(&on, "/v1/events", Some(4)).await.take(5).await, told[4..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_begins_now_unless_it_is_asked_from_where() {
    let on = Running::start().await;
    on.submit(&spec("a")).await;
    let mut feed = Sse::open(&on, "/v1/events").await;
    let task = on.submit(&spec("a")).await;
    assert_eq!(feed.next().await.unwrap().data["task"], json!(task));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_of_a_repo_tells_only_of_it() {
    let on = Running::start().await;
    let (_, of_b) = on.key(json!({"role": "client", "repos": ["b"]})).await;
    let mut by_filter = Sse::open(&on, "/v1/events?repo=b&after=0").await;
    let mut by_key = Sse::open_as(&on, &of_b, "/v1/events?after=0").await;
    // More of the other repo than a page of the store holds.
    for _ in 0..300 {
        on.submit(&spec("a")).await;
    }
    let task = on.submit(&spec("b")).await;
    for feed in [&mut by_filter, &mut by_key] {
        let first = feed.next().await.unwrap();
        assert_eq!((first.id, &first.data["task"], &first.data["repo"]), (301, &json!(task), &json!("b")));
    }
    let refused = on.ask(&of_b, Method::GET, "/v1/events?repo=a", None).await;
    refused.refused(protocol::Code::WrongRepo);
}
