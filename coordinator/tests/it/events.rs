//! What happened to a task, as a stream: numbered without gaps, the same at each replay, and ended by the last state.

use protocol::Code;
use serde_json::{Value, json};

use crate::running::{Running, spec};
use crate::sse::{Frame, Sse};
use crate::worker::{Lease, output};

fn path(task: &str) -> String {
    format!("/v1/tasks/{task}/events")
}

async fn leased(on: &Running) -> Lease {
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    worker.lease().await
}

fn ids(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_every_event_live_and_ends_after_the_last_state() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    let task = on.submit(&spec("a")).await;
    let mut live = Sse::open(&on, &path(&task)).await;
    assert_eq!(live.next().await.unwrap().data["state"], "queued");
    let lease = worker.lease().await;
    let running = live.next().await.unwrap();
    assert_eq!(
        (&running.data["state"], &running.data["worker"], &running.data["attempt"]),
        (&json!("running"), &json!(worker.id()), &json!(1))
    );
    let batch = json!([
        output(1, "stdout", "a\nb"),
        output(2, "stderr", "ä"),
        {"number": 3, "type": "progress", "data": {"done": 1}},
        {"number": 4, "type": "tool", "data": {"name": "edit"}},
        {"number": 5, "type": "message", "data": "line\n\nline"},
        {"number": 6, "type": "usage", "data": null},
        {"number": 7, "type": "error", "data": ["x"]},
    ]);
    assert_eq!(lease.events(batch).await.ok(), json!({"accepted": 7}));
    let told = live.take(7).await;
    assert_eq!(told[0].data, json!({"stream": "stdout", "text": "a\nb"}));
    assert_eq!(told[1].data, json!({"stream": "stderr", "text": "ä"}));
    let kinds: Vec<_> = told.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(kinds, ["output", "output", "progress", "tool", "message", "usage", "error"]);
    let data: Vec<_> = told[2..].iter().map(|frame| frame.data.clone()).collect();
    assert_eq!(data, [json!({"done": 1}), json!({"name": "edit"}), json!("line\n\nline"), Value::Null, json!(["x"])]);
    lease.exit(0).await.ok();
    let last = live.next().await.unwrap();
    assert_eq!((last.id, &last.data["state"], &last.data["reason"]), (10, &json!("completed"), &json!("ok")));
    assert_eq!(live.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_begin_at_one_without_gaps_and_a_replay_is_identical() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let live = tokio::spawn({
        let stream = Sse::open(&on, &path(&lease.task)).await;
        stream.rest()
    });
    // More than a page of the store, in many batches.
    for batch in 0..100 {
        let events: Vec<_> =
            (1..=10).map(|place| output(batch * 10 + place, "stdout", &format!("{batch}.{place}\n"))).collect();
        lease.events(json!(events)).await.ok();
    }
    lease.exit(0).await.ok();
    let live = live.await.unwrap();
    assert_eq!(ids(&live), (1..=1_003).collect::<Vec<_>>());
    for _ in 0..2 {
        assert_eq!(Sse::open(&on, &path(&lease.task)).await.rest().await, live);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_after_the_number_that_was_seen_last() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let events: Vec<_> = (1..=5).map(|number| output(number, "stdout", "x")).collect();
    lease.events(json!(events)).await.ok();
    lease.exit(0).await.ok();
    let all = Sse::open(&on, &path(&lease.task)).await.rest().await;
    for seen in [0, 1, 4, 7] {
        let by_header = Sse::open_with(&on, &path(&lease.task), Some(seen)).await.rest().await;
        let by_parameter = Sse::open(&on, &format!("{}?after={seen}", path(&lease.task))).await.rest().await;
        assert_eq!((&by_header[..], &by_parameter[..]), (&all[usize::try_from(seen).unwrap()..], &by_header[..]));
    }
    let both = Sse::open_with(&on, &format!("{}?after=1", path(&lease.task)), Some(6)).await.rest().await;
    assert_eq!(ids(&both), [7, 8], "a browser that reconnects sends both: its header is the newer one");
    for over in [8, 9, u64::MAX] {
        assert_eq!(Sse::open_with(&on, &path(&lease.task), Some(over)).await.rest().await, [], "nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_every_attempt() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    lease.events(json!([output(1, "stdout", "first")])).await.ok();
    lease.release().await.ok();
    let again = lease.worker.lease().await;
    again.events(json!([output(1, "stdout", "second")])).await.ok();
    again.exit(0).await.ok();
    let told = Sse::open(&on, &path(&lease.task)).await.rest().await;
    assert_eq!(ids(&told), (1..=7).collect::<Vec<_>>());
    let states: Vec<_> =
        told.iter().filter(|frame| frame.event == "state").map(|frame| frame.data["state"].clone()).collect();
    assert_eq!(states, ["queued", "running", "queued", "running", "completed"]);
    assert_eq!(on.task(&lease.task).await["result"]["stdout"], "second", "the result is the last attempt's");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_one_stream_hear_the_same() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(tokio::spawn(Sse::open(&on, &path(&lease.task)).await.rest()));
    }
    for number in 1..=50 {
        lease.events(json!([output(number, "stdout", "x")])).await.ok();
    }
    lease.exit(0).await.ok();
    for reader in readers {
        assert_eq!(ids(&reader.await.unwrap()), (1..=53).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_batch_is_harmless_and_an_overlapping_one_adds_what_is_new() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let first = json!([output(1, "stdout", "1"), output(2, "stdout", "2")]);
    for _ in 0..3 {
        assert_eq!(lease.events(first.clone()).await.ok(), json!({"accepted": 2}));
    }
    let overlapping = json!([output(2, "stdout", "other"), output(3, "stdout", "3")]);
    assert_eq!(lease.events(overlapping).await.ok(), json!({"accepted": 3}));
    assert_eq!(lease.events(json!([])).await.ok(), json!({"accepted": 3}));
    lease.exit(0).await.ok();
    assert_eq!(on.task(&lease.task).await["result"]["stdout"], "123");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_refused_with_the_expected_number_and_nothing_of_its_batch_is_kept() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    for (batch, expected) in [
        (json!([output(2, "stdout", "x")]), 1),
        (json!([output(1, "stdout", "x"), output(3, "stdout", "x")]), 2),
        (json!([output(u64::MAX, "stdout", "x")]), 1),
    ] {
        assert_eq!(lease.events(batch).await.refused(Code::EventGap).expected, Some(expected));
    }
    lease.events(json!([output(1, "stdout", "ok")])).await.ok();
    let early = lease.report(&json!({"outcome": {"exited": {"code": 0}}, "last_event": 3})).await;
    assert_eq!(early.refused(Code::EventGap).expected, Some(2), "a report waits for its events");
    assert_eq!(on.task(&lease.task).await["state"], "running");
    lease.events(json!([output(2, "stdout", "!"), output(3, "stdout", "!")])).await.ok();
    lease.report(&json!({"outcome": {"exited": {"code": 0}}, "last_event": 3})).await.ok();
    assert_eq!(on.task(&lease.task).await["result"]["stdout"], "ok!!");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_event_is_refused_and_nothing_of_its_batch_is_kept() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    for bad in [
        json!({"number": 2, "type": "state", "data": {"state": "completed"}}),
        json!({"number": 2, "type": "output", "stream": "stdin", "text": "x"}),
        json!({"number": 2, "type": "output", "stream": "stdout"}),
        json!({"number": 2, "type": "output", "stream": "stdout", "base64": "%%%"}),
        json!({"number": -2, "type": "progress", "data": 1}),
        json!({"type": "progress", "data": 1}),
        json!("event"),
    ] {
        lease.events(json!([output(1, "stdout", "x"), bad])).await.refused(Code::InvalidField);
    }
    assert_eq!(lease.events(json!([])).await.ok(), json!({"accepted": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_cannot_add_more_events_than_its_budget() {
    let on = Running::start().await;
    let worker = on.worker(&["a"]).await;
    on.submit(&crate::running::spec_with("a", json!({"limits": {"output_bytes": 1}}))).await;
    let lease = worker.lease().await;
    let text = "x".repeat(60_000);
    let mut number = 0;
    let refused = loop {
        number += 1;
        let answer = lease.events(json!([output(number, "stdout", &text)])).await;
        if answer.status != 200 {
            break answer;
        }
        assert!(number < 400, "16 MiB besides the output are allowed");
    };
    refused.refused(Code::TooLarge);
    assert!(number > 270, "{number}");
    assert_eq!(lease.events(json!([])).await.ok(), json!({"accepted": number - 1}));
    lease.report(&json!({"outcome": "output_limit"})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_is_kept_alive_within_the_patience_of_relays() {
    let keep_alive = coordinator::http::events::KEEP_ALIVE;
    assert!(keep_alive <= std::time::Duration::from_secs(15), "{keep_alive:?}");
    assert!(
        coordinator::http::events::COMMENT.starts_with(':') && coordinator::http::events::COMMENT.ends_with("\n\n")
    );
}
