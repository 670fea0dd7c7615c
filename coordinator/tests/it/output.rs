//! Output: raw while it runs, head and tail in the result, and never a byte changed on the way.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::running::{Running, spec};
use crate::worker::{Lease, output};

async fn leased(on: &Running) -> Lease {
    let worker = on.worker(&["a"]).await;
    on.submit(&spec("a")).await;
    worker.lease().await
}

/// Sends output in batches that the coordinator takes.
async fn write(lease: &Lease, stream: &str, bytes: &[u8]) {
    for (place, piece) in bytes.chunks(30_000).enumerate() {
        let event =
            json!({"number": place + 1, "type": "output", "stream": stream, "base64": BASE64_STANDARD.encode(piece)});
        lease.events(json!([event])).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_can_be_read_raw_while_the_task_runs() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let read = async |query: &str| on.get(&format!("/v1/tasks/{}/output{query}", lease.task)).await;
    assert_eq!(read("").await.text(), "");
    lease.events(json!([output(1, "stdout", "one\n"), output(2, "stderr", "two\n")])).await.ok();
    let raw = read("?stream=stdout").await;
    assert_eq!((raw.status, raw.text().as_str()), (200, "one\n"));
    assert_eq!(raw.headers["content-type"], "application/octet-stream");
    assert_eq!(read("?stream=stderr").await.text(), "two\n");
    lease.events(json!([output(3, "stdout", "three\n")])).await.ok();
    assert_eq!(read("").await.text(), "one\nthree\n", "stdout when nobody says");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_text_come_back_unchanged() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let all: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    write(&lease, "stdout", &all).await;
    let raw = on.get(&format!("/v1/tasks/{}/output", lease.task)).await;
    assert!(raw.bytes == all, "{} bytes came back", raw.bytes.len());
    lease.exit(0).await.ok();
    let raw = on.get(&format!("/v1/tasks/{}/output", lease.task)).await;
    assert!(raw.bytes == all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_shows_head_and_tail_of_long_output_and_counts_what_is_missing() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    // Three bytes a character, so that neither half a mebibyte nor a piece ends at one.
    let text = "€".repeat(1 << 20);
    write(&lease, "stdout", text.as_bytes()).await;
    let report = json!({"outcome": {"exited": {"code": 0}}, "written_bytes": {"stdout": text.len(), "stderr": 0}});
    lease.report(&report).await.ok();
    let result = on.task(&lease.task).await["result"].clone();
    let shown = result["stdout"].as_str().unwrap();
    let (head, rest) = shown.split_once('\n').unwrap();
    let (line, tail) = rest.split_once('\n').unwrap();
    assert!(head.chars().chain(tail.chars()).all(|character| character == '€'), "never a split character");
    let ends = head.len() + tail.len();
    assert!(ends <= 1 << 20 && ends > (1 << 20) - 8, "{ends}");
    assert_eq!(line, format!("[… {} bytes left out …]", text.len() - ends), "nobody takes the ends for one text");
    let count = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    assert_eq!(count(&result["written_bytes"]["stdout"]), text.len());
    assert_eq!(count(&result["dropped_bytes"]["stdout"]), text.len() - ends);
    assert_eq!(count(&result["dropped_bytes"]["stderr"]), 0);
    let raw = on.get(&format!("/v1/tasks/{}/output", lease.task)).await;
    assert!(raw.bytes == text.as_bytes(), "all of it can still be read raw");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_shows_short_output_whole_and_its_two_ends_in_order() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    let lines: String = (0..100_000).map(|number| format!("{number:08}\n")).collect();
    assert!(lines.len() < 1 << 20);
    write(&lease, "stderr", lines.as_bytes()).await;
    lease.exit(0).await.ok();
    let result = on.task(&lease.task).await["result"].clone();
    assert!(result["stderr"] == json!(lines));
    assert_eq!(result["dropped_bytes"], json!({"stdout": 0, "stderr": 0}));

    on.submit(&spec("a")).await;
    let lease = lease.worker.lease().await;
    let lines: String = (0..200_000).map(|number| format!("{number:08}\n")).collect();
    write(&lease, "stdout", lines.as_bytes()).await;
    lease.exit(0).await.ok();
    let result = on.task(&lease.task).await["result"].clone();
    let shown = result["stdout"].as_str().unwrap();
    let seam = shown.find("\n[… ").unwrap();
    let after = seam + shown[seam..].find("…]\n").unwrap() + "…]\n".len();
    assert!(lines.starts_with(&shown[..seam]) && lines.ends_with(&shown[after..]));
    assert_eq!((seam, shown.len() - after), (1 << 19, 1 << 19));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_says_what_the_worker_dropped_and_used() {
    let on = Running::start().await;
    let lease = leased(&on).await;
    lease.events(json!([output(1, "stdout", "kept")])).await.ok();
    let usage = json!({"wall_ms": 12, "cpu_ms": 3, "peak_memory_bytes": null, "source": "rusage"});
    let report = json!({
        "outcome": {"exited": {"code": 0}}, "last_event": 1, "written_bytes": {"stdout": 1000, "stderr": 5},
        "dropped_bytes": {"stdout": 996}, "return_value": {"answer": [42, null]}, "usage": usage, "confinement": "bwrap",
    });
    lease.report(&report).await.ok();
    let result = on.task(&lease.task).await["result"].clone();
    assert_eq!(result["dropped_bytes"], json!({"stdout": 996, "stderr": 5}));
    assert_eq!((&result["return_value"], &result["usage"]), (&report["return_value"], &report["usage"]));
    assert_eq!((&result["confinement"], &result["artifacts"]), (&json!("bwrap"), &json!([])));
}
